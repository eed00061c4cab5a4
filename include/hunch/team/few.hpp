// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Loops over few things, such as the slots of a step, or the nodes of a level. One thread takes
/// one after the other: the loops of `team::serial` are for rows, each compiled for the processor
/// it runs on, which takes long to compile and to call.

namespace hunch::team {

/// f(i) for i in [0, n), each on some rank, with a `sync` after the last, as `team.for_each`.
/// Collective.
template <Team T, class F>
HUNCH_HOST_DEVICE void for_few(T& team, std::int32_t n, const F& f) {
  HUNCH_ROLLED
  for (std::int32_t i = team.rank(); i < n; i += team.size()) { f(i); }
  team.sync();
}

/// The reduction of f(i) for i in [0, n), on all ranks, as `team.reduce`. Collective.
template <Team T, class F, class Op>
HUNCH_HOST_DEVICE std::int32_t reduce_few(T& team, std::int32_t n, const F& f, const Op& op) {
  if constexpr (is_one_thread<T>) {
    std::int32_t result = 0;
    for (std::int32_t i = 0; i < n; ++i) { result = op(result, f(i)); }
    return result;
  } else {
    return team.reduce(
        n, std::int32_t(0), [&](std::int64_t i) { return f(static_cast<std::int32_t>(i)); }, op);
  }
}

template <Team T, class F>
HUNCH_HOST_DEVICE std::int32_t sum_of_few(T& team, std::int32_t n, const F& f) {
  return reduce_few(team, n, f, [](std::int32_t a, std::int32_t b) { return a + b; });
}
/// Of values that are not negative.
template <Team T, class F>
HUNCH_HOST_DEVICE std::int32_t largest_of_few(T& team, std::int32_t n, const F& f) {
  return reduce_few(team, n, f, [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
}

}  // namespace hunch::team
