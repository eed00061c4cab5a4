// SPDX-License-Identifier: Apache-2.0
// expect: which no loop over canvases says: use length::cost

#include <type_traits>

#include <hunch/length/cost.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/metered.hpp>
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  const length::meter meter(4);
  const length::metered policy(meter);
#else
  const length::cost policy;
#endif
  using drafts = diffusion::self_speculation<2, std::remove_const_t<decltype(policy)>>;
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::stepwise_exact{}, drafts{policy}};
}
