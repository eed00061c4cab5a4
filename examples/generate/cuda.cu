// SPDX-License-Identifier: Apache-2.0

#include "generate/cuda.hpp"

#include <engine/device/cublaslt_multiply.cuh>
#include <hunch/executor/cuda.cuh>

#include "generate/ended.cuh"
#include "generate/on_executor.hpp"
#include "generate/rules.hpp"

namespace generate {
namespace {

struct cuda_platform {
  using executor = hunch::executor::cuda;
  using multiply = engine::device::cublaslt_multiply;
  using rules = all_rules;

  static bool ended(const executor& where) { return generate::ended(where); }
};

}  // namespace

void run_on_cuda(const arguments& a) { run_on_executor<cuda_platform>(a, hunch::executor::cuda{}); }

}  // namespace generate
