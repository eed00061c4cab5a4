// SPDX-License-Identifier: Apache-2.0
#include "generate/cuda/platform.cuh"
#include "generate/resident_loops.hpp"

namespace generate {

template struct tree_loops<cuda_platform, pruned_on<cuda_platform>, dynamic_shape>;
template struct tree_loops<cuda_platform, pruned_on<cuda_platform>, fixed_shape>;

}  // namespace generate
