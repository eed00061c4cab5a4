// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/head/detail/dot_one.hpp>
#include <hunch/head/detail/dot_rows.hpp>
#include <hunch/team/processor.hpp>

/// \file
/// The products of a router's layer in the one order of additions that all teams share. A head has
/// rows enough for all threads of a device; a layer of a router has not, and its rows are long. So
/// a row is cut into at most sixteen slices of 1,024 bytes or a multiple of that. The lanes of a
/// slice are those of `dot_one` for a row; they are added slice after slice, beginning with 0, and
/// then fold by halves.

namespace hunch::kernel::detail {

inline constexpr std::int32_t most_slices = 16;
/// A slice has a multiple of so many steps.
inline constexpr std::int32_t slice_steps = 16;

/// Elements of a slice but the last.
template <class Weight>
HUNCH_HOST_DEVICE constexpr std::int32_t slice_elements(std::int32_t width) {
  constexpr std::int32_t least = slice_steps * step_elements<Weight>;
  return (width / most_slices + (width % most_slices != 0) + least - 1) / least * least;
}

/// The dot product of a row with x, by a thread.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE float sliced_one(const Weight* row, std::int32_t width,
                                                const float* x) {
  const std::int32_t slice = slice_elements<Weight>(width);
  float lane[gemv_lanes] = {};
  for (std::int32_t k = 0; k < width; k += slice) {
    const std::int32_t size = width - k < slice ? width - k : slice;
    for (std::int32_t l = 0; l < gemv_lanes; ++l) { lane[l] += dot_lane(row + k, size, x + k, l); }
  }
  for (std::int32_t half = gemv_lanes / 2; half > 0; half /= 2) {
    for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
  }
  return lane[0];
}

#if defined(__GNUC__) && !defined(__CUDA_ARCH__)

#if defined(__clang__)
#define HUNCH_REGISTERS _Pragma("unroll")
#elif !defined(__CUDACC__)
#define HUNCH_REGISTERS _Pragma("GCC unroll 16")
#else  // a pragma that nvcc does not know
#define HUNCH_REGISTERS
#endif

/// lanes[r] += the lanes of `size` elements of `Rows` rows side by side.
template <class On, std::int32_t Rows, class Weight, class Ahead>
HUNCH_INLINE void add_slice(const Weight* w, std::int64_t width, const float* x, std::int64_t size,
                            Ahead& ahead, lane_floats* lanes) {
  constexpr std::int32_t step = step_elements<Weight>;
  const float* const of[1] = {x};
  lane_floats added;
  std::int64_t k = 0;
  auto place = ahead.place();
  if constexpr (Rows == 1) {
    constexpr std::int32_t unrolled = 4;
    row_sums<Weight> sums[1] = {};
    for (; k + unrolled * step <= size; k += unrolled * step) {
      const line_address at = ahead.template take<unrolled>(place, w + k);
      HUNCH_REGISTERS
      for (std::int32_t i = 0; i < unrolled; ++i) {
        add_line<On>(w, of, k + i * step, at + static_cast<line_address>(i) * line, sums);
      }
    }
    for (; k + step <= size; k += step) {
      add_line<On>(w, of, k, ahead.template take<1>(place, w + k), sums);
    }
    if (k < size) {
      with_rest<1>(w, size, of, k, [&](const Weight* rest, const auto& of_rest) HUNCH_INLINED {
        add_line<On>(rest, of_rest, 0, reinterpret_cast<line_address>(rest), sums);
      });
    }
    lanes_of_line(sums[0], added);
    lanes[0] += added;
  } else {
    row_sums<Weight> sums[1][Rows] = {};
    for (; k + step <= size; k += step) {
      add_lines<On>(w, width, of, k, ahead.template take<Rows>(place, w + k), sums);
    }
    if (k < size) {
      Weight rest[Rows][step];
      float rest_of_x[step];
      for (std::int32_t r = 0; r < Rows; ++r) { pad(w + r * width + k, size - k, rest[r]); }
      pad(x + k, size - k, rest_of_x);
      const float* const of_rest[1] = {rest_of_x};
      add_lines<On>(rest[0], step, of_rest, 0, reinterpret_cast<line_address>(rest), sums);
    }
    HUNCH_REGISTERS
    for (std::int32_t r = 0; r < Rows; ++r) {
      lanes_of_lines(sums[0][r], added);
      lanes[r] += added;
    }
  }
  ahead.give_back(place);
}

#undef HUNCH_REGISTERS

/// lanes[r] += the lanes of whole rows, `Rows` side by side.
template <class On, std::int32_t Rows, class Weight, class Ahead>
HUNCH_INLINE void sliced_lanes(const Weight* w, std::int32_t width, const float* x, Ahead& ahead,
                               lane_floats* lanes) {
  const std::int32_t slice = slice_elements<Weight>(width);
  for (std::int32_t k = 0; k < width; k += slice) {
    add_slice<On, Rows>(w + k, width, x + k, width - k < slice ? width - k : slice, ahead, lanes);
  }
}

/// out[r] = row r . x for 1 to `gemv_rows` adjacent rows, `Together` at a time, by a thread.
template <std::int32_t Together, class Weight, class Ahead>
HUNCH_INLINE void sliced_rows(const Weight* w, std::int32_t width, std::int32_t rows,
                              const float* x, Ahead& ahead, float* out) {
  lane_floats lanes[gemv_rows] = {};  // in memory: all registers are for what is added to
  team::on_processor([&]<class On>(On) HUNCH_INLINED {
    const auto row = [=](std::int32_t r) { return w + static_cast<std::int64_t>(r) * width; };
    if constexpr (has_fused<On>) {
      std::int32_t r = 0;
      if constexpr (Together > 1) {
        for (; r + Together <= rows; r += Together) {
          sliced_lanes<On, Together>(row(r), width, x, ahead, lanes + r);
        }
      }
      for (; r < rows; ++r) { sliced_lanes<On, 1>(row(r), width, x, ahead, lanes + r); }
      eight_floats folded;
      fold_rows(lanes, folded);
      __builtin_memcpy(out, &folded, static_cast<std::size_t>(rows) * sizeof(float));
    } else {
      // Each product is a call of a function; vectors would only make the compiler work.
      for (std::int32_t r = 0; r < rows; ++r) { out[r] = sliced_one(row(r), width, x); }
    }
  });
}

#else

template <std::int32_t Together, class Weight, class Ahead>
HUNCH_HOST_DEVICE void sliced_rows(const Weight* w, std::int32_t width, std::int32_t rows,
                                   const float* x, Ahead&, float* out) {
  for (std::int32_t r = 0; r < rows; ++r) {
    out[r] = sliced_one(w + static_cast<std::int64_t>(r) * width, width, x);
  }
}

#endif

}  // namespace hunch::kernel::detail
