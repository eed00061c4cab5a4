// SPDX-License-Identifier: Apache-2.0
#include "generate/cuda/platform.cuh"
#include "generate/resident_loops.hpp"

namespace generate {

template struct tree_loops<cuda_platform, cascaded_on<cuda_platform>, chain_shape>;

}  // namespace generate
