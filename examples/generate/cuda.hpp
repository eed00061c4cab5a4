// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "generate/arguments.hpp"

namespace generate {

/// The program on a CUDA device; only in builds that have a CUDA compiler.
void run_on_cuda(const arguments& a);

}  // namespace generate
