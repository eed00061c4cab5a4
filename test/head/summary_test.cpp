// SPDX-License-Identifier: Apache-2.0

// The epilogue of a head: the law of a row from the totals of its tiles is the law from its logits,
// bit for bit, and the best children are those of a sorted row. Built a second time under
// ThreadSanitizer.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/distribution/detail/draw.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/head/best_children.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/head/summarise_rows.hpp>
#include <hunch/team/serial.hpp>
#include "../support/hash.hpp"
#include "../support/head_problem.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float scale = 1.75f;

using total = team::soft_total<std::int32_t>;

/// Rows of logits with summaries to be made.
struct summarised {
  std::vector<std::vector<float>> rows;
  std::int32_t count;
  std::int32_t tiles = 0;
  std::vector<std::vector<total>> totals;
  std::vector<std::vector<std::int64_t>> best;

  summarised(std::vector<std::vector<float>> logits, std::int32_t k)
      : rows(std::move(logits)), count(k) {
    for (const auto& row : rows) {
      const auto n = static_cast<std::size_t>(team::tiles_of(std::ssize(row)));
      tiles = std::max(tiles, static_cast<std::int32_t>(n));
      totals.emplace_back(n, total{0, -1.0});
      best.emplace_back(n * static_cast<std::size_t>(k), std::int64_t(-1));
    }
  }
  row_summary summary(std::size_t i) { return {scale, totals[i].data(), count, best[i].data()}; }

  template <class E>
  void make(E executor) {
    std::vector<row_view<float>> views;
    std::vector<row_summary> summaries;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      views.push_back({rows[i].data(), static_cast<std::int32_t>(rows[i].size())});
      summaries.push_back(summary(i));
    }
    const std::vector<std::int32_t> asked(rows.size(), 0);
    executor.launch(static_cast<std::int32_t>(rows.size()) * tiles,
                    kernel::summarise_rows{views.data(), asked.data(), summaries.data(), tiles});
  }
};

struct children {
  law<float> q;
  std::vector<token> tokens;
  std::vector<float> probability;
};

/// Of the rows of `from`, whose position i stands for token i + 1.
template <class E>
std::vector<children> children_of(E executor, summarised& from) {
  std::vector<children> out(from.rows.size());
  std::vector<kernel::summarised_row> asked;
  std::vector<row_range> ranges(from.rows.size());
  std::vector<std::vector<std::int64_t>> work(
      from.rows.size(), std::vector<std::int64_t>(static_cast<std::size_t>(from.count)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].tokens.resize(static_cast<std::size_t>(from.count));
    out[i].probability.resize(static_cast<std::size_t>(from.count));
    const auto size = static_cast<std::int32_t>(from.rows[i].size());
    ranges[i] = {1, size + 1};
    asked.push_back({{from.rows[i].data(), size},
                     {&ranges[i], 1, size, nullptr, nullptr, size + 1},
                     from.summary(i),
                     &out[i].q,
                     work[i].data(),
                     out[i].tokens.data(),
                     out[i].probability.data()});
  }
  executor.launch(static_cast<std::int32_t>(out.size()), kernel::best_children{asked.data()});
  return out;
}

bool equal(const law<float>& a, const law<float>& b) {
  return a.status == b.status &&
         (a.status != status::ok ||
          (std::bit_cast<std::uint32_t>(a.maximum) == std::bit_cast<std::uint32_t>(b.maximum) &&
           std::bit_cast<std::uint32_t>(a.norm) == std::bit_cast<std::uint32_t>(b.norm) &&
           a.scale == b.scale));
}

/// Random rows, rows of few values, rows with long pieces of -inf, and rows without a law.
std::vector<std::vector<float>> rows_of(std::int32_t size) {
  dice random{static_cast<std::uint64_t>(size)};
  std::vector<std::vector<float>> rows(6, std::vector<float>(static_cast<std::size_t>(size)));
  for (std::size_t i = 0; i < rows[0].size(); ++i) {
    const float x = static_cast<float>(random.unit());
    rows[0][i] = 30.0f * x - 15.0f;
    rows[1][i] = static_cast<float>(random.below(3));
    rows[2][i] = i / 4096 % 2 == 0 || i % 5 == 0 ? -infinite : x;
    rows[3][i] = -infinite;
    rows[4][i] = x;
    rows[5][i] = i == rows[5].size() - 1 ? 1.0f : -infinite;
  }
  rows[4][rows[4].size() / 2] = std::numeric_limits<float>::quiet_NaN();
  return rows;
}

std::vector<token> sorted_children(const std::vector<float>& row, std::int32_t count) {
  std::vector<token> order;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -infinite) { order.push_back(static_cast<token>(i)); }
  }
  std::stable_sort(order.begin(), order.end(), [&](token a, token b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count), no_token - 1);
  for (token& t : order) { ++t; }
  return order;
}

#if defined(__SANITIZE_THREAD__)
constexpr std::int32_t sizes[] = {33, 4200};
#else
constexpr std::int32_t sizes[] = {1, 31, 32, 33, 1000, 4096, 4097, 12345, 300000};
#endif
constexpr int without_law = 3;
constexpr int with_nan = 4;

TEST_CASE("a law from the totals of its tiles, and its best children") {
  for (const std::int32_t size : sizes) {
    for (const std::int32_t count : {1, 10, max_ranked_children}) {
      const auto tiles = static_cast<std::int32_t>(team::tiles_of(size));
      if (count * tiles > team::list_capacity) { continue; }
      CAPTURE(size);
      CAPTURE(count);
      summarised all(rows_of(size), count);
      all.make(executor::host{});
      const auto found = children_of(executor::host{}, all);
      for (std::size_t i = 0; i < all.rows.size(); ++i) {
        CAPTURE(i);
        const row_view<const float> row{all.rows[i].data(), size};
        team::serial plain;
        team::serial from_totals;
        const law<float> expected = kernel::unrestricted(plain, row, scale, status::invalid_logits);
        CHECK(equal(found[i].q, expected));
        const law<float> q = kernel::unrestricted(from_totals, row, scale, status::invalid_logits,
                                                  all.totals[i].data());
        if (i == without_law || i == with_nan) {
          CHECK(expected.status == status::invalid_logits);
          CHECK(found[i].tokens == std::vector<token>(static_cast<std::size_t>(count), no_token));
          continue;
        }
        CHECK(found[i].tokens == sorted_children(all.rows[i], count));
        for (std::size_t c = 0; c < found[i].tokens.size(); ++c) {
          const token t = found[i].tokens[c];
          CHECK(found[i].probability[c] == (t == no_token ? 0.0f : expected.prob(t - 1)));
        }
        // The sums that a draw takes from the team are the same too.
        for (std::uint64_t word = 1; word != 0; word <<= 7) {
          CHECK(kernel::draw(from_totals, size, weights_of<law<float>>{q}, ~word) ==
                kernel::draw(plain, size, weights_of<law<float>>{expected}, ~word));
        }
      }
    }
  }
}

TEST_CASE("a summary does not depend on the team") {
  for (const std::int32_t size : {33, 4200}) {
    summarised expected(rows_of(size), 10);
    expected.make(executor::host{});
    for (const threads& executor :
         {threads{{}, 1, 32, 1}, threads{{}, 1, 3, 1}, threads{{}, 3, 2, 1}}) {
      summarised found(rows_of(size), 10);
      found.make(executor);
      CHECK(found.best == expected.best);
      for (std::size_t i = 0; i < found.totals.size(); ++i) {
        if (i == with_nan) { continue; }  // the sum of no numbers
        for (std::size_t t = 0; t < found.totals[i].size(); ++t) {
          CHECK(found.totals[i][t].top == expected.totals[i][t].top);
          CHECK(found.totals[i][t].sum == expected.totals[i][t].sum);
        }
      }
      const auto theirs = children_of(executor, found);
      const auto ours = children_of(executor::host{}, expected);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        CHECK(equal(theirs[i].q, ours[i].q));
        CHECK(theirs[i].tokens == ours[i].tokens);
      }
    }
  }
}

TEST_CASE("what is not asked for is not made") {
  summarised all(rows_of(100), 4);
  std::vector<row_view<float>> views;
  std::vector<row_summary> summaries;
  for (std::size_t i = 0; i < 3; ++i) {
    views.push_back({all.rows[i].data(), 100});
    summaries.push_back(all.summary(i));
  }
  summaries[0].tiles = nullptr;
  summaries[1].count = 0;
  const std::int32_t asked[] = {5, 0, -1};  // the last is padding
  executor::host{}.launch(3, kernel::summarise_rows{views.data(), asked, summaries.data(), 1});
  CHECK(all.totals[0][0].sum == -1.0);
  CHECK(all.best[0][0] != -1);
  CHECK(all.totals[1][0].sum > 0.0);
  CHECK(all.best[1] == std::vector<std::int64_t>(4, -1));
  CHECK(all.totals[2][0].sum == -1.0);
  CHECK(all.best[2] == std::vector<std::int64_t>(4, -1));
}

TEST_CASE("a head with its epilogue") {
  std::vector<float> weights(300 * 16);
  dice random{9};
  for (float& w : weights) { w = static_cast<float>(random.unit() - 0.5); }
  const std::vector<float> hidden(16, 2.0f);
  const vocab_layout layout = vocab_layout::identity(300);
  const row_range ranges[] = {{3, 40}, {290, 300}};
  const shortlist lists[] = {layout.list(ranges, 2), layout.list(ranges, 1)};
  const std::int32_t rows[] = {0, 0};

  summarised all({std::vector<float>(47), std::vector<float>(37)}, 3);
  row_view<float> logits[] = {{all.rows[0].data(), 47}, {all.rows[1].data(), 37}};
  const row_summary summaries[] = {all.summary(0), all.summary(1)};
  executor::host executor;
  shortlist_head<executor::host, float> head(executor, 300, 16);
  head(executor, {weights.data(), 300, 16}, hidden.data(), 16, {2, rows, lists, logits}, summaries);

  summarised expected(all.rows, 3);
  expected.make(executor);
  CHECK(all.best == expected.best);
  CHECK(all.totals[0][0].sum == expected.totals[0][0].sum);
  CHECK(all.totals[1][0].sum == expected.totals[1][0].sum);
}

}  // namespace
}  // namespace hunch::test
