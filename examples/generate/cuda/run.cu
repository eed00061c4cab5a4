// SPDX-License-Identifier: Apache-2.0
#include "generate/cuda.hpp"

#include "generate/cuda/platform.cuh"
#include "generate/on_executor.hpp"

namespace generate {

void run_on_cuda(const arguments& a) { run_on_executor<cuda_platform>(a, hunch::executor::cuda{}); }

}  // namespace generate
