// SPDX-License-Identifier: Apache-2.0

#include <hunch/executor/cuda.cuh>

#include "operations.hpp"

void hunch_torch::launch_on_stream(CUstream_st* stream, const operation& what) {
  hunch::executor::cuda executor(stream);
  std::visit(launch_on<hunch::executor::cuda>{executor}, what);
}
