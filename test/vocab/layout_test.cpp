// SPDX-License-Identifier: Apache-2.0

// Layouts and shortlists: which row is which token, and where it is found.

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/executor/host.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/vocab/layout_tables.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

TEST_CASE("layouts and shortlists") {
  const auto layout = vocab_layout::permuted({4, 2, 0, 1}, 6);
  CHECK(layout.vocab_size() == 6);
  CHECK(layout.head_rows() == 4);
  const row_range ranges[] = {{0, 1}, {2, 4}};
  const shortlist list = layout.list(ranges, 2);
  CHECK(list.size == 3);
  const token expected[] = {4, 0, 1};
  for (std::int32_t i = 0; i < 3; ++i) {
    CHECK(list.token_at(i) == expected[i]);
    CHECK(list.position_of(expected[i]) == i);
  }
  for (const token absent : {2, 3, 5}) { CHECK(list.position_of(absent) == -1); }
  CHECK_FALSE(list.is_everything(6));

  const auto identity = vocab_layout::identity(6);
  const row_range whole{0, 6};
  CHECK(identity.list(&whole, 1).is_everything(6));
  CHECK_FALSE(identity.list(&whole, 1).is_everything(7));
  const row_range part{2, 5};
  CHECK(identity.list(&part, 1).token_at(0) == 2);
  CHECK(identity.list(&part, 1).position_of(1) == -1);
  CHECK(identity.list(&part, 1).position_of(4) == 2);
}

/// Every lookup of a list against the rows of its ranges, one by one.
void check_lookups(const vocab_layout& layout, const shortlist& list) {
  std::vector<token> tokens;
  for (std::int32_t r = 0; r < list.range_count; ++r) {
    for (std::int32_t row = list.ranges[r].begin; row < list.ranges[r].end; ++row) {
      tokens.push_back(layout.row_token() == nullptr ? row : layout.row_token()[row]);
    }
  }
  std::vector<std::int32_t> at(static_cast<std::size_t>(layout.vocab_size()), -1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    at[static_cast<std::size_t>(tokens[i])] = static_cast<std::int32_t>(i);
  }
  std::vector<std::int32_t> found;
  for (token t = 0; t < layout.vocab_size(); ++t) { found.push_back(list.position_of(t)); }
  CHECK(found == at);
  std::vector<token> held;
  for (std::int32_t i = 0; i < list.size; ++i) { held.push_back(list.token_at(i)); }
  CHECK(held == tokens);
  for (const std::int32_t step : {1, 3, 100}) {
    std::vector<token> walked;
    for (std::int32_t i = 0; i < list.size; i += step) {
      list.for_each_in(i, std::min(i + step, list.size), [&](std::int32_t position, token t) {
        CHECK(position == static_cast<std::int32_t>(walked.size()));
        walked.push_back(t);
      });
    }
    CHECK(walked == tokens);
  }
}

TEST_CASE("tokens are found by the shift of their part, and where there is none") {
  dice random{11};
  for (int round = 0; round < 60; ++round) {
    const std::int32_t vocab = 2 + random.below(60);
    std::vector<token> order(static_cast<std::size_t>(vocab));
    std::iota(order.begin(), order.end(), 0);
    for (std::int32_t i = vocab - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)],
                order[static_cast<std::size_t>(random.below(i + 1))]);
    }
    const std::int32_t rows = 1 + random.below(vocab);
    order.resize(static_cast<std::size_t>(rows));
    std::vector<std::int32_t> begin{random.below(rows)};
    while (begin.back() < rows) {
      begin.push_back(std::min(rows, begin.back() + 1 + random.below(5)));
    }
    const vocab_layout layout =
        (round % 4 == 0 ? vocab_layout::identity(rows) : vocab_layout::permuted(order, vocab))
            .clustered(begin);
    std::vector<row_range> ranges;
    const auto take = [&](std::int32_t first, std::int32_t last) {
      if (random.below(2) == 0 && first < last) { ranges.push_back({first, last}); }
    };
    take(0, begin[0]);
    for (std::size_t c = 1; c < begin.size(); ++c) { take(begin[c - 1], begin[c]); }
    const auto count = static_cast<std::int32_t>(ranges.size());
    std::vector<std::int32_t> shifts(static_cast<std::size_t>(layout.parts()));
    const shortlist list = layout.list(ranges.data(), count, shifts.data());
    CHECK(list.shift == shifts.data());
    check_lookups(layout, list);
    check_lookups(layout, layout.list(ranges.data(), count));
    // As bodies make it of the layout's tables.
    executor::host here;
    const layout_tables tables(here, layout);
    std::vector<std::int32_t> made(shifts.size());
    const auto made_of_tables = [&] {
      team::serial team;
      return tables.view().list(team, ranges.data(), count, made.data());
    };
    CHECK(made_of_tables().shift == made.data());
    CHECK(made == shifts);
    check_lookups(layout, made_of_tables());
    // A part that is not in the list as a whole: there are no shifts, and nothing is lost.
    for (row_range& r : ranges) {
      if (r.end - r.begin < 2) { continue; }
      const row_range whole = r;
      r = random.below(2) == 0 ? row_range{r.begin + 1, r.end} : row_range{r.begin, r.end - 1};
      const shortlist cut = layout.list(ranges.data(), count, shifts.data());
      CHECK(cut.shift == nullptr);
      check_lookups(layout, cut);
      CHECK(made_of_tables().shift == nullptr);
      check_lookups(layout, made_of_tables());
      r = whole;
    }
  }
}

TEST_CASE("orders and clusters tell layouts apart") {
  const std::uint64_t all[] = {vocab_layout::identity(4).order(),
                               vocab_layout::identity(5).order(),
                               vocab_layout::permuted({1, 0, 2, 3}, 4).order(),
                               vocab_layout::permuted({0, 1, 3, 2}, 4).order(),
                               vocab_layout::permuted({0, 1, 3}, 4).order(),
                               vocab_layout::permuted({0, 1, 3}, 5).order()};
  for (const std::uint64_t& a : all) {
    for (const std::uint64_t& b : all) { CHECK((a == b) == (&a == &b)); }
  }
  const auto layout = vocab_layout::permuted({1, 0}, 4);
  CHECK(layout.order() == vocab_layout::permuted({1, 0}, 4).order());
  // Token order is one order, whether it is written down or not: a file has it written down.
  CHECK(vocab_layout::permuted({0, 1, 2}, 3).order() == vocab_layout::identity(3).order());
  // Clusters change no order: a head is stored for all clusters over it.
  const std::uint64_t clusters[] = {layout.fingerprint(), layout.clustered({0, 2}).fingerprint(),
                                    layout.clustered({1, 2}).fingerprint(),
                                    layout.clustered({0, 1, 2}).fingerprint()};
  for (const std::uint64_t& a : clusters) {
    for (const std::uint64_t& b : clusters) { CHECK((a == b) == (&a == &b)); }
  }
  CHECK(layout.clustered({0, 1, 2}).order() == layout.order());
}

}  // namespace
}  // namespace hunch::test
