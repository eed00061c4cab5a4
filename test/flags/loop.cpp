// SPDX-License-Identifier: Apache-2.0
#include <hunch/distribution/law.hpp>
#include <hunch/team/serial.hpp>

/// \file
/// One host loop, whose assembly is looked at: it must be of vector instructions at -O2, too.

double sum_of_weights(const hunch::law<float>& l) {
  hunch::team::serial team;
  return team.sum(l.size(), hunch::weights_of{l});
}
