// SPDX-License-Identifier: Apache-2.0
// expect: hunch: name the executor of the decoder: selector::any<Real, Executor>

#include "../support/hidden_host.hpp"
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
  using host = test::hidden_host;
#ifdef WRONG
  using selector_type = selector::any<float>;
#else
  using selector_type = selector::any<float, host>;
#endif
  decoder d{target{},
            hunch::drafter::none{},
            selector_type{selector::full{4}},
            sampled{},
            verifier::rejection{},
            decoder_options{},
            random_source<>{},
            host{}};
}
