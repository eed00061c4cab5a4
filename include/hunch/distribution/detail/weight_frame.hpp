// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>

/// \file
/// What the weights 2^(x * s) of a tile are relative to, so that their sum is finite. Relative to
/// the largest of them they could not be added before that is known, and a tile would be read
/// twice. So it is the weight of a logit so coarse that it can be guessed.

namespace hunch::kernel {

/// In double for tests that compare laws to 1e-12: relative to the largest weight itself.
template <class Real>
struct weight_frame {
  Real base;  ///< weights are relative to that of this logit

  HUNCH_HOST_DEVICE static HUNCH_INLINE weight_frame of(Real top, Real) { return {top}; }
  HUNCH_HOST_DEVICE HUNCH_INLINE Real weight(Real x, Real s) const {
    return exp2_product(x - base, s);
  }
  /// The weight of this frame's base in the frame of `x`, about 1 / weight(x).
  HUNCH_HOST_DEVICE HUNCH_INLINE double inverse(Real, Real) const { return 1.0; }
  HUNCH_HOST_DEVICE static HUNCH_INLINE double rescale(Real from, Real to, Real s) {
    return from == to ? 1.0 : exp2_product(from - to, s);  // -inf - -inf is no number
  }
};

/// In float: the base is a multiple of the power of two g for which g * s is at least 64 and below
/// 128, the one that is nearest to the largest logit; so the largest weight is between 2^-64 and
/// 2^64. A weight below 2^-125 counts as 0: that is 2^-61 of the largest at most.
template <>
struct weight_frame<float> {
  static constexpr float least_exponent = -125.0f;
  /// Below it, g may be no float.
  static constexpr float least_scale = 0x1.0p-100f;

  float base;

  /// That of the elements of which the largest is `top`; which itself is the base where it is so
  /// large that it has no neighbours between two multiples of g.
  HUNCH_HOST_DEVICE static HUNCH_INLINE weight_frame of(float top, float s) {
    const std::uint32_t power = bit_cast<std::uint32_t>(s) & 0x7f800000u;
    const float g = bit_cast<float>((2u * 127u + 6u) * (1u << 23) - power);
    const float steps = top * bit_cast<float>(power - (6u << 23));  // exact
    const bool within = steps > -4194304.0f && steps < 4194304.0f && s >= least_scale;
    return {within ? ((steps + round_shift) - round_shift) * g : top};
  }

  /// 2^((x - base) * s) for an x that is at most what the frame is of; as `exp2_product`.
  HUNCH_HOST_DEVICE HUNCH_INLINE float weight(float x, float s) const {
    return exp2_product<-125>(x - base, s);
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE double inverse(float x, float s) const {
    return power_of(base - x, s);
  }

  /// What a sum in the frame of `from` is multiplied by for that of `to` >= from: 1 as a rule. It
  /// is 0 where the weight of `from` is, in the law whose maximum is `to`: a draw must not choose a
  /// group in which nothing has a weight.
  HUNCH_HOST_DEVICE static HUNCH_INLINE double rescale(float from, float to, float s) {
    const double power = power_of(of(from, s).base - of(to, s).base, s);
    return exp2_is_positive(from - to, s) ? power : 0.0;
  }

  HUNCH_HOST_DEVICE friend HUNCH_INLINE bool operator==(const weight_frame& a,
                                                        const weight_frame& b) {
    return a.base == b.base;
  }

 private:
  /// 2^(d * s), which between neighbouring frames may be no float.
  HUNCH_HOST_DEVICE static HUNCH_INLINE double power_of(float d, float s) {
    const float shifted = std::fma(d, s, round_shift);
    const auto y = static_cast<double>(exp2_series(std::fma(d, s, round_shift - shifted)));
    const std::uint32_t whole =
        bit_cast<std::uint32_t>(shifted) - bit_cast<std::uint32_t>(round_shift);
    return bit_cast<double>(bit_cast<std::uint64_t>(y) + (static_cast<std::uint64_t>(whole) << 52));
  }
};

/// The same weights in fewer operations: those that count as 0 need no comparison, for all their
/// logits are taken for the largest one whose power of two is made of bits that are all 0.
struct quick_weights {
  static constexpr float lowest = weight_frame<float>::least_exponent - 1.0f;
  /// Leaves the exponent's bits, of half the power of two.
  static constexpr float shift = round_shift - lowest;

  float scale;
  float base;
  float least;  ///< the largest logit above the base without weight, about

  HUNCH_HOST_DEVICE quick_weights(const weight_frame<float>& frame, float s)
      : scale(s), base(frame.base), least(lowest / s) {}

  /// Whether there is such a logit: the scale may be so low that none is without weight.
  HUNCH_HOST_DEVICE bool exist() const { return least >= -largest<float>; }

  /// sum + weight(x), rounded once; a NaN if x is one, or infinite.
  HUNCH_HOST_DEVICE HUNCH_INLINE float add_to(float sum, float x) const {
    const float above = x - base;
#if defined(__CUDA_ARCH__)
    const float d = larger_or_nan(least, above);  // one instruction, of which a host has two
#else
    const float d = least > above ? least : above;  // in this order: a NaN stays
#endif
    const float shifted = std::fma(d, scale, shift);
    const float y = exp2_series<2>(std::fma(d, scale, shift - shifted));
    return std::fma(y, bit_cast<float>(bit_cast<std::uint32_t>(shifted) << 23), sum);
  }
};

}  // namespace hunch::kernel
