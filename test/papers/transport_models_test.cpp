// SPDX-License-Identifier: Apache-2.0

// How near rejection comes to the best acceptance on the laws of the shipped target and EAGLE head.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "places.hpp"
#include "transport.hpp"

namespace hunch::test {
namespace {

std::vector<double> normalised(std::span<const float> row) {
  std::vector<double> law(row.begin(), row.end());
  double sum = 0.0;
  for (const double x : law) { sum += x; }
  for (double& x : law) { x /= sum; }
  return law;
}

/// Means over the places.
struct reached {
  double best = 0.0;
  double accepted = 0.0;

  void add(double of_best, double of_accepted, double places) {
    CHECK(of_accepted <= of_best + 1e-9);
    best += of_best / places;
    accepted += of_accepted / places;
  }
};

TEST_CASE("on the laws of models rejection accepts nearly the best") {
  const papers::places& all = papers::all_places();
  constexpr int every = 4;
  reached one, two, three, distinct;
  int at = 0;
  all.each([&](std::span<const float> p, std::span<const float> q, auto&&...) {
    if (at++ % every != 0) { return; }
    const papers::sorted_pair pair(normalised(p), normalised(q));
    const double places = all.count() / every;
    one.add(pair.cut_of_independent(1), pair.accepted_of_independent(1), places);
    two.add(pair.cut_of_independent(2), pair.accepted_of_independent(2), places);
    three.add(pair.cut_of_independent(3), pair.accepted_of_independent(3), places);
    distinct.add(pair.cut_of_two_distinct(), pair.accepted_of_two_distinct(), places);
  });
  MESSAGE("accepted, of the best: one draft "
          << one.accepted << " of " << one.best << "; two " << two.accepted << " of " << two.best
          << "; three " << three.accepted << " of " << three.best << "; two without replacement "
          << distinct.accepted << " of " << distinct.best);
  CHECK(std::abs(one.accepted - one.best) <= 1e-9);
  CHECK(std::abs(two.accepted / two.best - 0.94) <= 0.02);
  CHECK(std::abs(three.accepted / three.best - 0.93) <= 0.02);
  CHECK(std::abs(distinct.accepted / distinct.best - 0.94) <= 0.02);
  // Drafts without replacement can be accepted more often, and are.
  CHECK(distinct.best > two.best);
  CHECK(distinct.accepted > two.accepted);
}

}  // namespace
}  // namespace hunch::test
