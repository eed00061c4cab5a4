// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <hunch/executor/detail/known_kernels.cuh>
#include <hunch/executor/detail/launch.cuh>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/block.cuh>
#include <hunch/team/mailboxes.hpp>
#include <hunch/team/row_shards.hpp>
#include <hunch/team/sharded.hpp>

/// \file
/// Bodies whose rows are divided among ranks as kernels: by a block each, which tells the blocks of
/// other devices what it has found while it runs.

namespace hunch::executor::detail {

/// A thread of a block, for `team::mailbox_link`. What it writes goes over the wire at once. Of
/// words that are read and written as two of 64 bits, each is one access in PTX's memory model.
class thread_of_block {
 public:
  __device__ static std::int32_t rank() { return static_cast<std::int32_t>(threadIdx.x); }
  __device__ static std::int32_t size() { return cuda_threads; }
  __device__ static void sync() { __syncthreads(); }
  /// Read where it is used: a body has no register for it.
  __device__ static std::int32_t box() {
    std::int32_t block = 0;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
  }

  __device__ static void put(std::uint64_t* to, std::uint64_t a, std::uint64_t b) {
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b)
                 : "memory");
  }
  __device__ static void get(const std::uint64_t* from, std::uint64_t& a, std::uint64_t& b) {
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(a), "=l"(b)
                 : "l"(from)
                 : "memory");
  }
  __device__ static void fence() { __threadfence_system(); }

  /// Looks at the clock rarely: what is awaited comes within microseconds, or never.
  template <class Ready>
  __device__ static bool await(const Ready& ready, std::uint64_t patience) {
    constexpr std::uint32_t many = 1024;
    std::uint64_t began = 0;
    HUNCH_ROLLED
    for (std::uint32_t looks = 1; !ready(); ++looks) {
      if (looks % many != 0) { continue; }
      const std::uint64_t now = nanoseconds();
      if (began == 0) { began = now; }
      if (now - began > patience) { return false; }
    }
    return true;
  }
  /// Threads that have ended are at no barrier any more.
  __device__ static void leave() {
    team::end_loads();
    asm volatile("exit;");
  }

 private:
  __device__ static std::uint64_t nanoseconds() {
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
};

/// What the kernels of a rank know of the others.
struct shard_view {
  team::mailboxes boxes;
  team::row_shards rows;
};

/// The condition of a loop, which ends when a rank is silent, too.
template <class Condition>
struct unless_broken {
  Condition condition;
  const std::uint64_t* broken;

  HUNCH_HOST_DEVICE void set(bool more) const { condition.set(more && *broken == 0); }
};

/// Block i runs body first + i. It waits for block i of every other rank alone; so all of a launch
/// have to be on the device at once, and are where there are no more than multiprocessors.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, 1)
    run_sharded_body(const __grid_constant__ Body body, const __grid_constant__ shard_view shards,
                     const std::int32_t first) {
  constexpr int loads = kernel::smaller(team::loads_of<Body>, team::default_loads);
  using block = team::block<cuda_threads, loads>;
  using link = team::mailbox_link<thread_of_block>;
  __shared__ typename block::storage storage;
  __shared__ team::mailbox_storage messages;
  block inner(storage);  // which the launch before may still run beside
  follow_launch_before();
  if (*shards.boxes.broken != 0) { return; }
  link others(thread_of_block{}, messages, shards.boxes);
  team::sharded<block, link> team(inner, others, shards.rows);
  const std::int32_t index = first + thread_of_block::box();
  team::ask_nearby_of(team, body, index);
  body(team, index);
  team::end_loads();
}

template <class Body>
void load_sharded_kernel(launch_limits& limits, cudaStream_t stream) {
  limits.of(run_sharded_body<Body>, stream);
}

/// As `is_known`.
template <class Body>
inline const bool is_known_sharded = known_kernels::add(load_sharded_kernel<Body>);

}  // namespace hunch::executor::detail
