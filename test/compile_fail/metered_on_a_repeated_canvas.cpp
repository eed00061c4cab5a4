// SPDX-License-Identifier: Apache-2.0
// expect: this length policy is taught by the host's clock, which a resident loop

#include <hunch/length/meter.hpp>
#include <hunch/length/metered.hpp>
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
  const length::meter meter(4);
  using drafts = diffusion::self_speculation<2, length::metered>;
#ifdef WRONG
  diffusion::resident_decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                                diffusion::verifier::stepwise_exact{},
                                drafts{length::metered{meter}}};
#else
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::stepwise_exact{}, drafts{length::metered{meter}}};
#endif
}
