// SPDX-License-Identifier: Apache-2.0
// expect: hunch: verifier::coupled needs a random source with noisy_argmax
// expect: hunch: a verifier that shares its noise with the drafter needs a random source

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A source that decides, but has no noise of tokens.
struct plain_source {
  bool bernoulli(const address&, double, double) const { return false; }
  template <Team T, class Weight>
  std::int64_t categorical(T&, const address&, std::int64_t, Weight&&) const {
    return 0;
  }
};

void compose() {
#ifdef WRONG
  using source = plain_source;
#else
  using source = random_source<philox>;
#endif
  decoder d{target{},  hunch::drafter::none{}, selector::full{4},
            sampled{}, verifier::coupled{},    decoder_options{},
            source{}};
  d.step();
}
