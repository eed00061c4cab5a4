// SPDX-License-Identifier: Apache-2.0
// expect: the unmaskings are those of decoding one token a pass

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::top_k{2}};
#else
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::stepwise_exact{}};
#endif
  static_assert(decltype(d)::lossless, "the unmaskings are those of decoding one token a pass");
}
