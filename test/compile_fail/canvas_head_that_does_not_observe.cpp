// SPDX-License-Identifier: Apache-2.0
// expect: hunch: a draft model with reads_target must model

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct head : masked {
  static constexpr bool reads_target = true;
#ifndef WRONG
  template <class Evaluation>
  void observe(const diffusion::decided_canvases&, const Evaluation&) noexcept {}
#endif
};

void compose() {
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::stepwise_exact{}, diffusion::drafted_by<2>(head{})};
}
