// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include <cuda_runtime.h>

#include <hunch/executor/cuda_error.cuh>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/block.cuh>
#include <hunch/team/cluster.cuh>

/// \file
/// Bodies as kernels: by a block or a cluster each.

namespace hunch::executor {

/// Threads of a block.
inline constexpr int cuda_threads = 512;

namespace detail {

/// A kernel may be put on the device while the one before it in its stream still runs, so that a
/// launch costs less: first of all it waits for the end of that one, and for its writes. From then
/// on the next one may come.
__device__ inline void follow_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// One block of a multiprocessor's registers is enough of a demand, unless a body says otherwise: a
// thread that has the state of a verification rule in registers needs more than a share of two.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, team::blocks_of<Body>)
    run_body(const __grid_constant__ Body body) {
  using team_type = team::block<cuda_threads, team::loads_of<Body>>;
  __shared__ typename team_type::storage storage;
  team_type team(storage);  // which the launch before may still run beside
  follow_launch_before();
  const auto index = static_cast<std::int32_t>(blockIdx.x);
  team::ask_nearby_of(team, body, index);
  body(team, index);
  team::end_loads();
}

/// The same by a cluster. In code for devices that have none it is empty and not launched.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, team::blocks_of<Body>)
    run_body_by_cluster(const __grid_constant__ Body body) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using team_type = team::cluster<cuda_threads, team::loads_of<Body>>;
  __shared__ typename team_type::storage storage;
  team_type team(storage);  // which the launch before may still run beside
  follow_launch_before();
  body(team, team.index());
  team::end_loads();
#endif
}

/// How `count` bodies are launched, by clusters of `blocks` each if these are more than one.
class body_launch {
 public:
  body_launch(std::int32_t count, std::int32_t blocks, cudaStream_t stream) {
    config_.gridDim = dim3(static_cast<unsigned>(count * blocks));
    config_.blockDim = dim3(cuda_threads);
    config_.stream = stream;
    config_.attrs = attributes_;
    if (blocks > 1) {
      cudaLaunchAttribute& cluster = attributes_[config_.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    }
  }
  body_launch(const body_launch&) = delete;
  body_launch& operator=(const body_launch&) = delete;

  /// Before the kernel in front of it has ended; see `follow_launch_before`.
  void overlap() {
    cudaLaunchAttribute& early = attributes_[config_.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  const cudaLaunchConfig_t& config() const { return config_; }

 private:
  cudaLaunchAttribute attributes_[2]{};
  cudaLaunchConfig_t config_{};
};

/// What fits on a device at once of the kernels that it runs, asked once for each. Of the device
/// that is current when it is made.
class launch_limits {
  static constexpr int sizes = 3;  ///< of clusters: 8, 4 and 2 blocks

 public:
  /// Of one kernel.
  struct of_kernel {
    /// Whether its code is for devices that have clusters and may let kernels overlap.
    bool is_for_clusters = false;
    std::int32_t blocks = 1;                     ///< on the device at once
    std::array<std::int32_t, sizes> clusters{};  ///< of each size likewise
  };

  launch_limits() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute");
  }

  template <class... Arguments>
  const of_kernel& of(void (*kernel)(Arguments...), cudaStream_t stream) {
    const auto key = reinterpret_cast<const void*>(kernel);
    const auto found = known_.find(key);
    if (found != known_.end()) { return found->second; }
    of_kernel limits;
    cudaFuncAttributes compiled{};
    check(cudaFuncGetAttributes(&compiled, key), "cudaFuncGetAttributes");
    limits.is_for_clusters = compiled.ptxVersion >= 90 && compiled.binaryVersion >= 90;
    int each = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, cuda_threads, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    limits.blocks = std::max(1, each * processors_);
    for (int i = 0; i < sizes && limits.is_for_clusters; ++i) {
      const std::int32_t blocks = team::portable_cluster >> i;
      const body_launch by_cluster(1, blocks, stream);
      check(cudaOccupancyMaxActiveClusters(&limits.clusters[i], kernel, &by_cluster.config()),
            "cudaOccupancyMaxActiveClusters");
    }
    return known_.emplace(key, limits).first->second;
  }

  /// The blocks of the clusters by which `count` bodies are soonest run; 1: a block each. More of
  /// them take less time for a body, but fewer bodies are on the device at once, and what is left
  /// for the end keeps little of it busy.
  static std::int32_t blocks_of_cluster(std::int32_t count, const of_kernel& by_block,
                                        const of_kernel& by_cluster) {
    // What a body takes whoever reads its rows, as a share of what a block takes to read them.
    constexpr double besides = 0.1;
    const auto time = [=](std::int32_t at_once, std::int32_t blocks) {
      return ((count + at_once - 1) / at_once) * (1.0 / blocks + besides);
    };
    std::int32_t best = 1;
    double least = time(by_block.blocks, 1);
    for (int i = sizes - 1; i >= 0; --i) {
      if (by_cluster.clusters[i] == 0) { continue; }
      const std::int32_t blocks = team::portable_cluster >> i;
      const double taken = time(by_cluster.clusters[i], blocks);
      if (taken < least) {
        best = blocks;
        least = taken;
      }
    }
    return best;
  }

 private:
  int processors_ = 0;
  std::map<const void*, of_kernel> known_;
};

}  // namespace detail

}  // namespace hunch::executor
