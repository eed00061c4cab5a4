// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

namespace hunch::test {

/// Shows a new meter three plain steps and three that draft a level: it would draft now, at the
/// prices of a level and of the row that it brings, in plain steps.
inline void teach(length::meter& meter, double level, double row) {
  step_summary s{.sequences = 1, .emitted = 1, .target_seconds = 1.0};
  for (int i = 0; i < 3; ++i) { meter.learn(s); }
  s.draft_length = s.deepest = s.deepest_computed = 1;
  s.levels = s.computed = s.tested = s.drafted = s.accepted = 1;
  s.emitted = 2;
  s.draft_seconds = level;
  s.target_seconds = 1.0 + row;
  for (int i = 0; i < 3; ++i) { meter.learn(s); }
  REQUIRE(meter.next(1) > 0);
}

}  // namespace hunch::test
