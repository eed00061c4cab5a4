// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The exact search for a cut among the logits that a team has collected in its list.

namespace hunch::kernel {

/// The largest cut that keeps enough: logits above `value` measure `above`, less than what is
/// wanted, and with the `ties` logits equal to it they measure enough; 0 where rounding leaves
/// nothing that does.
template <class Real>
struct cut {
  Real value;
  double above;
  std::int32_t ties;
};

namespace detail {

/// The largest key k in [low, high) with enough(k), where enough(low).
template <class Key, class Enough>
HUNCH_HOST_DEVICE Key largest_key(Key low, Key high, Enough&& enough) {
  --high;
  while (low < high) {
    const Key middle = (low | high) - ((low ^ high) >> 1);  // rounded up, without overflow
    if (enough(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// The largest of the `count` keys in the team's list such that what lies at or above it measures
/// enough, `wanted`: measure(key) is that of one element, and the keys are those in [least, end),
/// at or above which `at_end` lies. The cut's `ties` are 0 where all of them are not enough. Sums
/// are of integers, so that neither the order of the list matters nor which keys are tried.
template <Team T, class Real, class Measure>
HUNCH_HOST_DEVICE cut<Real> cut_of_list(T& team, std::int32_t count, Real least, Real end,
                                        double at_end, double wanted, const Measure& measure) {
  using keys = order<Real>;
  using key = typename keys::key;
  constexpr double unit = 0x1.0p51;
  const std::int64_t* const list = team.scratch().list;
  const auto units = [=](std::int64_t k) {
    return static_cast<std::int64_t>(measure(static_cast<key>(k)) * unit);
  };
  const auto sum = [&](key from) {
    return team.reduce(
        count, std::int64_t(0),
        [=](std::int64_t i) {
          const std::int64_t u = units(list[i]);  // of all, so that the loop vectorises
          return list[i] >= from ? u : std::int64_t(0);
        },
        [](std::int64_t x, std::int64_t y) { return x + y; });
  };
  const auto measured = [&](std::int64_t of) { return at_end + static_cast<double>(of) / unit; };
  const auto enough = [&](std::int64_t of) { return measured(of) >= wanted; };
  const auto ties_of = [&](key k) {
    return team.reduce(
        count, std::int32_t(0), [=](std::int64_t i) { return list[i] == k ? 1 : 0; },
        [](std::int32_t x, std::int32_t y) { return x + y; });
  };
  if constexpr (!team::is_one_thread<T>) {
    // Many threads need no more time for a sum than for a key, and few registers this way.
    const key found =
        largest_key(keys::of(least), keys::of(end), [&](key k) { return enough(sum(k)); });
    const std::int64_t above = sum(found + 1);
    const std::int32_t ties = ties_of(found);
    return {keys::value(found), measured(above), enough(above + ties * units(found)) ? ties : 0};
  } else {
    // One thread keeps in the list what may be the cut, and asks for few sums: between close keys
    // they are nearly a line. To either side of where it says, in turn, so that both ends come
    // near.
    key high = keys::of(end);
    key low = static_cast<key>(team.reduce(
        count, std::int64_t(high), [=](std::int64_t i) { return list[i]; },
        [](std::int64_t x, std::int64_t y) { return x < y ? x : y; }));
    std::int64_t at_low = count == 0 ? 0 : sum(low);
    std::int64_t at_high = 0;
    if (!enough(at_low)) { return {keys::value(low), at_end, 0}; }
    constexpr std::int32_t few = 16;
    constexpr int rounds = 16;
    for (int round = 0; round < rounds && count > few; ++round) {
      const double share =
          (measured(at_low) - wanted) * unit / static_cast<double>(at_low - at_high);
      const double aside = 1.0 / std::sqrt(static_cast<double>(count));
      const bool between = share > aside && share < 1.0 - aside;
      const double width = static_cast<double>(high) - static_cast<double>(low);
      // Of doubles, whose keys may be further apart than a key.
      const bool wide = width >= 0x1.0p62;
      const key middle = (low & high) + ((low ^ high) >> 1);
      const auto key_at = [=](double part) {
        return wide ? middle
                    : static_cast<key>(std::int64_t{low} + static_cast<std::int64_t>(part * width));
      };
      const key probes[] = {key_at(between ? share - aside : 0.5),
                            key_at(between ? share + aside : 0.5)};
      if (probes[0] <= low || probes[1] >= high) { break; }
      const std::int64_t above = at_high;
      for (const key at : probes) {
        if (at <= low || at >= high) { continue; }
        const std::int64_t found = above + sum(at);
        if (enough(found)) {
          low = at;
          at_low = found;
        } else {
          high = at;
          at_high = found;
        }
      }
      count = team.compact(
          count, [=](std::int64_t i) { return (int(list[i] >= low) & int(list[i] < high)) != 0; },
          [=](std::int64_t i) { return list[i]; }, team::list_capacity);
    }
    // From above, key by key.
    for (;;) {
      const auto next = static_cast<key>(team.reduce(
          count, std::int64_t(low),
          [=](std::int64_t i) { return list[i] < high ? list[i] : std::int64_t(low); },
          [](std::int64_t x, std::int64_t y) { return x > y ? x : y; }));
      const std::int32_t ties = ties_of(next);
      const std::int64_t at_next = at_high + ties * units(next);
      if (enough(at_next) || next <= low) { return {keys::value(next), measured(at_high), ties}; }
      high = next;
      at_high = at_next;
    }
  }
}

}  // namespace detail
}  // namespace hunch::kernel
