// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/random.hpp>

namespace hunch {

namespace kernel {

/// The random word whose `uniform` is u, rounded down to a multiple of 2^-53. Outside of [0, 1) it
/// is the nearest word: some generators give 1, and a draw must not walk past the end for it; a NaN
/// counts as 0.
HUNCH_HOST_DEVICE constexpr std::uint64_t word_of(double u) {
  if (!(u > 0.0)) { return 0; }
  constexpr std::uint64_t last = (std::uint64_t(1) << 53) - 1;
  return (u < 1.0 ? static_cast<std::uint64_t>(u * 0x1.0p53) : last) << 11;
}

}  // namespace kernel

/// Random bits that the caller has drawn: a table of uniforms in [0, 1). For engines that keep
/// their own generator, and for tests that want to see the same numbers.
///
/// \tparam Index maps an `address` to an element of `values`: index(address). A random choice is as
///         exact as what it gives: two choices of one step must not share an element, unless at
///         most one of them is ever made; and a float has at most 24 bits, so that tokens of a
///         probability below 2^-24 are met less or more often than they should be.
template <class Index, class Real = float>
struct given_uniforms {
  const Real* values = nullptr;  ///< as many as `index` reaches, in memory that bodies reach
  Index index{};

  HUNCH_HOST_DEVICE std::uint64_t operator()(const address& a) const {
    return kernel::word_of(static_cast<double>(values[index(a)]));
  }
};

namespace detail {

struct any_index {
  HUNCH_HOST_DEVICE std::int64_t operator()(const address&) const { return 0; }
};

}  // namespace detail

static_assert(RandomSource<random_source<given_uniforms<detail::any_index>>>);

}  // namespace hunch
