// SPDX-License-Identifier: Apache-2.0

#include <map>
#include <utility>

#include <hunch/executor/cuda.cuh>

#include "operations.hpp"

void hunch_torch::launch_on_stream(CUstream_st* stream, const operation& what) {
  using executor_type = hunch::executor::cuda;
  int device = 0;
  hunch::executor::detail::check(cudaGetDevice(&device), "cudaGetDevice");
  // An executor asks the runtime once how each kernel fits on the device, which takes longer than
  // a launch.
  thread_local std::map<std::pair<int, CUstream_st*>, executor_type> executors;
  executor_type& executor = executors.try_emplace({device, stream}, stream).first->second;
  std::visit([&](const auto& of) { launch_kernels(executor, of); }, what);
}
