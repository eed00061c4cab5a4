// SPDX-License-Identifier: Apache-2.0

// The counters of a decoder.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/statistics.hpp>

namespace hunch::test {
namespace {

/// A verification of a chain.
template <std::int32_t N>
void add_chain(statistics<N>& s, std::int32_t levels, std::int32_t accepted) {
  s.count(levels, {levels, accepted < levels ? accepted + 1 : levels}, accepted, accepted + 1);
}

TEST_CASE("statistics by the field's names") {
  statistics<4> s;
  CHECK(s.mean_acceptance_length() == 0.0);
  CHECK(s.draft_acceptance_rate() == 0.0);
  CHECK(s.acceptance_probability() == 0.0);
  // Three steps of three drafts: 3, 1 and 0 accepted.
  for (const std::int32_t accepted : {3, 1, 0}) { add_chain(s, 3, accepted); }
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

TEST_CASE(
    "only drafts that were put to the test say how probable acceptance is, whatever their length") {
  statistics<4> s;
  add_chain(s, 1, 1);  // nothing was drafted after what was accepted
  add_chain(s, 3, 2);
  add_chain(s, 0, 0);
  CHECK(s.tested == 4);
  CHECK(s.acceptance_probability() == doctest::Approx(3.0 / 4.0));
  statistics<8> sum;
  sum += s;
  sum += s;
  CHECK(sum.acceptance_probability() == s.acceptance_probability());
}

TEST_CASE("of a tree a level was put to the test only below what was accepted") {
  // 0 -> 1, which is a leaf; 0 -> 2 -> 3.
  token tokens[] = {0, 5, 6, 7};
  std::int32_t parents[] = {-1, 0, 0, 2};
  const drafted_tokens tree{.count = 4, .tokens = tokens, .parent = parents};
  const auto extent_after = [&](std::vector<std::int32_t> path) {
    statistics<4> s;
    verdict v;
    v.path = path.data();
    v.accepted = static_cast<std::int32_t>(path.size());
    const draft_extent extent = s.count(tree, nullptr, v, v.accepted + 1);
    CHECK(s.tested == extent.tested);
    CHECK(extent.levels == 2);
    return extent.tested;
  };
  CHECK(extent_after({}) == 1);
  CHECK(extent_after({1}) == 1);  // nothing was drafted after it, though the tree goes deeper
  CHECK(extent_after({2}) == 2);
  CHECK(extent_after({2, 3}) == 2);
}

}  // namespace
}  // namespace hunch::test
