// SPDX-License-Identifier: Apache-2.0
// expect: hunch: the first argument of a diffusion::decoder must model
// hunch::diffusion::MaskedModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Frees what it keeps, and may throw while it does.
struct careless : masked {
#ifdef WRONG
  void release(std::int32_t) {}
#else
  void release(std::int32_t) noexcept {}
#endif
};

void compose() {
  diffusion::decoder d{careless{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::stepwise_exact{}};
}
