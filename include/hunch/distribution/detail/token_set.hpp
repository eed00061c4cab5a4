// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// Children of one node that a rule may test one after the other.
inline constexpr std::int32_t max_siblings = 64;

/// A few tokens, in the list of a team: an array of each rank's own that a loop looks up would be
/// in the memory of a device. Valid until the team's next `compact` or `fill`.
struct token_set {
  const std::int64_t* list = nullptr;
  std::int32_t count = 0;

  template <Team T>
  HUNCH_HOST_DEVICE explicit token_set(T& team) : list(team.scratch().list) {}

  /// Collective.
  template <Team T>
  HUNCH_HOST_DEVICE void add(T& team, token t) {
    team.put(count++, t);
  }
  HUNCH_HOST_DEVICE token operator[](std::int64_t k) const { return static_cast<token>(list[k]); }
  HUNCH_HOST_DEVICE bool contains(std::int64_t t) const {
    HUNCH_ROLLED
    for (std::int32_t k = 0; k < count; ++k) {
      if (list[k] == t) { return true; }
    }
    return false;
  }
  /// Whether one of them is in [begin, end).
  HUNCH_HOST_DEVICE bool any_in(std::int64_t begin, std::int64_t end) const {
    bool any = false;
    HUNCH_ROLLED
    for (std::int32_t k = 0; k < count; ++k) { any |= (list[k] >= begin) & (list[k] < end); }
    return any;
  }
  /// Calls use(t) for those in [begin, end).
  template <class Use>
  HUNCH_HOST_DEVICE void for_each_in(std::int64_t begin, std::int64_t end, Use&& use) const {
    HUNCH_ROLLED
    for (std::int32_t k = 0; k < count; ++k) {
      if (list[k] >= begin && list[k] < end) { use(list[k]); }
    }
  }
};

}  // namespace hunch::kernel
