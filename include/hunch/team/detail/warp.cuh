// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/team/canonical.hpp>
#include <hunch/team/four.hpp>
#include <hunch/team/tile_sums.hpp>

/// \file
/// A tile of the canonical sum as the work of one warp: thread t holds the lanes 4t, ..., 4t + 3,
/// so that rows are read with 16 bytes per thread, and the lanes fold with shuffles. All threads of
/// the warp call these.

namespace hunch::team::warp {

inline constexpr unsigned all_threads = 0xffffffffu;

/// Loads that a thread has in flight.
inline constexpr int loads = 4;

/// use(0, x[0]), ..., use(3, x[3]).
template <class Four, class Use>
__device__ HUNCH_INLINE void use_four(const Four& x, const Use& use) {
#pragma unroll
  for (int j = 0; j < 4; ++j) { use(j, x.of[j]); }
}

/// Calls use(j, f(i)) for the elements i of this thread in the tile [begin, end): of lane j of its
/// four.
template <class F, class Use>
__device__ HUNCH_INLINE void for_terms(std::int64_t begin, std::int64_t end, const F& f,
                                       const Use& use) {
  const auto count = static_cast<std::int32_t>(end - begin);
  std::int32_t at = 4 * static_cast<std::int32_t>(threadIdx.x % 32);
  if constexpr (Vectorised<F>) {
    if (f.is_aligned()) {
      // Without a way out in between, so that a compiler moves the loads to the front.
      constexpr int ahead = loads / rows_read<F>;
      for (; at + (ahead - 1) * lane_count + 4 <= count; at += ahead * lane_count) {
#pragma unroll
        for (int k = 0; k < ahead; ++k) { use_four(f.four(begin + at + k * lane_count), use); }
      }
    }
  }
#pragma unroll 1
  for (; at < count; at += lane_count) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (at + j < count) { use(j, f(begin + at + j)); }
    }
  }
}

/// The sum of this thread's lanes over the warp, in the canonical order; right in its first thread.
template <class Real>
__device__ Real fold_lanes(Real (&lane)[4]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
#pragma unroll
    for (int j = 0; j < 4; ++j) { lane[j] += __shfl_down_sync(all_threads, lane[j], offset); }
  }
  lane[0] += lane[2];
  lane[1] += lane[3];
  return lane[0] + lane[1];
}

/// sum(f) with the plain part of f where f has one and the tile no exceptions.
template <class F, class Sum>
__device__ HUNCH_INLINE auto of_tile(std::int64_t begin, std::int64_t end, const F& f,
                                     const Sum& sum) {
  if constexpr (Patched<F>) {
    if (f.is_plain(begin, end)) { return sum(plain_part<F>{f}); }
  }
  return sum(f);
}

/// `tile_sum` by a warp; the result is in its first thread.
template <class F>
__device__ auto tile_sum(std::int64_t begin, std::int64_t end, const F& f) {
  using real = decltype(f(begin));
  return of_tile(begin, end, f, [=](const auto& g) {
    real lane[4] = {};
    for_terms(begin, end, g, [&](int j, real term) { lane[j] += term; });
    return fold_lanes(lane);
  });
}

/// `tile_sum_both` by a warp; likewise.
template <class F>
__device__ two_sums tile_sum_both(std::int64_t begin, std::int64_t end, const F& f) {
  using real = decltype(f(begin).first);
  return of_tile(begin, end, f, [=](const auto& g) -> two_sums {
    real first[4] = {};
    real second[4] = {};
    for_terms(begin, end, g, [&](int j, two_terms<real> term) {
      first[j] += term.first;
      second[j] += term.second;
    });
    return {static_cast<double>(fold_lanes(first)), static_cast<double>(fold_lanes(second))};
  });
}

/// The keys of the elements of `soft_sum`'s terms.
template <class Terms>
struct soft_keys {
  const Terms& terms;
  using key = decltype(Terms::lowest);

  __device__ HUNCH_INLINE key operator()(std::int64_t i) const {
    return terms.key(to_real(terms.elements[i]));
  }
  __device__ HUNCH_INLINE bool is_aligned() const { return loads_fours(terms.elements); }
  __device__ HUNCH_INLINE team::four<key> four(std::int64_t i) const {
    const auto x = load_four(terms.elements + i);
    return {{terms.key(x[0]), terms.key(x[1]), terms.key(x[2]), terms.key(x[3])}};
  }
};

/// The largest key of the tile [begin, end), on all threads of the warp.
template <class Terms>
__device__ auto top_of_tile(std::int64_t begin, std::int64_t end, const Terms& terms) {
  using key = decltype(Terms::lowest);
  key top = terms.lowest;
  for_terms(begin, end, soft_keys<Terms>{terms}, [&](int, key k) { top = k > top ? k : top; });
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const key other = __shfl_xor_sync(all_threads, top, offset);
    top = other > top ? other : top;
  }
  return top;
}

/// `value` combined with those of f(0), ..., f(n - 1) that are the share of thread `first` of
/// `step`, in no particular order.
template <class T, class F, class Op>
__device__ T fold_share(std::int64_t n, std::int64_t first, std::int64_t step, T value, const F& f,
                        const Op& op) {
  std::int64_t i = first;
  if constexpr (Vectorised<F>) {
    if (f.is_aligned()) {
      const auto add = [&](int, auto x) { value = op(value, static_cast<T>(x)); };
      std::int64_t at = 4 * first;
      for (; at + (loads - 1) * 4 * step + 4 <= n; at += loads * 4 * step) {
#pragma unroll
        for (int k = 0; k < loads; ++k) { use_four(f.four(at + k * 4 * step), add); }
      }
      for (; at + 4 <= n; at += 4 * step) { use_four(f.four(at), add); }
      i += n / 4 * 4;
    }
  }
  for (; i < n; i += step) { value = op(value, static_cast<T>(f(i))); }
  return value;
}

}  // namespace hunch::team::warp
