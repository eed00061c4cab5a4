// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bench {

/// Whether this was built with OpenBLAS, whose header has names in common with this library.
extern const bool has_blas;

/// y = w x on one thread. w: [rows, width]. Nothing without OpenBLAS.
void blas_product(const float* w, std::int32_t rows, std::int32_t width, const float* x, float* y);

}  // namespace bench
