// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/row_shards.hpp>
#include <hunch/team/team.hpp>

/// \file
/// What a body does over a row of the vocabulary that may be divided among ranks, as
/// `team::sharded` divides it: each rank runs the body and comes to the same results, but reads
/// only what it holds of the row. Sums and `reduce_where` of a team are over rows anyway; what is
/// here says it of everything else. Of a team that has the whole row these are the team's own
/// operations.

namespace hunch::team {

/// Whether the rows of a team are divided among ranks, by `static constexpr bool spans_ranks =
/// true`.
template <class T>
inline constexpr bool spans_ranks = requires {
  requires T::spans_ranks;
};

/// What this rank holds of a row of n elements.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE element_range held(T& team, std::int64_t n) {
  if constexpr (spans_ranks<T>) {
    return team.held();
  } else {
    return {0, n};
  }
}

/// Whether it holds element i.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE bool holds(T& team, std::int64_t i) {
  if constexpr (spans_ranks<T>) {
    return team.held().contains(i);
  } else {
    return true;
  }
}

/// f(), which reads element i, as the rank that holds the element has it; on all ranks. f may be
/// collective. Its result is trivially copyable, of at most 16 bytes.
template <Team T, class F>
HUNCH_HOST_DEVICE HUNCH_INLINE auto on_holder(T& team, std::int64_t i, const F& f) {
  if constexpr (spans_ranks<T>) {
    return team.on_holder(i, f);
  } else {
    return f();
  }
}

/// f shifted, as a function of what a rank holds.
template <class F>
struct shifted {
  static constexpr int rows = rows_read<F>;
  const F& f;
  std::int64_t begin;

  HUNCH_HOST_DEVICE HUNCH_INLINE auto operator()(std::int64_t i) const { return f(begin + i); }
};

/// `team.reduce` over the elements `range` of a row.
template <Team T, class R, class F, class Op>
HUNCH_HOST_DEVICE HUNCH_INLINE R reduce_range(T& team, const element_range& range, R identity,
                                              const F& f, const Op& op) {
  if constexpr (spans_ranks<T>) {
    const element_range own = range.within(team.held());
    return team.merge(team.reduce(own.size(), identity, shifted<F>{f, own.begin}, op), op);
  } else {
    return team.reduce(range.size(), identity, shifted<F>{f, range.begin}, op);
  }
}

/// `team.reduce` over a row of n elements.
template <Team T, class R, class F, class Op>
HUNCH_HOST_DEVICE HUNCH_INLINE R reduce_row(T& team, std::int64_t n, R identity, const F& f,
                                            const Op& op) {
  if constexpr (spans_ranks<T>) {
    return reduce_range(team, {0, n}, identity, f, op);
  } else {
    return team.reduce(n, identity, f, op);
  }
}

/// `team.reduce` over blocks of a row of n elements, of which so many are a tile: f(0) for the
/// first.
template <std::int32_t Block, Team T, class R, class F, class Op>
HUNCH_HOST_DEVICE HUNCH_INLINE R reduce_blocks(T& team, std::int64_t n, R identity, const F& f,
                                               const Op& op) {
  static_assert(tile_elements % Block == 0);
  if constexpr (spans_ranks<T>) {
    const element_range own = team.held();
    const element_range blocks{own.begin / Block, (own.end + Block - 1) / Block};
    return team.merge(team.reduce(blocks.size(), identity, shifted<F>{f, blocks.begin}, op), op);
  } else {
    return team.reduce((n + Block - 1) / Block, identity, f, op);
  }
}

/// What each rank has counted of what it holds: of the whole row.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t add_up([[maybe_unused]] T& team, std::int64_t count) {
  if constexpr (spans_ranks<T>) {
    return team.merge(count, [](std::int64_t a, std::int64_t b) { return a + b; });
  } else {
    return count;
  }
}

/// `team.compact` over a row of n elements; if they are more than `capacity`, the list is none.
template <Team T, class Keep, class F>
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t compact_row(T& team, std::int64_t n, const Keep& keep,
                                                        const F& f, std::int32_t capacity) {
  if constexpr (spans_ranks<T>) {
    return team.compact_row(keep, f, capacity);
  } else {
    return team.compact(n, keep, f, capacity);
  }
}

}  // namespace hunch::team
