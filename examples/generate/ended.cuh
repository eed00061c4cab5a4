// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include <hunch/executor/cuda.cuh>

namespace generate {

/// Whether the executor has nothing under way; if it has, after a short sleep.
/// \throws hunch::executor::cuda_error what has failed there.
inline bool ended(const hunch::executor::cuda& where) {
  const cudaError_t state = cudaStreamQuery(where.stream());
  if (state == cudaErrorNotReady) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    return false;
  }
  if (state != cudaSuccess) { throw hunch::executor::cuda_error(state, "cudaStreamQuery"); }
  return true;
}

}  // namespace generate
