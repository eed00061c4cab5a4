// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Lists that the bodies of several sequences write together: the entries of a slot stand behind
/// those of the slots before it, without gaps, and padding behind them all.

namespace hunch::team {

/// Which part of such a list a body writes.
struct slot_part {
  std::int32_t slot = 0;          ///< the body's
  std::int32_t slots = 0;         ///< that write it
  std::int32_t capacity = 0;      ///< padded up to it; 0: not
  std::int32_t* count = nullptr;  ///< out, by the last slot: entries, without padding
};

/// The entries of a slot in such a list.
struct slot_entries {
  std::int32_t first = 0;
  std::int32_t size = 0;
};

/// Writes the entries of one slot by set(at, i), for i below size_of(slot), and behind those of the
/// last slot the padding by pad(at). Returns which they are, on all ranks. Collective; what
/// `size_of` reads of any slot stays as it is until all slots have called.
template <Team T, class Size, class Set, class Pad>
HUNCH_HOST_DEVICE slot_entries list_by_slot(T& team, const slot_part& part, const Size& size_of,
                                            const Set& set, const Pad& pad) {
  const std::int32_t first = part.slot == 0 ? 0 : sum_of_few(team, part.slot, size_of);
  const std::int32_t size = size_of(part.slot);
  for_few(team, size, [&](std::int32_t i) { set(first + i, i); });
  const slot_entries entries{first, size};
  if (part.slot + 1 < part.slots) { return entries; }
  const std::int32_t end = first + size;
  for_few(team, part.capacity - end, [&](std::int32_t i) { pad(end + i); });
  if (team.rank() == 0) { *part.count = end; }
  return entries;
}

}  // namespace hunch::team
