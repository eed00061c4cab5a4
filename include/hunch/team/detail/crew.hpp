// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/tile_sums.hpp>

/// \file
/// A tile of the canonical sum as the work of a crew: threads that stand next to each other, each
/// with lanes of its own. Thread t of W holds the lanes t, t + W, ... So neighbours read
/// neighbours, a row may begin anywhere and be of any length, and each thread has many elements
/// under way. All threads of the crew call these.
///
/// A `Crew`:
///
/// 1. `Crew::size` threads, a power of two of at most 128, this one is `c.thread()`; `c.sync()` is
///    their barrier.
/// 2. Each thread has `Crew::loads` elements under way before it uses the first.
/// 3. `Crew::warp` of them fold without memory: `c.fold(v)` adds by halves what they have, right on
///    the first of them, and `c.largest(v)` is the largest, on all of them.
/// 4. `c.template between<T>(i)`, for i < `Crew::size`, is memory that they share.

namespace hunch::team::detail {

template <class Crew>
inline constexpr int lanes_of_thread = lane_count / Crew::size;

/// How many elements of F a thread has under way, which may have `loads` loads.
template <class F>
HUNCH_HOST_DEVICE constexpr int elements_ahead(int loads) {
  return loads > rows_read<F> ? loads / rows_read<F> : 1;
}

/// Calls use(j, f(i)) for the elements i of this thread in the tile [begin, end): of lane j of its
/// own. \tparam Loads loads under way.
template <int Loads, class Crew, class F, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE void for_terms(const Crew& crew, std::int64_t begin,
                                              std::int64_t end, const F& f, const Use& use) {
  constexpr int lanes = lanes_of_thread<Crew>;
  constexpr int ahead = kernel::larger(elements_ahead<F>(Loads), lanes);  // whole rows of lanes
  const auto count = static_cast<std::int32_t>(end - begin);
  std::int32_t at = crew.thread();
  HUNCH_ROLLED
  for (; at + (ahead - 1) * Crew::size < count; at += ahead * Crew::size) {
    // All of them before the first is used, so that their loads are under way together.
    decltype(f(begin)) term[ahead];
    HUNCH_UNROLLED
    for (int k = 0; k < ahead; ++k) { term[k] = f(begin + (at + k * Crew::size)); }
    HUNCH_UNROLLED
    for (int k = 0; k < ahead; ++k) { use(k % lanes, term[k]); }
  }
  HUNCH_ROLLED
  for (; at < count; at += lane_count) {
    HUNCH_UNROLLED
    for (int j = 0; j < lanes; ++j) {
      if (at + j * Crew::size < count) { use(j, f(begin + (at + j * Crew::size))); }
    }
  }
}

/// The sum of the lanes of a crew in the canonical order; right on its first thread.
template <class Crew, class Real>
HUNCH_HOST_DEVICE Real fold_crew(const Crew& crew, Real (&lane)[lanes_of_thread<Crew>]) {
  constexpr int lanes = lanes_of_thread<Crew>;
  const auto add = [](Real a, Real b) HUNCH_INLINED { return a + b; };
  if constexpr (lanes > 1) { fold_by_halves<lanes / 2>(lane, add); }
  constexpr int warps = Crew::size / Crew::warp;
  if constexpr (warps > 1) {
    crew.sync();  // what was there before has been read
    if (crew.thread() >= Crew::warp) { crew.template between<Real>(crew.thread()) = lane[0]; }
    crew.sync();
    if (crew.thread() < Crew::warp) {
      Real of[warps];
      of[0] = lane[0];
      HUNCH_UNROLLED
      for (int w = 1; w < warps; ++w) {
        of[w] = crew.template between<Real>(crew.thread() + w * Crew::warp);
      }
      fold_by_halves<warps / 2>(of, add);
      lane[0] = of[0];
    }
  }
  return crew.fold(lane[0]);
}

/// The largest of what the threads of a crew have, on all of them.
template <class Crew, class Key>
HUNCH_HOST_DEVICE Key largest_of_crew(const Crew& crew, Key mine) {
  Key top = crew.largest(mine);
  constexpr int warps = Crew::size / Crew::warp;
  if constexpr (warps > 1) {
    crew.sync();  // what was there before has been read
    if (crew.thread() % Crew::warp == 0) {
      crew.template between<Key>(crew.thread() / Crew::warp) = top;
    }
    crew.sync();
    HUNCH_UNROLLED
    for (int w = 0; w < warps; ++w) {
      const Key other = crew.template between<Key>(w);
      top = other > top ? other : top;
    }
  }
  return top;
}

/// sum(f), with the plain part of f where f has one and the tile no exceptions.
template <class F, class Sum>
HUNCH_HOST_DEVICE HUNCH_INLINE auto with_plain(std::int64_t begin, std::int64_t end, const F& f,
                                               const Sum& sum) {
  if constexpr (Patched<F>) {
    if (f.is_plain(begin, end)) { return sum(plain_part<F>{f}); }
  }
  return sum(f);
}

/// `tile_sum` by a crew; right on its first thread. \tparam Loads loads under way.
template <int Loads, class Crew, class F>
HUNCH_HOST_DEVICE auto crew_sum(const Crew& crew, std::int64_t begin, std::int64_t end,
                                const F& f) {
  using real = decltype(f(begin));
  return with_plain(begin, end, f, [&](const auto& g) {
    real lane[lanes_of_thread<Crew>] = {};
    for_terms<Loads>(crew, begin, end, g, [&](int j, real term) HUNCH_INLINED { lane[j] += term; });
    return fold_crew(crew, lane);
  });
}

/// `tile_sum_both` by a crew; likewise.
template <class Crew, class F>
HUNCH_HOST_DEVICE two_sums crew_sum_both(const Crew& crew, std::int64_t begin, std::int64_t end,
                                         const F& f) {
  using real = decltype(f(begin).first);
  return with_plain(begin, end, f, [&](const auto& g) -> two_sums {
    real first[lanes_of_thread<Crew>] = {};
    real second[lanes_of_thread<Crew>] = {};
    for_terms<Crew::loads>(crew, begin, end, g, [&](int j, two_terms<real> term) HUNCH_INLINED {
      first[j] += term.first;
      second[j] += term.second;
    });
    return {static_cast<double>(fold_crew(crew, first)),
            static_cast<double>(fold_crew(crew, second))};
  });
}

/// Loads under way from the nearest cache, which takes little time.
template <class Crew>
inline constexpr int cached_loads = Crew::loads < 8 ? Crew::loads : 8;

/// The largest key of a tile, on all threads of a crew, and the sum of the weights in its frame,
/// right on its first thread. A tile that has another frame than `likely` is read twice, the second
/// time from the nearest cache, where those of all crews of a block have room; registers that would
/// hold it are needed elsewhere. \param likely in, out.
template <class Crew, class Terms>
HUNCH_HOST_DEVICE HUNCH_INLINE auto crew_soft_total(const Crew& crew, std::int64_t begin,
                                                    std::int64_t end, const Terms& terms,
                                                    frame_of<Terms>& likely) {
  using key = decltype(Terms::lowest);
  using element = std::remove_const_t<typename Terms::element>;
  const auto read = [&](std::int64_t i) HUNCH_INLINED { return load(terms.elements + i); };
  const auto key_of_all = [&](element top) HUNCH_INLINED {
    return largest_of_crew(
        crew, terms.magnitude(top) > terms.infinite ? terms.not_a_number : terms.key(top));
  };
  if constexpr (QuickTerms<Terms>) {
    const auto quick = terms.quick(likely);
    if (quick.exist()) {
      element top = terms.value(terms.lowest);
      element lane[lanes_of_thread<Crew>] = {};
      for_terms<Crew::loads>(crew, begin, end, read, [&](int j, element x) HUNCH_INLINED {
        top = kernel::larger_or_nan(top, x);
        lane[j] = quick.add_to(lane[j], x);
      });
      soft_total<key> total{key_of_all(top), 0.0};
      if (total.top <= terms.lowest) { return total; }
      if (terms.frame(total.top) == likely) {
        total.sum = static_cast<double>(fold_crew(crew, lane));
        return total;
      }
    }
  }
  element top = terms.value(terms.lowest);
  for_terms<Crew::loads>(crew, begin, end, read, [&](int, element x) HUNCH_INLINED {
    top = kernel::larger_or_nan(top, x);
  });
  soft_total<key> total{key_of_all(top), 0.0};
  if (total.top <= terms.lowest) { return total; }
  if constexpr (QuickTerms<Terms>) {
    const auto quick = terms.quick(terms.frame(total.top));
    if (quick.exist()) {
      element lane[lanes_of_thread<Crew>] = {};
      for_terms<cached_loads<Crew>>(crew, begin, end, read, [&](int j, element x) HUNCH_INLINED {
        lane[j] = quick.add_to(lane[j], x);
      });
      total.sum = static_cast<double>(fold_crew(crew, lane));
      likely = terms.frame(total.top);
      return total;
    }
  }
  total.sum = static_cast<double>(crew_sum<cached_loads<Crew>>(
      crew, begin, end, soft_weights<Terms>{terms, terms.frame(total.top)}));
  return total;
}

/// `value` combined with those of f(0), ..., f(n - 1) that are the share of thread `first` of
/// `step`, in no particular order.
template <int Loads, class T, class F, class Op>
HUNCH_HOST_DEVICE T fold_share(std::int64_t n, std::int64_t first, std::int64_t step, T value,
                               const F& f, const Op& op) {
  std::int64_t i = first;
  if constexpr (ReadsRows<F>) {  // anything else may be long, and is compiled once
    constexpr int ahead = elements_ahead<F>(Loads);
    HUNCH_ROLLED
    for (; i + (ahead - 1) * step < n; i += ahead * step) {
      T term[ahead];
      HUNCH_UNROLLED
      for (int k = 0; k < ahead; ++k) { term[k] = static_cast<T>(f(i + k * step)); }
      HUNCH_UNROLLED
      for (int k = 0; k < ahead; ++k) { value = op(value, term[k]); }
    }
  }
  HUNCH_ROLLED
  for (; i < n; i += step) { value = op(value, static_cast<T>(f(i))); }
  return value;
}

}  // namespace hunch::team::detail
