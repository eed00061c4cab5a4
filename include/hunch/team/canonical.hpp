// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/team/detail/prefetch.hpp>
#include <hunch/team/four.hpp>

/// \file
/// The one order in which this library adds. Rounding is part of the text that a model writes, so
/// a sum must not depend on the team, the launch shape or the batch:
///
/// - a row is cut into tiles of 4,096 elements;
/// - a tile has 128 lanes (a warp with 16-byte loads, eight AVX-512 registers); lane l adds the
///   elements l, l + 128, ... in order, and the lanes fold by halves: l += l + 64, ..., l += l + 1;
/// - consecutive tiles form at most 64 groups; tiles combine in index order, in double, first
///   within their group, then over groups. Up to 262,144 elements a group is one tile.
///
/// A draw follows the same hierarchy (group, tile, lane, element), and so re-reads one tile.

namespace hunch::team {

inline constexpr std::int64_t tile_elements = 4096;
inline constexpr std::int32_t lane_count = 128;
inline constexpr std::int32_t max_groups = 64;

/// Elements that share a value of the gate of `reduce_where`.
inline constexpr std::int64_t gate_elements = 1024;

// Tiles are counted in 32 bits: these numbers are in registers beside every loop over a row.
HUNCH_HOST_DEVICE constexpr std::int32_t tiles_of(std::int64_t n) {
  return static_cast<std::int32_t>((n + tile_elements - 1) / tile_elements);
}
HUNCH_HOST_DEVICE constexpr std::int32_t tiles_per_group(std::int64_t n) {
  return (tiles_of(n) + max_groups - 1) / max_groups;
}
HUNCH_HOST_DEVICE constexpr std::int32_t groups_of(std::int64_t n) {
  const std::int32_t per_group = tiles_per_group(n);
  return n == 0 ? 0 : (tiles_of(n) + per_group - 1) / per_group;
}

/// Elements that a body may collect at a time.
inline constexpr std::int32_t list_capacity = 2048;

/// What the ranks of a team share: the partial sums of the last `sum`, the lanes of a tile, a list.
/// `groups` is valid until the team's next `sum`. Only the team's operations write it.
struct shared_scratch {
  double groups[max_groups];
  std::int64_t tops[max_groups];  ///< for `soft_sum`
  double lanes[lane_count];
  std::int64_t list[list_capacity];  ///< for `compact`
};

/// What the group sums in a team's scratch are the sums of, remembered by each rank for itself: the
/// law of a row that has just been normalised can be drawn from without a second pass.
struct summed {
  const void* row = nullptr;  ///< nullptr: nothing that is remembered
  double scale = 0.0;
  double maximum = 0.0;
  double threshold = 0.0;
  std::int32_t last_kept = 0;
  bool has_tops = false;  ///< whether the largest keys of the groups are there, too

  /// Whether the sums are the same ones.
  HUNCH_HOST_DEVICE friend constexpr bool operator==(const summed& a, const summed& b) {
    return a.row == b.row && a.scale == b.scale && a.maximum == b.maximum &&
           a.threshold == b.threshold && a.last_kept == b.last_kept;
  }
};

/// The lanes of a tile, combined by halves: in lane[0] at the end. The halves are constants, so
/// that hosts do it in registers.
template <std::int32_t Half, class Real, class Op>
HUNCH_HOST_DEVICE HUNCH_INLINE void fold_by_halves(Real* lane, const Op& op) {
  for (std::int32_t l = 0; l < Half; ++l) { lane[l] = op(lane[l], lane[l + Half]); }
  if constexpr (Half > 1) { fold_by_halves<Half / 2>(lane, op); }
}

/// The sum of the lanes of a tile.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE Real fold_lanes(Real (&lane)[lane_count]) {
  fold_by_halves<lane_count / 2>(lane, [](Real a, Real b) HUNCH_INLINED { return a + b; });
  return lane[0];
}

/// A function that is simple but for a few elements, so that loops over all others vectorise:
/// f(i) is f.plain(i) unless i is an exception, and f.patch(begin, end, terms) sets terms[i -
/// begin] to f(i) for the exceptions i in [begin, end); f.is_plain(begin, end) says that there are
/// none.
template <class F>
concept Patched = requires(const F& f, std::int64_t i) {
  f.plain(i);
  { f.is_plain(i, i) } -> std::same_as<bool>;
};

/// The plain part of such a function.
template <class F>
struct plain_part {
  const F& f;
  HUNCH_HOST_DEVICE HUNCH_INLINE auto operator()(std::int64_t i) const { return f.plain(i); }
  HUNCH_HOST_DEVICE HUNCH_INLINE bool is_aligned() const { return f.is_aligned(); }
  HUNCH_HOST_DEVICE HUNCH_INLINE void prefetch_after(std::int64_t i) const requires requires {
    f.prefetch_after(i);
  }
  { f.prefetch_after(i); }
  HUNCH_HOST_DEVICE HUNCH_INLINE auto four(std::int64_t i) const requires requires {
    f.plain_four(i);
  }
  { return f.plain_four(i); }
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

/// A function of a row that is likely to come from memory: f.prefetch_after(base) asks for what is
/// read after the row of lanes at base.
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
/// double, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE void tile_lanes(std::int64_t begin, std::int64_t end,
                                               double* HUNCH_RESTRICT lanes, F&& f) {
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

/// The sum of f(i) over the tiles of group `g` of a row of n elements, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE double group_sum(std::int64_t n, std::int32_t g, const F& f) {
  double sum = 0.0;
  tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) HUNCH_INLINED {
    sum += static_cast<double>(tile_sum(begin, end, f));
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

/// The largest key of some elements, and the sum of their weights in its frame (see `SoftTerms`).
template <class Key>
struct soft_total {
  Key top;
  double sum;

  /// Adds the total of the tile behind: whichever is lower is scaled to the frame of the higher.
  template <class Terms>
  HUNCH_HOST_DEVICE void add(Key other_top, double other_sum, const Terms& terms) {
    if (other_top > top) {
      sum = std::fma(sum, terms.rescale(top, other_top), other_sum);
      top = other_top;
    } else {
      sum = std::fma(other_sum, terms.rescale(other_top, top), sum);
    }
  }
};

/// What `soft_sum` is made of: elements with keys in their order, and weights. What these are
/// relative to, so that sums of them are finite, is a frame, which depends on the largest key.
///
/// 1. `t.elements` points to elements of type `T::element`; `t.key(x)` is the key of one,
///    `t.value(key)` an element with that key, `t.lowest` the key of elements without weight.
/// 2. `t.frame(top)` is the frame of a largest key, `t.weight(x, frame)` a weight;
///    `t.rescale(from, to)` the factor from one key's frame to that of a higher one, and
///    `t.inverse(top)` that from a key's own frame to where its weight is 1.
/// 3. `t.magnitude(x)` > `t.infinite` tells elements that are no numbers, which `<` knows nothing
///    of; their key is `t.not_a_number`.
template <class T>
concept SoftTerms = requires(const T& t, const typename T::element* x, decltype(T::lowest) top) {
  { t.elements } -> std::convertible_to<const typename T::element*>;
  { t.key(*x) } -> std::same_as<decltype(T::lowest)>;
  { t.value(top) } -> std::same_as<typename T::element>;
  t.weight(*x, t.frame(top));
  { t.rescale(top, top) } -> std::same_as<double>;
  { t.inverse(top) } -> std::same_as<double>;
  { t.magnitude(*x) } -> std::same_as<decltype(T::lowest)>;
  { t.infinite } -> std::convertible_to<decltype(T::lowest)>;
  { t.not_a_number } -> std::convertible_to<decltype(T::lowest)>;
};

/// Such terms with a way to add weights, t.quick(frame).add_to(sum, x), that is faster than
/// t.weight(x, frame), for all elements whose largest has that frame, if t.quick(frame).exist();
/// the sum is no number if one of the elements is none.
template <class Terms>
concept QuickTerms = requires(const Terms& t, decltype(Terms::lowest) top,
                              typename Terms::element x) {
  { t.frame(top) == t.frame(top) } -> std::same_as<bool>;
  { t.quick(t.frame(top)).exist() } -> std::same_as<bool>;
  { t.quick(t.frame(top)).add_to(x, x) } -> std::same_as<typename Terms::element>;
};

/// Such terms whose totals are known tile by tile.
template <class Terms>
struct totalled_terms : Terms {
  const soft_total<decltype(Terms::lowest)>* tiles;
};
template <class Terms>
concept Totalled = requires(const Terms& terms) {
  terms.tiles;
};

/// The frames of such terms.
template <class Terms>
using frame_of =
    decltype(std::declval<const Terms&>().frame(std::declval<decltype(Terms::lowest)>()));

/// The weights of the elements of such terms. A `Vectorised` function.
template <class Terms>
struct soft_weights {
  const Terms& terms;
  frame_of<Terms> frame;

  HUNCH_HOST_DEVICE HUNCH_INLINE auto operator()(std::int64_t i) const {
    return terms.weight(terms.elements[i], frame);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE bool is_aligned() const { return loads_fours(terms.elements); }
  HUNCH_HOST_DEVICE HUNCH_INLINE auto four(std::int64_t i) const {
    const auto x = load_four(terms.elements + i);
    return team::four<decltype(terms.weight(x[0], frame))>{
        {terms.weight(x[0], frame), terms.weight(x[1], frame), terms.weight(x[2], frame),
         terms.weight(x[3], frame)}};
  }
};

/// The total of the tile [begin, end), whose largest key is known, by a single thread.
template <class Key, class Terms>
HUNCH_HOST_DEVICE HUNCH_INLINE double soft_tile(std::int64_t begin, std::int64_t end, Key top,
                                                const Terms& terms) {
  if (top <= terms.lowest) { return 0.0; }
  return static_cast<double>(tile_sum(begin, end, soft_weights<Terms>{terms, terms.frame(top)}));
}

/// The largest key of elements that come in lanes, by a single thread. Of each lane the largest
/// element and the largest magnitude are known, which tells whether one was no number: that is
/// three operations for an element, its key would be eight. Compilers refuse to vectorise a running
/// maximum.
template <class Terms>
struct largest_in_lanes {
  using key = decltype(Terms::lowest);
  using element = std::remove_const_t<typename Terms::element>;
  static constexpr std::int32_t lanes = 64;

  element top[lanes];
  key magnitude[lanes];

  HUNCH_HOST_DEVICE HUNCH_INLINE explicit largest_in_lanes(const Terms& terms) {
    for (std::int32_t l = 0; l < lanes; ++l) {
      top[l] = terms.value(terms.lowest);
      magnitude[l] = 0;
    }
  }
  /// `x` is in lane `l`.
  HUNCH_HOST_DEVICE HUNCH_INLINE void add(std::int32_t l, element x, const Terms& terms) {
    const key m = terms.magnitude(x);
    top[l] = x > top[l] ? x : top[l];
    magnitude[l] = m > magnitude[l] ? m : magnitude[l];
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE key of_all(const Terms& terms) const {
    element x = top[0];
    key m = magnitude[0];
    for (std::int32_t l = 1; l < lanes; ++l) {
      x = top[l] > x ? top[l] : x;
      m = magnitude[l] > m ? magnitude[l] : m;
    }
    return m > terms.infinite ? terms.not_a_number : terms.key(x);
  }
};

/// The largest key of [begin, end), by a single thread.
template <class Terms>
HUNCH_HOST_DEVICE HUNCH_INLINE auto top_of(std::int64_t begin, std::int64_t end,
                                           const Terms& terms) {
  constexpr std::int32_t lanes = largest_in_lanes<Terms>::lanes;
  largest_in_lanes<Terms> largest(terms);
  std::int64_t base = begin;
  for (; base + lanes <= end; base += lanes) {
    for (std::int32_t l = 0; l < lanes; ++l) { largest.add(l, terms.elements[base + l], terms); }
  }
  for (; base < end; ++base) { largest.add(0, terms.elements[base], terms); }
  return largest.of_all(terms);
}

/// The total of the full tile at `begin`, read once, if its frame is `frame`, which the caller has
/// guessed; returns whether it is. The bits are those of `soft_tile`.
template <QuickTerms Terms>
HUNCH_HOST_DEVICE HUNCH_INLINE bool quick_tile(std::int64_t begin, const frame_of<Terms>& frame,
                                               const Terms& terms,
                                               soft_total<decltype(Terms::lowest)>& total) {
  using element = std::remove_const_t<typename Terms::element>;
  constexpr std::int32_t tops = lane_count / 2;
  const auto quick = terms.quick(frame);
  if (!quick.exist()) { return false; }
  element lane[lane_count] = {};
  element top[tops];
  for (std::int32_t l = 0; l < tops; ++l) { top[l] = terms.value(terms.lowest); }
  for (std::int64_t base = begin; base < begin + tile_elements; base += lane_count) {
    prefetch_after(terms.elements + base, lane_count);
    for (std::int32_t first = 0; first < lane_count; first += tops) {
      for (std::int32_t l = 0; l < tops; ++l) {
        const element x = terms.elements[base + first + l];
        lane[first + l] = quick.add_to(lane[first + l], x);
        top[l] = x > top[l] ? x : top[l];
      }
    }
  }
  fold_by_halves<tops / 2>(top, [](element a, element b) HUNCH_INLINED { return a > b ? a : b; });
  const element sum = fold_lanes(lane);
  total = {terms.key(top[0]), static_cast<double>(sum)};
  if (terms.magnitude(sum) > terms.infinite) { return false; }
  return total.top <= terms.lowest || terms.frame(total.top) == frame;
}

/// The sum of group g in `scratch` in the frame of `top`, the largest of all, instead of its own.
template <class Key, class Terms>
HUNCH_HOST_DEVICE HUNCH_INLINE double scaled_group(std::int32_t g, const shared_scratch& scratch,
                                                   Key top, const Terms& terms) {
  const double factor = terms.rescale(static_cast<Key>(scratch.tops[g]), top);
  return std::fma(scratch.groups[g], factor, -0.0);  // rounded before it is added to anything
}

/// The total of the groups in `scratch`, in order.
template <class Key, class Terms>
HUNCH_HOST_DEVICE soft_total<Key> fold_groups(std::int32_t groups, const shared_scratch& scratch,
                                              const Terms& terms) {
  soft_total<Key> all{terms.lowest, 0.0};
  for (std::int32_t g = 0; g < groups; ++g) {
    const auto top = static_cast<Key>(scratch.tops[g]);
    all.top = top > all.top ? top : all.top;
  }
  HUNCH_ROLLED
  for (std::int32_t g = 0; g < groups; ++g) { all.sum += scaled_group(g, scratch, all.top, terms); }
  return all;
}

}  // namespace hunch::team
