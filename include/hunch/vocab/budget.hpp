// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>

namespace hunch {

namespace detail {

template <class B>
concept has_share = requires(const B& b) {
  b.share;
};
template <class B>
concept has_rows = requires(const B& b) {
  b.rows;
};
template <class B>
concept has_ranking = requires(const B& b) {
  b.ranks_per_row;
};

}  // namespace detail

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

namespace detail {

template <class B>
concept share_fits = !has_share<B> || requires(const B& b) {
  { b.share } -> std::convertible_to<float>;
};
template <class B>
concept rows_fit = !has_rows<B> || requires(const B& b, std::int32_t depth) {
  { b.rows } -> std::convertible_to<std::int32_t>;
  { b.rows_at(depth) } -> std::same_as<std::int32_t>;
};
template <class B>
concept ranking_fits = !has_ranking<B> || requires(const B& b) {
  { b.ranks_per_row } -> std::convertible_to<bool>;
};

}  // namespace detail

/// A budget for clusters: the best ones, as long as nothing of it is used up.
///
/// 1. It may have `b.share` in (0, 1]: no more clusters than it takes to reach that share of the
///    router's law.
/// 2. It may have `b.rows_at(depth)` in [1, b.rows]: no more clusters than have so many rows
///    together with the core, but at least one. The first that does not fit ends the choice.
/// 3. It may have `b.ranks_per_row`: if true, the best clusters are those with the largest
///    probability per row, and not those with the largest probability.
template <class B>
concept ClusterBudget =
    Budget<B> && detail::share_fits<B> && detail::rows_fit<B> && detail::ranking_fits<B>;

namespace budget {

/// The same at every depth.
struct fixed {
  std::int32_t most;  ///< rows or clusters, 1 or more
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t) const { return most; }
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
  HUNCH_HOST_DEVICE constexpr std::int32_t rows_at(std::int32_t) const { return rows; }
};

/// Another budget with less where drafts are rarely reached: of k, what it allows at any depth, k
/// at depths 0 and 1, then floor(k / (2 (t + 1))) at depth t, at least 1. (DynaSpec,
/// arXiv:2510.13847.) A budget of rows shrinks in both, its rows and its clusters.
template <class B = fixed>
struct position_aware : B {
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t depth) const {
    return of(B::at(depth), depth);
  }
  HUNCH_HOST_DEVICE constexpr std::int32_t rows_at(
      std::int32_t depth) const requires detail::has_rows<B> {
    return of(B::rows_at(depth), depth);
  }

 private:
  HUNCH_HOST_DEVICE static constexpr std::int32_t of(std::int32_t k, std::int32_t depth) {
    const std::int32_t less = depth < 2 ? k : k / (2 * (depth + 1));
    return less > 1 ? less : 1;
  }
};

position_aware(std::int32_t)->position_aware<fixed>;
template <class B>
position_aware(B) -> position_aware<B>;

/// Another budget that takes the clusters with the largest probability per row first: what a row
/// costs is the same in every cluster, so that a large cluster has to be worth as much as the small
/// ones that have its room.
template <class B>
struct per_row : B {
  static constexpr bool ranks_per_row = true;
};

template <class B>
per_row(B) -> per_row<B>;

static_assert(ClusterBudget<fixed> && ClusterBudget<mass> && ClusterBudget<rows>);
static_assert(ClusterBudget<position_aware<>> && ClusterBudget<per_row<position_aware<rows>>>);

}  // namespace budget
}  // namespace hunch
