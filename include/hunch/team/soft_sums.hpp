// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/prefetch.hpp>
#include <hunch/team/tile_sums.hpp>

/// \file
/// Sums of weights that are relative to the largest of them, in the canonical order: what
/// `soft_sum` of a team is made of.

namespace hunch::team {

/// The largest key of some elements, and the sum of their weights in its frame (see `SoftTerms`).
template <class Key>
struct soft_total {
  Key top;
  double sum;

  /// Adds the total of the tile after: whichever is lower is scaled to the frame of the higher.
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
/// 1. `t.elements` points to what the elements, of type `T::element`, are widened from, see
///    `to_real`; `t.key(x)` is the key of one, `t.value(key)` an element with that key, `t.lowest`
///    the key of elements without weight.
/// 2. `t.frame(top)` is the frame of a largest key, `t.weight(x, frame)` a weight;
///    `t.rescale(from, to)` the factor from one key's frame to that of a higher one, and
///    `t.inverse(top)` that from a key's own frame to where its weight is 1.
/// 3. `t.magnitude(x)` > `t.infinite` tells elements that are no numbers, which `<` knows nothing
///    of; their key is `t.not_a_number`.
template <class T>
concept SoftTerms = requires(const T& t, typename T::element x, decltype(T::lowest) top) {
  { to_real(t.elements[0]) } -> std::same_as<typename T::element>;
  { t.key(x) } -> std::same_as<decltype(T::lowest)>;
  { t.value(top) } -> std::same_as<typename T::element>;
  t.weight(x, t.frame(top));
  { t.rescale(top, top) } -> std::same_as<double>;
  { t.inverse(top) } -> std::same_as<double>;
  { t.magnitude(x) } -> std::same_as<decltype(T::lowest)>;
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

/// The weights of the elements of such terms.
template <class Terms>
struct soft_weights {
  const Terms& terms;
  frame_of<Terms> frame;

  HUNCH_HOST_DEVICE HUNCH_INLINE auto operator()(std::int64_t i) const {
    return terms.weight(load(terms.elements + i), frame);
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
    for (std::int32_t l = 0; l < lanes; ++l) {
      largest.add(l, to_real(terms.elements[base + l]), terms);
    }
  }
  for (; base < end; ++base) { largest.add(0, to_real(terms.elements[base]), terms); }
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
        const element x = to_real(terms.elements[base + first + l]);
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
