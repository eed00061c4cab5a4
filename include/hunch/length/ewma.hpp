// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/length/length.hpp>

namespace hunch::length {

/// Follows what was accepted: an exponentially weighted mean of accepted levels, and a length that
/// moves by one towards that mean and one level more. A draft that was cut short and accepted whole
/// says nothing about the length, and is left out.
struct ewma {
  static constexpr bool needs_entropy = false;
  struct memory {
    std::int32_t length = 0;  ///< 0: of a new sequence
    double accepted = 0.0;    ///< the mean
  };

  std::int32_t start = 4;  ///< levels of a new sequence, 1 or more
  double decay = 0.8;      ///< weight of the past, in [0, 1)

  HUNCH_HOST_DEVICE std::int32_t begin(memory& m, std::int32_t max_depth) const {
    if (m.length == 0) {
      m = {.length = kernel::larger(start, std::int32_t{1}),
           .accepted = static_cast<double>(start) - 1.0};
    }
    return kernel::smaller(m.length, max_depth);
  }
  HUNCH_HOST_DEVICE bool continues(memory&, const length_evidence&) const { return true; }
  HUNCH_HOST_DEVICE void observe(memory& m, std::int32_t drafted,
                                 std::int32_t accepted) const noexcept {
    if (drafted < m.length && accepted == drafted) { return; }
    const double now = kernel::product(1.0 - decay, static_cast<double>(accepted));
    m.accepted = std::fma(decay, m.accepted, now);
    const double wanted = m.accepted + 1.0;
    if (wanted > m.length + 0.5) {
      ++m.length;
    } else if (wanted < m.length - 0.5 && m.length > 1) {
      --m.length;
    }
  }
};

static_assert(LengthPolicy<ewma>);

}  // namespace hunch::length
