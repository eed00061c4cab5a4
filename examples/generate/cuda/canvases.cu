// SPDX-License-Identifier: Apache-2.0
#include "generate/cuda/platform.cuh"
#include "generate/resident_canvas.hpp"

namespace generate {

template struct canvas_loops<cuda_platform>;

}  // namespace generate
