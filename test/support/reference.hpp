// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hunch/generation.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/types.hpp>
#include "hash.hpp"
#include "toy_world.hpp"

/// \file
/// What the library must compute, written a second time from the definitions and without it:
/// std::exp, a full sort, plain sums.

namespace hunch::test {

/// The ids of a row, most probable first, the lower id first on ties.
inline std::vector<std::int32_t> by_rank(const std::vector<double>& logits) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return ids;
}

/// Which of the three restrictions a sampler has, in the order temperature, top-k, top-p.
inline std::vector<double> reference_law(const std::vector<double>& logits,
                                         const sampling_parameters& with) {
  const std::vector<std::int32_t> ids = by_rank(logits);
  const auto at = [](std::int32_t id) { return static_cast<std::size_t>(id); };
  std::vector<double> law(logits.size(), 0.0);
  const double temperature = with.temperature;
  if (temperature == 0.0) {
    law[at(ids[0])] = 1.0;
    return law;
  }
  const double top = logits[at(ids[0])];
  std::size_t kept = ids.size();
  if (with.top_k > 0) { kept = std::min(kept, static_cast<std::size_t>(with.top_k)); }
  double mass = 0.0;
  for (std::size_t r = 0; r < kept; ++r) {
    law[at(ids[r])] = std::exp((logits[at(ids[r])] - top) / temperature);
    mass += law[at(ids[r])];
  }
  if (with.top_p < 1.0f) {
    const double wanted = static_cast<double>(with.top_p) * mass;
    double held = 0.0;
    std::size_t r = 0;
    while (r < kept && held < wanted) { held += law[at(ids[r++])]; }
    for (; r < kept; ++r) { law[at(ids[r])] = 0.0; }
    mass = held;
  }
  for (double& p : law) { p /= mass; }
  return law;
}

using text = std::vector<token>;
using law_of_texts = std::map<text, double>;

/// When plain decoding ends.
struct ending {
  std::int32_t length = 1;
  std::vector<token> stop_tokens = {};
  std::vector<std::string> stop_strings = {};
  std::string (*bytes)(token) = nullptr;

  bool ends(std::span<const token> emitted) const {
    if (std::ssize(emitted) >= length) { return true; }
    if (std::ranges::find(stop_tokens, emitted.back()) != stop_tokens.end()) { return true; }
    if (stop_strings.empty()) { return false; }
    std::string whole;
    for (const token t : emitted) { whole += bytes(t); }
    return std::ranges::any_of(
        stop_strings, [&](const std::string& s) { return whole.find(s) != std::string::npos; });
  }
};

/// Calls visit(text, probability) for every text that plain decoding can emit after `prompt`.
template <class Visit>
void plain_decoding(const toy_world& world, const sampling_parameters& with,
                    std::span<const token> prompt, const ending& end, Visit&& visit) {
  text emitted;
  const auto walk = [&](auto&& self, std::uint64_t hash, double probability) -> void {
    const std::vector<double> law = reference_law(world.logits(hash), with);
    for (std::int32_t v = 0; v < world.vocab; ++v) {
      const double p = probability * law[static_cast<std::size_t>(v)];
      if (law[static_cast<std::size_t>(v)] <= 0.0) { continue; }
      emitted.push_back(v);
      if (end.ends(emitted)) {
        visit(std::as_const(emitted), p);
      } else {
        self(self, extend(hash, v), p);
      }
      emitted.pop_back();
    }
  };
  walk(walk, hash_of(prompt), 1.0);
}

/// The autoregressive law: every text with its probability.
inline law_of_texts autoregressive_law(const toy_world& world, const sampling_parameters& with,
                                       std::span<const token> prompt, const ending& end) {
  law_of_texts law;
  plain_decoding(world, with, prompt, end,
                 [&](const text& emitted, double p) { law[emitted] += p; });
  return law;
}

/// The largest difference of two laws in one text.
inline double distance(const law_of_texts& a, const law_of_texts& b) {
  double largest = 0.0;
  const auto against = [&largest](const law_of_texts& one, const law_of_texts& other) {
    for (const auto& [key, p] : one) {
      const auto found = other.find(key);
      const double q = found == other.end() ? 0.0 : found->second;
      const double gap = std::abs(p - q);
      largest = gap <= largest ? largest : gap;  // a NaN becomes the largest
    }
  };
  against(a, b);
  against(b, a);
  return largest;
}

}  // namespace hunch::test
