// SPDX-License-Identifier: Apache-2.0

// Rankings of tokens.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/selector/frequency.hpp>
#include <hunch/tools/frequency_ranking.hpp>

namespace hunch::test {
namespace {

std::vector<token> order_of(const vocab_layout& layout) {
  return {layout.row_token(), layout.row_token() + layout.head_rows()};
}

TEST_CASE("a ranking by frequency") {
  const std::vector<token> corpus{3, 3, 3, 1, 5, 5, 0, 1};
  CHECK(order_of(frequency_ranking(corpus, 7)) == std::vector<token>{3, 1, 5, 0, 2, 4, 6});
  const std::vector<token> keep{6, 0, 6};
  CHECK(order_of(frequency_ranking(corpus, 7, keep)) == std::vector<token>{0, 6, 3, 1, 5, 2, 4});
  CHECK(order_of(frequency_ranking({}, 3)) == std::vector<token>{0, 1, 2});
}

}  // namespace
}  // namespace hunch::test
