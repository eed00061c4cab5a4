// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/config.hpp>

namespace hunch {

/// How much of the vocabulary a selector may choose at a depth: rows of a prefix, or clusters.
///
/// 1. `b.most` is the largest number that it ever allows.
/// 2. `b.at(depth)` is the number for the children of a node at `depth`, 0 for the root: in
///    [1, b.most].
template <class B>
concept Budget = std::is_trivially_copyable_v<B> && requires(const B& b, std::int32_t depth) {
  { b.most } -> std::convertible_to<std::int32_t>;
  { b.at(depth) } -> std::same_as<std::int32_t>;
};

/// A budget for clusters.
///
/// 1. It may have `b.share` in (0, 1]: no more clusters than it takes to reach that share of the
///    router's law.
/// 2. It may have `b.rows`: no more clusters than have so many rows together with the core, but at
///    least one.
template <class B>
concept ClusterBudget = Budget<B>;

namespace budget {

/// The same at every depth.
struct fixed {
  std::int32_t most;
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t) const { return most; }
};

/// Less where drafts are rarely reached: k at depths 0 and 1, then floor(k / (2 (t + 1))) at depth
/// t, at least 1. (DynaSpec, arXiv:2510.13847)
struct position_aware {
  std::int32_t most;
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t depth) const {
    const std::int32_t k = depth < 2 ? most : most / (2 * (depth + 1));
    return k > 1 ? k : 1;
  }
};

/// The fewest clusters whose probability by the router reaches `share`, at most `most`: many where
/// the router is unsure, one where it is certain.
struct mass {
  std::int32_t most;
  float share;
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t) const { return most; }
};

/// The best clusters as far as they fit into `rows` rows, at most `most`: the same time for every
/// draft, however large clusters are.
struct rows {
  std::int32_t most;
  std::int32_t rows;
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t) const { return most; }
};

}  // namespace budget
}  // namespace hunch
