// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Lists that the bodies of several sequences write together: the entries of a slot stand behind
/// those of the slots before it, without gaps, and padding behind them all.

namespace hunch::team {

/// The sum of f(i) for i in [0, n), on all ranks. Collective. There are few slots: one thread counts
/// them without the loops that a row is worth.
template <Team T, class F>
HUNCH_HOST_DEVICE std::int32_t sum_before(T& team, std::int32_t n, const F& f) {
  if constexpr (is_one_thread<T>) {
    std::int32_t sum = 0;
    for (std::int32_t i = 0; i < n; ++i) { sum += f(i); }
    return sum;
  } else {
    return team.reduce(
        n, std::int32_t(0), [&](std::int64_t i) { return f(static_cast<std::int32_t>(i)); },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  }
}

/// f(i) for i in [0, n), of entries that are as few.
template <Team T, class F>
HUNCH_HOST_DEVICE void for_few(T& team, std::int32_t n, const F& f) {
  for (std::int32_t i = team.rank(); i < n; i += team.size()) { f(i); }
}

/// Which part of such a list a body writes.
struct slot_part {
  std::int32_t slot = 0;          ///< the body's
  std::int32_t slots = 0;         ///< that write it
  std::int32_t capacity = 0;      ///< padded up to it; 0: not
  std::int32_t* count = nullptr;  ///< out, by the last slot: entries, without padding
};

/// Writes the entries of one slot by set(at, i), for i below size_of(slot), and behind those of the
/// last slot the padding by pad(at). Returns where the slot's entries begin, on all ranks.
/// Collective; what `size_of` reads of any slot stays as it is until all slots have called.
template <Team T, class Size, class Set, class Pad>
HUNCH_HOST_DEVICE std::int32_t list_by_slot(T& team, const slot_part& part, const Size& size_of,
                                            const Set& set, const Pad& pad) {
  const std::int32_t first = sum_before(team, part.slot, size_of);
  const std::int32_t size = size_of(part.slot);
  for_few(team, size, [&](std::int32_t i) { set(first + i, i); });
  if (part.slot + 1 < part.slots) { return first; }
  const std::int32_t end = first + size;
  for_few(team, part.capacity - end, [&](std::int32_t i) { pad(end + i); });
  if (team.rank() == 0) { *part.count = end; }
  return first;
}

}  // namespace hunch::team
