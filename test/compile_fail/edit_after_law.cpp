// SPDX-License-Identifier: Apache-2.0
// expect: come before those that scale or restrict the law

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  sampler::pipeline p{sampler::temperature{}, sampler::penalties{}};
#else
  sampler::pipeline p{sampler::penalties{}, sampler::temperature{}};
#endif
}
