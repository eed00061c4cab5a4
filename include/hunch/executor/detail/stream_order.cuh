// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <hunch/executor/cuda_error.cuh>

namespace hunch::executor::detail {

/// Makes one stream wait for another, with an event that is made once.
class order_of_streams {
 public:
  order_of_streams() {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  order_of_streams(const order_of_streams&) = delete;
  order_of_streams& operator=(const order_of_streams&) = delete;
  ~order_of_streams() { cudaEventDestroy(event_); }
  /// What `second` is given from now on comes after what `first` was given.
  void signal(cudaStream_t first, cudaStream_t second) {
    check(try_signal(first, second), "the order of two streams");
  }
  cudaError_t try_signal(cudaStream_t first, cudaStream_t second) noexcept {
    cudaError_t result = cudaEventRecord(event_, first);
    if (result == cudaSuccess) { result = cudaStreamWaitEvent(second, event_, 0); }
    return result;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace hunch::executor::detail
