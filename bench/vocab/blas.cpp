// SPDX-License-Identifier: Apache-2.0
#include "blas.hpp"

#if defined(HUNCH_BENCH_OPENBLAS)
#include <cblas.h>

namespace bench {

const bool has_blas = true;

void blas_product(const float* w, std::int32_t rows, std::int32_t width, const float* x, float* y) {
  openblas_set_num_threads(1);
  cblas_sgemv(CblasRowMajor, CblasNoTrans, rows, width, 1.0f, w, width, x, 1, 0.0f, y, 1);
}

}  // namespace bench

#else

namespace bench {

const bool has_blas = false;

void blas_product(const float*, std::int32_t, std::int32_t, const float*, float*) {}

}  // namespace bench

#endif
