// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/draft/ancestor_masks.hpp>
#include <hunch/draft/find_match.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/draft/tree_links.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/team/serial.hpp>

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
    const hunch::token* const after = text.data() + next;
    const std::int32_t most = std::min(longest, next);
    std::int32_t length = 0;
    while (length < most && after[-1 - length] == end[-1 - length]) { ++length; }
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

/// EAGLE-2's tree of 60 nodes, without the models: every node has ten candidates, whose values it
/// makes up as the tree grows.
class grown_tree {
 public:
  static constexpr std::int32_t top_k = 10;
  static constexpr std::int32_t nodes = 60;

  grown_tree() {
    for (std::size_t c = 0; c < child_.size(); ++c) { child_[c] = static_cast<hunch::token>(c); }
    tree_ = {.top_k = top_k,
             .first = 0,
             .count = &count_,
             .tokens = tokens_.data(),
             .parent = parent_.data(),
             .value = value_.data(),
             .child = child_.data(),
             .child_value = child_value_.data(),
             .node_of = node_of_.data(),
             .grown_as = grown_as_.data(),
             .kept_as = kept_as_.data(),
             .best = best_.data()};
  }

  grown_tree(const grown_tree&) = delete;  // it points into itself

  /// Five expansions and the re-ranking.
  void grow() {
    hunch::team::serial team;
    count_ = 1;
    value_[0] = 1.0f;
    tree_.first = 0;
    for (int level = 1; level < 6; ++level) {
      give_candidates();
      hunch::kernel::expand_dynamic{&tree_, top_k}(team, 0);
      tree_.first = level == 1 ? 1 : tree_.first + top_k;
    }
    give_candidates();
    hunch::kernel::keep_best{&tree_, nodes - 1}(team, 0);
  }
  hunch::tree_parents parents() const {
    return {.batch = 1, .nodes = nodes, .counts = nullptr, .parents = parent_.data()};
  }

 private:
  static constexpr std::int32_t inner = 1 + 5 * top_k;  ///< nodes that have candidates

  void give_candidates() {
    for (std::int32_t n = tree_.first; n < count_; ++n) {
      float left = value_[static_cast<std::size_t>(n)];
      const float part = 0.3f + 0.05f * static_cast<float>(n * 7 % 11);
      for (std::int32_t r = 0; r < top_k; ++r) {
        child_value_[static_cast<std::size_t>(n * top_k + r)] = left * part;
        left *= 1.0f - part;
      }
    }
  }

  std::int32_t count_ = 0;
  std::array<hunch::token, nodes> tokens_{};
  std::array<std::int32_t, nodes> parent_{};
  std::array<float, inner> value_{};
  std::array<hunch::token, inner * top_k> child_{};
  std::array<float, inner * top_k> child_value_{};
  std::array<std::int32_t, inner * top_k> node_of_{};
  std::array<std::int32_t, nodes> grown_as_{};
  std::array<std::int32_t, inner> kept_as_{};
  std::array<std::int64_t, nodes> best_{};
  hunch::kernel::dynamic_tree tree_;
};

inline void measure_tree_operations(report& out) {
  using namespace hunch;
  constexpr std::int32_t nodes = grown_tree::nodes;
  constexpr int repeats = 100;  // one takes less than what a clock tells apart
  grown_tree tree;
  tree.grow();
  std::vector<std::uint32_t> masks(static_cast<std::size_t>(nodes * mask_words(nodes)));
  std::vector<std::int32_t> levels(nodes), child(nodes), sibling(nodes);
  executor::host host;
  const tree_parents trees = tree.parents();
  const timings times = interleave(51, memory::warm,
                                   {[&] {
                                      for (int i = 0; i < repeats; ++i) { tree.grow(); }
                                    },
                                    [&] {
                                      for (int i = 0; i < repeats; ++i) {
                                        ancestor_masks(host, {trees, masks.data(), levels.data()});
                                        tree_links(host, {trees, child.data(), sibling.data()});
                                      }
                                    }});
  const double growth = 1e6 * median(times[0]) / repeats;
  const double views = 1e6 * median(times[1]) / repeats;
  out.add("tree of 60 nodes: five expansions and the re-ranking", growth, "us");
  out.add("tree of 60 nodes: masks and links", views, "us");
  out.add("tree of 60 nodes: build, re-rank, masks and links", growth + views, "us", at_most(10));
}

}  // namespace bench
