// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/detail/noisy_argmax.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// The index i in [0, n) with the smallest arrival time over weight(i), or -1 if no weight is
/// positive. Collective; looks at the weights once, at those that may win once more, and at no
/// arrival that cannot be the first.
template <Team T, class Weight, class Words>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t race(T& team, std::int64_t n,
                                                           const Weight& weight,
                                                           const token_noise<Words>& noise) {
  const auto better = [](const timed_token& a, const timed_token& b) { return ahead(a, b); };
  // Somebody has to be beaten: the first of each tile.
  const timed_token bound = team::reduce_blocks<noise_tile>(
      team, n, timed_token{},
      [=](std::int64_t tile) {
        const auto start = noise.start(static_cast<std::int32_t>(tile));
        if (start.first >= n) { return timed_token{}; }
        const auto w = static_cast<double>(weight(start.first));
        return w > 0.0 ? timed_token{start.time / w, start.first} : timed_token{};
      },
      better);
  // A tile that starts at `time` needs the weight time / bound.time; with a margin for rounding.
  const auto gate = [=](std::int64_t tile) {
    return noise.start_time(static_cast<std::int32_t>(tile)) / bound.time * (1.0 - 0x1p-40);
  };
  const auto keep = [=](std::int64_t i, double least) {
    return static_cast<double>(weight(i)) > least;
  };
  const auto contender = [=](std::int64_t i) {
    const auto start = noise.start(static_cast<std::int32_t>(i / noise_tile));
    const auto who = static_cast<token>(i);
    return timed_token{noise.arrival(who, start) / static_cast<double>(weight(i)), who};
  };
  static_assert(noise_tile == team::gate_elements);
  const timed_token winner =
      ahead(bound, team.reduce_where(n, timed_token{}, gate, keep, contender, better));
  return winner.who == no_token ? -1 : winner.who;
}

}  // namespace hunch::kernel
