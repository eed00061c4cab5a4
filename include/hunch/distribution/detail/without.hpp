// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/detail/token_set.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/tile_sums.hpp>

namespace hunch::kernel {

/// The weights of a law, 0 for the tokens of a set: what is left of it once these are ruled
/// out. A `team::Patched` function.
template <Law L>
struct weights_without {
  using real = typename L::real;

  L law;
  token_set excluded;

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t v) const {
    const real w = law.weight(v);
    return excluded.contains(v) ? real(0) : w;
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE real plain(std::int64_t v) const { return law.weight(v); }
  HUNCH_HOST_DEVICE bool is_plain(std::int64_t begin, std::int64_t end) const {
    return !excluded.any_in(begin, end);
  }
  HUNCH_HOST_DEVICE void patch(std::int64_t begin, std::int64_t end, real* to) const {
    excluded.for_each_in(begin, end, [&](std::int64_t v) { to[v - begin] = 0; });
  }
};

// For compilers that do not deduce this for an aggregate; see `weights_of`.
template <Law L>
weights_without(L, token_set) -> weights_without<L>;

}  // namespace hunch::kernel
