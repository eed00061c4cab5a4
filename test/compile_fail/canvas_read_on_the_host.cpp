// SPDX-License-Identifier: Apache-2.0
// expect: hunch: this masked model reads its canvases on the host

#include "../support/hidden_host.hpp"
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  using executor_type = test::hidden_host;
#else
  using executor_type = executor::host;
#endif
  diffusion::resident_decoder d{diffusion::right_shifted{masked{}},
                                diffusion::order::confidence{},
                                sampled{},
                                diffusion::verifier::stepwise_exact{},
                                diffusion::self_speculation<2>{},
                                diffusion::resident_options{},
                                random_source<>{},
                                executor_type{}};
}
