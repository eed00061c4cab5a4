// SPDX-License-Identifier: Apache-2.0
// expect: hunch: Random must model hunch::NoiseSource

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A source of independent draws.
struct draws_only {
  random_source<> inner;
  bool bernoulli(const address& a, double num, double den) const {
    return inner.bernoulli(a, num, den);
  }
  template <Team T, class Weight>
  std::int64_t categorical(T& team, const address& a, std::int64_t n, Weight&& weight) const {
    return inner.categorical(team, a, n, weight);
  }
};

void compose() {
#ifdef WRONG
  const draws_only source;
#else
  const random_source<> source;
#endif
  diffusion::decoder d{masked{},
                       diffusion::order::confidence{},
                       sampled{},
                       diffusion::verifier::stepwise_exact{},
                       diffusion::self_speculation<2>{},
                       diffusion::decoder_options{},
                       source};
}
