// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

namespace hunch::team {

/// Whether this is the last of the `teams` teams of a launch that come here, on all ranks: it sees
/// what the others wrote before they came, and can do what needs all of it without another launch.
/// Nobody waits. `arrived` is 0 before the launch, and again after it. Collective.
template <Team T>
HUNCH_HOST_DEVICE bool arrives_last(T& team, std::int32_t* arrived, std::int32_t teams) {
  team.sync();  // this team has written
  std::int32_t before = 0;
  if (team.rank() == 0) {
#if defined(__CUDA_ARCH__)
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(arrived))
                 : "memory");
#else
    before = std::atomic_ref<std::int32_t>(*arrived).fetch_add(1, std::memory_order_acq_rel);
#endif
    if (before == teams - 1) { *arrived = 0; }
  }
  return team.broadcast(before, 0) == teams - 1;
}

}  // namespace hunch::team
