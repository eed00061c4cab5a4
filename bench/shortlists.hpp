// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace bench {

/// A ranking with the byte pieces after all other tokens. It has them in front so that any text
/// can be drafted; here they would take the place of words that are more frequent.
inline hunch::vocab_layout by_frequency_alone(const hunch::vocab_layout& ranked) {
  constexpr hunch::token first_byte = 3;
  constexpr hunch::token last_byte = 258;
  std::vector<hunch::token> order(ranked.row_token(), ranked.row_token() + ranked.head_rows());
  std::stable_partition(order.begin(), order.end(),
                        [](hunch::token t) { return t < first_byte || t > last_byte; });
  return hunch::vocab_layout::permuted(std::move(order), ranked.vocab_size());
}

/// " 5 %"
inline std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, " %g %%", 100.0 * share);
  return text;
}

}  // namespace bench
