// SPDX-License-Identifier: Apache-2.0
// expect: Random must model hunch::RandomSource

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Decides, but draws nothing.
struct coin {
  bool bernoulli(const address&, double, double) const { return false; }
};

void compose() {
#ifdef WRONG
  using source = coin;
#else
  using source = random_source<>;
#endif
  decoder d{target{},  hunch::drafter::none{}, selector::full{4},
            sampled{}, verifier::rejection{},  decoder_options{},
            source{}};
}
