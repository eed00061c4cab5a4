// SPDX-License-Identifier: Apache-2.0
// expect: hunch: the second argument of a diffusion::decoder must model hunch::diffusion::Order

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Scores a position by its law, but does not say which of two positions comes first.
#ifdef WRONG
struct undecided {
#else
struct undecided : diffusion::order::by_score {
#endif
  template <Team T, class Real>
  double score(T&, const law<Real>& l, token t) const {
    return -static_cast<double>(l.prob(t));
  }
};

void compose() {
  diffusion::decoder d{masked{}, undecided{}, sampled{}, diffusion::verifier::stepwise_exact{}};
}
