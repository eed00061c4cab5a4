// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <engine/device/cublaslt_multiply.cuh>
#include <hunch/executor/cuda.cuh>

#include "generate/ended.cuh"
#include "generate/rules.hpp"

namespace generate {

/// A CUDA device.
struct cuda_platform {
  using executor = hunch::executor::cuda;
  using multiply = engine::device::cublaslt_multiply;
  using rules = all_rules;

  static bool ended(const executor& where) { return generate::ended(where); }
};

}  // namespace generate
