// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// A worker of a team: threads that run in lockstep, a warp on a device and a single thread
/// elsewhere. What a body writes for workers is one text for both: a value that each lane has for
/// itself is a `per_lane`, and is only touched by `each`.
///
/// 1. `W::lanes` threads; `w.each(f, x...)` calls f(lane, x of that lane...) on every lane.
/// 2. `w.sum(x)`, `w.any(x)` and `w.largest(x)` are the sum, the union of the bits and the largest
///    of a `per_lane` of std::int32_t, std::uint32_t and std::uint64_t, the same for all.
///    `w.before(x)` sets x of each lane, std::int32_t, to the sum of those of the lanes below it.
///
/// A worker that `has_tensor_cores` has 32 lanes, and
///
/// 3. `w.multiply_add(c, a, b, half)` adds to c the product of the 16 x 16 matrix a and the 16 x 8
///    matrix b, given as `factor_rows` and `factor_columns` of numbers of the type of `half`,
///    bfloat16 or float16. Each element of c depends on its own row and column only.
/// 4. `w.fold_halves(x)` adds up the floats of lanes 0 to 15, and those of 16 to 31, by halves: x
///    of lane l += that of lane l + 8, ..., l + 1. Right in lanes 0 and 16.
/// 5. `w.sync()` is a barrier of the lanes: a compiler moves no load from one side to the other.

namespace hunch::team {

/// What lane 4 g + t holds of a 16 x 16 matrix, two numbers in a word: columns (2t, 2t + 1) of row
/// g and of row g + 8, then columns (2t + 8, 2t + 9) of both.
struct factor_rows {
  std::uint32_t of[4];
};
/// Of a 16 x 8 matrix: rows (2t, 2t + 1) and (2t + 8, 2t + 9) of column g.
struct factor_columns {
  std::uint32_t of[2];
};
/// Of their product: columns 2t and 2t + 1 of row g, then of row g + 8.
struct product_sums {
  float of[4];
};

/// One thread.
struct single_thread {
  static constexpr std::int32_t lanes = 1;
  static constexpr bool has_tensor_cores = false;
  template <class T>
  using per_lane = T;

  template <class F, class... X>
  HUNCH_HOST_DEVICE HUNCH_INLINE static void each(F&& f, X&... x) {
    f(std::int32_t(0), x...);
  }
  HUNCH_HOST_DEVICE static std::int32_t sum(std::int32_t x) { return x; }
  HUNCH_HOST_DEVICE static void before(std::int32_t& x) { x = 0; }
  HUNCH_HOST_DEVICE static std::uint32_t any(std::uint32_t x) { return x; }
  HUNCH_HOST_DEVICE static std::uint64_t largest(std::uint64_t x) { return x; }
};

}  // namespace hunch::team
