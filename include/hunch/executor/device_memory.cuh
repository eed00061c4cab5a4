// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include <hunch/executor/cuda_error.cuh>

namespace hunch::executor {

/// Where the resident memory of `cuda` comes from: derive from it to name an allocator of your own.
/// It is asked where something is made, and in no step.
class device_memory {
 public:
  virtual ~device_memory() = default;
  /// So many bytes, at least one, aligned to 256, for what is given to `stream` from now on.
  /// \throws what it likes, where there is no memory.
  virtual void* allocate(std::size_t bytes, cudaStream_t stream) = 0;
  /// Takes back what it gave, for use after what `stream` has been given so far.
  virtual void deallocate(void* data, std::size_t bytes, cudaStream_t stream) noexcept = 0;
};

/// The current pool of the device that is current when it is made, in the order of streams; where
/// the driver has no pools, `cudaMalloc`.
class stream_ordered_memory : public device_memory {
 public:
  stream_ordered_memory() {
    int device = 0;
    detail::check(cudaGetDevice(&device), "cudaGetDevice");
    detail::check(cudaDeviceGetAttribute(&has_pools_, cudaDevAttrMemoryPoolsSupported, device),
                  "cudaDeviceGetAttribute");
  }
  /// \throws cuda_error where there is no memory.
  void* allocate(std::size_t bytes, cudaStream_t stream) override {
    void* data = nullptr;
    if (has_pools_ != 0) {
      detail::check(cudaMallocAsync(&data, bytes, stream), "cudaMallocAsync");
    } else {
      detail::check(cudaMalloc(&data, bytes), "cudaMalloc");
    }
    return data;
  }
  void deallocate(void* data, std::size_t, cudaStream_t stream) noexcept override {
    if (has_pools_ != 0) {
      cudaFreeAsync(data, stream);
    } else {
      cudaFree(data);
    }
  }

 private:
  int has_pools_ = 0;
};

}  // namespace hunch::executor
