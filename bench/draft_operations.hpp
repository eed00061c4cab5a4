// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/executor/host.hpp>
#include <hunch/kernel/ancestor_masks.hpp>
#include <hunch/kernel/find_match.hpp>
#include <hunch/kernel/tree_links.hpp>

#include "common.hpp"

/// \file
/// The operations on drafts that are no model's work, on one thread of the host.

namespace bench {

/// The search of a lookup drafter as a plain loop: from the end backwards, until there is a longest
/// tail.
inline hunch::kernel::text_match plain_match(const std::vector<hunch::token>& text,
                                             std::int32_t longest) {
  const auto n = static_cast<std::int32_t>(text.size());
  const hunch::token* const end = text.data() + n;
  hunch::kernel::text_match best;
  for (std::int32_t next = n - 1; next > 0 && best.length < longest; --next) {
    const hunch::token* const behind = text.data() + next;
    const std::int32_t most = std::min(longest, next);
    std::int32_t length = 0;
    while (length < most && behind[-1 - length] == end[-1 - length]) { ++length; }
    if (length > best.length) { best = {length, next}; }
  }
  return best;
}

/// A text of 100,000 tokens with the frequencies of a language, whose last tokens are new.
inline std::vector<hunch::token> text_like(std::uint64_t seed) {
  constexpr std::int32_t vocab = 32000;
  std::vector<hunch::token> text;
  while (text.size() < 100000) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    // A product of two uniforms: small ids are frequent.
    const std::uint64_t a = seed >> 48;
    const std::uint64_t b = seed >> 32 & 0xffff;
    text.push_back(static_cast<hunch::token>((a * b >> 16) * vocab >> 16));
  }
  return text;
}

inline void measure_lookup(report& out) {
  using namespace hunch;
  constexpr std::int32_t longest = 4;
  const std::vector<token> text = text_like(1);
  volatile std::int32_t seen = 0;
  team::serial team;
  const timings times =
      interleave(51, memory::warm,
                 {[&] {
                    seen = kernel::longest_match<longest>(team, text.data(),
                                                          static_cast<std::int32_t>(text.size()))
                               .next;
                  },
                  [&] { seen = plain_match(text, longest).next; }});
  out.add("lookup: the longest tail in 100,000 tokens", 1e6 * median(times[0]), "us", at_most(200));
  out.add("lookup: the plain loop over it", median_ratio(times[1], times[0]), "x");
}

inline void measure_tree_operations(report& out) {
  using namespace hunch;
  constexpr std::int32_t nodes = 60;
  constexpr int repeats = 100;  // one takes less than what a clock tells apart
  std::vector<std::int32_t> parents{-1};
  for (std::int32_t i = 1; i < nodes; ++i) { parents.push_back(std::max(0, i - 1 - i * 7 % 11)); }
  std::vector<std::uint32_t> masks(static_cast<std::size_t>(nodes * mask_words(nodes)));
  std::vector<std::int32_t> levels(nodes), child(nodes), sibling(nodes);
  executor::host host;
  const tree_parents trees{1, nodes, nullptr, parents.data()};
  const timings times = interleave(51, memory::warm, {[&] {
                                     for (int i = 0; i < repeats; ++i) {
                                       ancestor_masks(host, {trees, masks.data(), levels.data()});
                                       tree_links(host, {trees, child.data(), sibling.data()});
                                     }
                                   }});
  out.add("masks and links of a tree of 60 nodes", 1e6 * median(times[0]) / repeats, "us",
          at_most(5));
}

}  // namespace bench
