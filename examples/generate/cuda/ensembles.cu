// SPDX-License-Identifier: Apache-2.0
#include "generate/cuda/platform.cuh"
#include "generate/resident_loops.hpp"

namespace generate {

template struct tree_loops<cuda_platform, merged_on<cuda_platform>, dynamic_shape>;

}  // namespace generate
