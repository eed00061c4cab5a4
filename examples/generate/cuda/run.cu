// SPDX-License-Identifier: Apache-2.0
#include "generate/cuda.hpp"

#include "generate/cuda/platform.cuh"
#include "generate/resident.hpp"

namespace generate {

void run_on_cuda(const arguments& a) {
  resident_program<cuda_platform>(a, hunch::executor::cuda{}).run();
}

}  // namespace generate
