// SPDX-License-Identifier: Apache-2.0

// The counters of a decoder.

#include <cstdint>

#include <doctest/doctest.h>

#include <hunch/decoder/statistics.hpp>

namespace hunch::test {
namespace {

TEST_CASE("statistics by the field's names") {
  statistics<4> s;
  CHECK(s.mean_acceptance_length() == 0.0);
  CHECK(s.draft_acceptance_rate() == 0.0);
  CHECK(s.acceptance_probability() == 0.0);
  // Three steps of three drafts: 3, 1 and 0 accepted.
  s.steps = 3;
  s.drafted = 9;
  s.accepted = 4;
  std::ranges::copy(std::vector{3, 3, 3, 0}, s.proposed_at);
  std::ranges::copy(std::vector{2, 1, 1, 0}, s.accepted_at);
  s.shortlists = 9;
  s.shortlist_rows = 90;
  CHECK(s.mean_acceptance_length() == doctest::Approx(1.0 + 4.0 / 3.0));
  CHECK(s.draft_acceptance_rate() == doctest::Approx(4.0 / 9.0));
  CHECK(s.acceptance_at(0) == doctest::Approx(2.0 / 3.0));
  CHECK(s.acceptance_at(1) == doctest::Approx(1.0 / 3.0));
  CHECK(s.acceptance_at(3) == 0.0);
  CHECK(s.acceptance_probability() ==
        doctest::Approx(4.0 / 6.0));  // 3 + 2 + 1 were put to the test
  CHECK(s.average_shortlist_rows() == 10.0);
}

}  // namespace
}  // namespace hunch::test
