// SPDX-License-Identifier: Apache-2.0

// Draft vocabularies and budgets.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/selector/frequency.hpp>
#include <hunch/selector/trimmed.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/layouts.hpp>

namespace hunch::test {
namespace {

TEST_CASE("draft vocabularies") {
  // An EAGLE-3 table holds what is to be added to the row.
  const std::int64_t d2t[] = {2, 2, 4};
  const vocab_layout layout = from_d2t(d2t, 8);
  CHECK(std::vector<token>(layout.row_token(), layout.row_token() + 3) ==
        std::vector<token>{2, 3, 6});
  const std::int64_t outside[] = {0, 7};
  const std::int64_t twice[] = {1, 0};
  CHECK_THROWS_AS(from_d2t(outside, 8), std::invalid_argument);
  CHECK_THROWS_AS(from_d2t(twice, 8), std::invalid_argument);
  CHECK(selector::trimmed{layout}.max_rows() == 3);
  CHECK_THROWS_AS(selector::trimmed{vocab_layout::identity(4)}, std::invalid_argument);
  CHECK(first_rows(layout, 2).head_rows() == 2);
  CHECK(first_rows(vocab_layout::identity(4), 2).row_token()[1] == 1);
  CHECK_THROWS_AS(first_rows(layout, 4), std::invalid_argument);
}

TEST_CASE("budgets") {
  constexpr budget::position_aware<> k{30};
  const std::int32_t expected[] = {30, 30, 5, 3, 3, 2, 2, 1, 1};
  for (std::int32_t t = 0; t < 9; ++t) { CHECK(k.at(t) == expected[t]); }
  CHECK(budget::position_aware{1}.at(7) == 1);
  CHECK(budget::fixed{30}.at(7) == 30);
  row_range range;
  const selector::frequency tapered{vocab_layout::identity(40), k};
  for (std::int32_t t = 0; t < 9; ++t) {
    CHECK(tapered.chooser()(3, t, &range) == 1);
    CHECK(range == row_range{0, expected[t]});
  }
  CHECK(tapered.max_rows() == 30);
}

}  // namespace
}  // namespace hunch::test
