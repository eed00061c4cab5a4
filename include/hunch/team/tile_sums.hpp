// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>

/// \file
/// Sums of functions of a row in the canonical order, by a single thread: tiles and groups of them.

namespace hunch::team {

/// A function that is simple but for a few elements, so that loops over all others vectorise:
/// f(i) is f.plain(i) unless i is an exception, and f.patch(begin, end, terms) sets terms[i -
/// begin] to f(i) for the exceptions i in [begin, end); f.is_plain(begin, end) says that there are
/// none.
template <class F>
concept Patched = requires(const F& f, std::int64_t i) {
  f.plain(i);
  { f.is_plain(i, i) } -> std::same_as<bool>;
};

/// A function that reads rows from memory, and says how many, by `static constexpr int rows`: of
/// one that reads two, half as many elements are under way at a time.
template <class F>
concept ReadsRows = requires {
  F::rows;
};
template <class F>
inline constexpr int rows_read = 1;
template <ReadsRows F>
inline constexpr int rows_read<F> = F::rows;

/// The plain part of such a function.
template <class F>
struct plain_part {
  static constexpr int rows = rows_read<F>;
  const F& f;
  HUNCH_HOST_DEVICE HUNCH_INLINE auto operator()(std::int64_t i) const { return f.plain(i); }
  HUNCH_HOST_DEVICE HUNCH_INLINE void prefetch_after(std::int64_t i) const requires requires {
    f.prefetch_after(i);
  }
  { f.prefetch_after(i); }
};

/// Calls use(l, f(base + l)) for the `count` lanes of a row of lanes with exceptions.
template <class F, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE void patched_lanes(std::int64_t base, std::int32_t count, const F& f,
                                                  const Use& use) {
  decltype(f(base)) term[lane_count];
  for (std::int32_t l = 0; l < count; ++l) { term[l] = f.plain(base + l); }
  f.patch(base, base + count, term);
  for (std::int32_t l = 0; l < count; ++l) { use(l, term[l]); }
}

/// A function of a row that is likely to come from memory: f.prefetch_after(base) prefetches what
/// is read after the row of lanes at base.
template <class F>
concept Prefetched = requires(const F& f, std::int64_t i) {
  f.prefetch_after(i);
};

/// A function whose elements lie in memory one row of lanes at a time: f.lanes_at(base) is a
/// function g with g(l) = f(base + l) for all lanes l, so that loops over lanes vectorise.
template <class F>
concept Strided = requires(const F& f, std::int64_t i) {
  f.lanes_at(i)(i);
};

/// Calls use(lane, f(i)) for i in [begin, end), at most one tile, by a single thread.
template <class F, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE void tile_terms(std::int64_t begin, std::int64_t end, const F& f,
                                               const Use& use) {
  std::int64_t base = begin;
  if constexpr (Patched<F>) {
    if (f.is_plain(begin, end)) { return tile_terms(begin, end, plain_part<F>{f}, use); }
    for (; base < end; base += lane_count) {
      const std::int64_t left = end - base;
      patched_lanes(base, left < lane_count ? static_cast<std::int32_t>(left) : lane_count, f, use);
    }
  } else {
    for (; base + lane_count <= end; base += lane_count) {
      if constexpr (Prefetched<F>) { f.prefetch_after(base); }
      if constexpr (Strided<F>) {
        const auto at = f.lanes_at(base);
        for (std::int32_t l = 0; l < lane_count; ++l) { use(l, at(l)); }
      } else {
        for (std::int32_t l = 0; l < lane_count; ++l) { use(l, f(base + l)); }
      }
    }
    const auto rest = static_cast<std::int32_t>(end - base);
    for (std::int32_t l = 0; l < rest; ++l) { use(l, f(base + l)); }
  }
}

/// Terms of two sums, and the sums.
template <class Real>
struct two_terms {
  Real first;
  Real second;
};
using two_sums = two_terms<double>;

namespace detail {

template <class Real>
struct add_to_lane {
  Real* HUNCH_RESTRICT lane;
  HUNCH_HOST_DEVICE HUNCH_INLINE void operator()(std::int32_t l, Real term) const {
    lane[l] += term;
  }
};
template <class Real>
struct add_to_both {
  Real* HUNCH_RESTRICT first;
  Real* HUNCH_RESTRICT second;
  HUNCH_HOST_DEVICE HUNCH_INLINE void operator()(std::int32_t l, two_terms<Real> term) const {
    first[l] += term.first;
    second[l] += term.second;
  }
};

}  // namespace detail

/// The sum of f(i) for i in [begin, end), at most one tile, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE auto tile_sum(std::int64_t begin, std::int64_t end, const F& f) {
  using real = decltype(f(begin));
  real lane[lane_count] = {};
  tile_terms(begin, end, f, detail::add_to_lane<real>{lane});
  return fold_lanes(lane);
}

/// The same for terms of two sums.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE two_sums tile_sum_both(std::int64_t begin, std::int64_t end,
                                                      const F& f) {
  using real = decltype(f(begin).first);
  real first[lane_count] = {};
  real second[lane_count] = {};
  tile_terms(begin, end, f, detail::add_to_both<real>{first, second});
  return {static_cast<double>(fold_lanes(first)), static_cast<double>(fold_lanes(second))};
}

/// lanes[l] = f(begin + l) + f(begin + l + 128) + ... for i in [begin, end), at most one tile, in
/// double, and the sums of their strands, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE void tile_lanes(std::int64_t begin, std::int64_t end,
                                               double* HUNCH_RESTRICT lanes,
                                               double* HUNCH_RESTRICT strands, F&& f) {
  using real = decltype(f(begin));
  for (std::int32_t l = 0; l < lane_count; ++l) { lanes[l] = 0.0; }
  for (std::int64_t base = begin; base < end; base += lane_count) {
    const auto count = static_cast<std::int32_t>(end - base < lane_count ? end - base : lane_count);
    real term[lane_count];  // apart from the widening, so that both loops vectorise
    if constexpr (Patched<std::remove_cvref_t<F>>) {
      for (std::int32_t l = 0; l < count; ++l) { term[l] = f.plain(base + l); }
      f.patch(base, base + count, term);
    } else {
      for (std::int32_t l = 0; l < count; ++l) { term[l] = f(base + l); }
    }
    for (std::int32_t l = 0; l < count; ++l) { lanes[l] += static_cast<double>(term[l]); }
  }
  for (std::int32_t s = 0; s < strand_count; ++s) { strands[s] = strand_sum(lanes, s); }
}

/// Calls use(begin, end) for the tiles of group `g` of a row of n elements, in order.
template <class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE void tiles_of_group(std::int64_t n, std::int32_t g, Use&& use) {
  const std::int32_t per_group = tiles_per_group(n);
  const std::int32_t first = g * per_group;
  const std::int32_t last = first + per_group < tiles_of(n) ? first + per_group : tiles_of(n);
  for (std::int32_t t = first; t < last; ++t) {
    const std::int64_t begin = t * tile_elements;
    use(begin, begin + tile_elements < n ? begin + tile_elements : n);
  }
}

/// The sum of f(first + i) over the tiles of group `g` of a row of n elements i, by a single
/// thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE double group_sum(std::int64_t n, std::int32_t g, const F& f,
                                                std::int64_t first = 0) {
  double sum = 0.0;
  tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) HUNCH_INLINED {
    sum += static_cast<double>(tile_sum(first + begin, first + end, f));
  });
  return sum;
}
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE two_sums group_sum_both(std::int64_t n, std::int32_t g, const F& f) {
  two_sums sum{0.0, 0.0};
  tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) HUNCH_INLINED {
    const two_sums tile = tile_sum_both(begin, end, f);
    sum.first += tile.first;
    sum.second += tile.second;
  });
  return sum;
}

}  // namespace hunch::team
