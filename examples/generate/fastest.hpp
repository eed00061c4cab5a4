// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "generate/median.hpp"

namespace generate {

/// Of a text that canvases are tried on.
inline constexpr std::int32_t tokens_of_a_try = 48;

/// The number of canvases with drafts that is the fastest, 0 where none pays: a pass that holds
/// more of them takes longer. Numbers take turns; drafts have to be faster than none by 3 %.
/// \param most  that the decoder can hold.
/// \param rate  rate(n): the tokens per second of a text with so many of them.
template <class Rate>
std::int32_t fastest_number(std::int32_t most, const Rate& rate) {
  constexpr int rounds = 3;
  constexpr double margin = 1.03;
  const std::array<std::int32_t, 5> candidates{0, 1, 2, 4, most};
  std::array<std::vector<double>, candidates.size()> rates;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) { rates[i].push_back(rate(candidates[i])); }
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (median(rates[i]) > median(rates[best]) * (best == 0 ? margin : 1.0)) { best = i; }
  }
  return candidates[best];
}

}  // namespace generate
