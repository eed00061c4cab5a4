// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cooperative_groups.h>

#include <hunch/core/opaque.hpp>
#include <hunch/team/block.cuh>
#include <hunch/team/detail/cooperative.hpp>

namespace hunch::team {

/// Blocks that a cluster may have on every device that knows clusters.
inline constexpr int portable_cluster = 8;

namespace detail {

/// A thread block cluster as the machine of a `cooperative` team. A block writes to the shared
/// memory of the others and never reads it.
template <int Threads, int Loads>
class cluster_threads : public block_threads<Threads, Loads, portable_cluster> {
  using block = block_threads<Threads, Loads, portable_cluster>;

 public:
  using storage = typename block::storage;

  __device__ explicit cluster_threads(storage& shared) : block(shared) {}

  // Earlier devices have no clusters; kernels are compiled for them all the same, in a program for
  // several architectures, and not launched there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  // Both are read each time: else they would lie in registers beside all that a body does.
  __device__ static std::int32_t parts() {
    std::int32_t count = 0;
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(count));
    return count;
  }
  __device__ static std::int32_t part() {
    std::int32_t rank = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
  }
  __device__ static void sync() { cooperative_groups::this_cluster().sync(); }
  __device__ static void arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
  __device__ static void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

 private:
  template <class T>
  __device__ static T& at(T& own, std::int32_t p) {
    // Not known before: else the addresses in all parts are computed once, and kept in registers.
    return *cooperative_groups::this_cluster().map_shared_rank(
        &own, static_cast<unsigned>(kernel::opaque(p)));
  }
#else
  __device__ static std::int32_t parts() { return 1; }
  __device__ static std::int32_t part() { return 0; }
  __device__ static void sync() { __trap(); }
  __device__ static void arrive() { __trap(); }
  __device__ static void wait() { __trap(); }

 private:
  template <class T>
  __device__ static T& at(T& own, std::int32_t) {
    return own;
  }
#endif

 public:
  __device__ shared_scratch& scratch() const { return this->shared_->scratch; }
  __device__ shared_scratch& scratch(std::int32_t p) const { return at(this->shared_->scratch, p); }
  __device__ value_slot<32>& slot(std::int32_t p, std::int32_t phase, std::int32_t i) const {
    return at(this->shared_->posted[phase][i], p);
  }
};

}  // namespace detail

/// A team of a cluster of thread blocks of `Threads` threads each, for devices of compute
/// capability 9.0 and newer: where there are fewer rows than multiprocessors, several of them read
/// one row.
///
/// Every thread of the cluster makes it; `storage` belongs in the shared memory of each block.
/// Launch with a cluster dimension of at most `portable_cluster`, and as many blocks for each body.
template <int Threads, int Loads = default_loads>
class cluster : public cooperative<detail::cluster_threads<Threads, Loads>> {
  using machine = detail::cluster_threads<Threads, Loads>;

 public:
  using storage = typename machine::storage;

  __device__ explicit cluster(storage& shared) : cooperative<machine>(machine(shared)) {
    machine::sync();  // all blocks have begun, so that their memory may be written
  }

  /// Which body of the launch it is for.
  __device__ static std::int32_t index() {
    return static_cast<std::int32_t>(blockIdx.x) / machine::parts();
  }
};

}  // namespace hunch::team
