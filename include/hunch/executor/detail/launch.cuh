// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include <cuda_runtime.h>

#include <hunch/executor/cuda_error.cuh>
#include <hunch/team/block.cuh>
#include <hunch/team/cluster.cuh>

/// \file
/// Bodies as kernels: by a block or a cluster each.

namespace hunch::executor {

/// Threads of a block.
inline constexpr int cuda_threads = 512;

namespace detail {

// One block of a multiprocessor's registers is enough of a demand, unless a body says otherwise: a
// thread that has the state of a verification rule in registers needs more than a share of two.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, team::blocks_of<Body>)
    run_body(const __grid_constant__ Body body) {
  using team_type = team::block<cuda_threads, team::loads_of<Body>>;
  __shared__ typename team_type::storage storage;
  team_type team(storage);
  body(team, static_cast<std::int32_t>(blockIdx.x));
}

/// The same by a cluster. In code for devices that have none it is empty and not launched.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, team::blocks_of<Body>)
    run_body_by_cluster(const __grid_constant__ Body body) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using team_type = team::cluster<cuda_threads, team::loads_of<Body>>;
  __shared__ typename team_type::storage storage;
  team_type team(storage);
  body(team, team.index());
#endif
}

/// How `count` bodies are launched by clusters of `blocks` each. `attribute` is part of it.
inline cudaLaunchConfig_t cluster_launch(std::int32_t count, std::int32_t blocks,
                                         cudaStream_t stream, cudaLaunchAttribute& attribute) {
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(count * blocks));
  config.blockDim = dim3(cuda_threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

/// What fits on a device at once, asked once for each kernel. Of the device that is current when it
/// is made.
class launch_limits {
 public:
  launch_limits() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute");
  }

  /// The blocks of the clusters by which `count` bodies are run: as many as keep the device busy,
  /// if all clusters fit on it at once. 1 where a block each does, where the device has no
  /// clusters, or the code was compiled for one that has none.
  template <class... Arguments>
  std::int32_t blocks_of_cluster(void (*kernel)(Arguments...), std::int32_t count,
                                 cudaStream_t stream) {
    const std::array<std::int32_t, sizes>& most = clusters(kernel, stream);
    for (int i = 0; i < sizes; ++i) {
      if (count <= most[i]) { return team::portable_cluster >> i; }
    }
    return 1;
  }
  /// Blocks of a kernel that fit on the device.
  template <class... Arguments>
  std::int32_t blocks(void (*kernel)(Arguments...)) {
    const auto key = reinterpret_cast<const void*>(kernel);
    const auto found = blocks_.find(key);
    if (found != blocks_.end()) { return found->second; }
    int each = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, cuda_threads, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    const std::int32_t limit = std::max(1, each * processors_);
    blocks_.emplace(key, limit);
    return limit;
  }

 private:
  static constexpr int sizes = 3;  ///< of clusters: 8, 4 and 2 blocks

  /// Bodies of a launch up to which each gets a cluster of that size.
  template <class... Arguments>
  const std::array<std::int32_t, sizes>& clusters(void (*kernel)(Arguments...),
                                                  cudaStream_t stream) {
    const auto key = reinterpret_cast<const void*>(kernel);
    const auto found = clusters_.find(key);
    if (found != clusters_.end()) { return found->second; }
    cudaFuncAttributes compiled{};
    check(cudaFuncGetAttributes(&compiled, key), "cudaFuncGetAttributes");
    std::array<std::int32_t, sizes> most{};
    if (compiled.ptxVersion >= 90 && compiled.binaryVersion >= 90) {
      for (int i = 0; i < sizes; ++i) {
        const std::int32_t blocks = team::portable_cluster >> i;
        int at_once = 0;
        cudaLaunchAttribute attribute{};
        const cudaLaunchConfig_t config = cluster_launch(1, blocks, stream, attribute);
        check(cudaOccupancyMaxActiveClusters(&at_once, kernel, &config),
              "cudaOccupancyMaxActiveClusters");
        most[i] = std::min(at_once, processors_ / blocks);
      }
    }
    return clusters_.emplace(key, most).first->second;
  }

  int processors_ = 0;
  std::map<const void*, std::array<std::int32_t, sizes>> clusters_;
  std::map<const void*, std::int32_t> blocks_;
};

}  // namespace detail

}  // namespace hunch::executor
