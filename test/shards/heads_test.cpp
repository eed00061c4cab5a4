// SPDX-License-Identifier: Apache-2.0

// Draft heads that are divided among ranks: each computes its own rows of each shortlist, and all
// have what one rank would have computed.

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/collective/collective.hpp>
#include <hunch/model/head_shards.hpp>
#include <hunch/vocab/shortlist.hpp>
#include "on_ranks.hpp"

namespace hunch::test::shard_heads_test {
namespace {

constexpr std::int32_t head_size = 1000;
constexpr std::int32_t hidden_rows = 7;

/// The logit of a row of the head for a hidden row: each of them another number.
template <class Real>
Real logit(std::int32_t hidden, std::int32_t row) {
  return static_cast<Real>(hidden * head_size + row);
}

/// What a drafter might ask for: lists of few and many ranges, everything, nothing, padding.
template <class Real>
struct question {
  std::vector<std::int32_t> rows;
  std::vector<std::vector<row_range>> ranges;
  std::vector<shortlist> lists;
  std::vector<std::vector<Real>> out;
  std::vector<row_view<Real>> logits;

  explicit question(std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::int32_t count = 1 + static_cast<std::int32_t>(random() % 9);
    for (std::int32_t i = 0; i < count; ++i) {
      rows.push_back(random() % 5 == 0 ? -1 : static_cast<std::int32_t>(random() % hidden_rows));
      std::vector<row_range> of;
      std::int32_t at = 0;
      const std::uint32_t longest = random() % 3 == 0 ? head_size : 40;
      while (at < head_size && random() % 8 != 0) {
        const auto begin = at + static_cast<std::int32_t>(random() % 60);
        const auto end = begin + 1 + static_cast<std::int32_t>(random() % longest);
        if (end > head_size) { break; }
        of.push_back({begin, end});
        at = end + 1;
      }
      if (random() % 4 == 0) { of = {{0, head_size}}; }
      ranges.push_back(of);
    }
    for (const std::vector<row_range>& of : ranges) {
      shortlist list{.ranges = of.data(),
                     .range_count = static_cast<std::int32_t>(of.size()),
                     .vocab_size = head_size};
      for (const row_range& r : of) { list.size += r.end - r.begin; }
      lists.push_back(list);
      out.emplace_back(static_cast<std::size_t>(list.size), Real(-1));
    }
    for (std::vector<Real>& row : out) {
      logits.push_back({row.data(), static_cast<std::int32_t>(row.size())});
    }
  }
  head_rows<Real> asked() {
    return {static_cast<std::int32_t>(rows.size()), rows.data(), lists.data(), logits.data()};
  }
};

/// Writes the logits of own rows, or lends them; rows outside of [first, end) are none of its.
template <class Real>
void multiply(const head_rows<Real>& own, std::int32_t first, std::int32_t end,
              std::vector<std::vector<Real>>* lent) {
  for (std::int32_t i = 0; i < own.size; ++i) {
    const shortlist& list = own.lists[i];
    REQUIRE(list.size > 0);
    REQUIRE(own.logits[i].size == list.size);
    REQUIRE(list.shift == nullptr);
    if (lent != nullptr) {
      lent->emplace_back(static_cast<std::size_t>(list.size));
      own.logits[i].data = lent->back().data();
    }
    std::int32_t at = 0;
    for (std::int32_t k = 0; k < list.range_count; ++k) {
      const row_range r = list.ranges[k];
      REQUIRE(r.begin >= first);
      REQUIRE(r.end <= end);
      for (std::int32_t row = r.begin; row < r.end; ++row) {
        own.logits[i][at++] = logit<Real>(own.row[i], row);
      }
    }
    REQUIRE(at == list.size);
  }
}

template <class Real>
void check_answers(const shard_bounds& bounds) {
  const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
  const rank_ends ends = on_ranks(ranks, [&](auto& c) {
    const vocab_shards shards = shards_of(c, bounds);
    head_shards<collective::threads, Real> parts(c, shards);
    const std::int32_t first = shards.first(c.rank());
    const std::int32_t end = shards.end(c.rank());
    std::int64_t compared = 0;
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
      question<Real> q(seed);
      std::vector<std::vector<Real>> lent;
      lent.reserve(q.rows.size());
      parts(q.asked(), [&](const head_rows<Real>& own) {
        multiply(own, first, end, seed % 2 == 0 ? nullptr : &lent);
      });
      for (std::size_t i = 0; i < q.rows.size(); ++i) {
        std::size_t at = 0;
        for (const row_range& r : q.ranges[i]) {
          for (std::int32_t row = r.begin; row < r.end; ++row, ++at) {
            const Real expected = q.rows[i] < 0 ? Real(-1) : logit<Real>(q.rows[i], row);
            REQUIRE(q.out[i][at] == expected);
            ++compared;
          }
        }
      }
    }
    CHECK(compared > 10000);
  });
  for (const std::string& what : ends.what) { CHECK(what == ""); }
}

TEST_CASE("all ranks have the logits of all rows, each of which one rank has computed") {
  check_answers<float>({0, head_size});
  check_answers<float>({0, 500, head_size});
  check_answers<double>({0, 1, 40, head_size});
  check_answers<float>({0, 0, 700, 700, head_size});  // two ranks without any
}

TEST_CASE("a rank that fails in its product ends the call on all, which can be repeated") {
  const shard_bounds bounds{0, 300, 600, head_size};
  const rank_ends ends = on_ranks(3, [&](auto& c) {
    const vocab_shards shards = shards_of(c, bounds);
    head_shards parts(c, shards);
    const auto ask = [&](bool fails) {
      question<float> q(4);
      parts(q.asked(), [&](const head_rows<float>& own) {
        if (fails && c.rank() == 1) { throw std::runtime_error("no memory for a product"); }
        multiply(own, shards.first(c.rank()), shards.end(c.rank()),
                 static_cast<std::vector<std::vector<float>>*>(nullptr));
      });
    };
    try {
      ask(true);
      FAIL_CHECK("rank " << c.rank() << " has heard nothing");
    } catch (const collective_error& e) {
      CHECK(c.rank() != 1);
      CHECK(e.why() == collective_error::reason::failed);
      CHECK(e.rank() == 1);
    } catch (const std::runtime_error& e) {
      CHECK(c.rank() == 1);
      CHECK(std::string(e.what()) == "no memory for a product");
    }
    ask(false);
  });
  for (const std::string& what : ends.what) { CHECK(what == ""); }
}

TEST_CASE("rows that no rank has are refused on all, which go on") {
  const rank_ends ends = on_ranks(2, [&](auto& c) {
    const shard_bounds bounds{0, 300, head_size - 1};
    const vocab_shards shards = shards_of(c, bounds);
    head_shards parts(c, shards);
    std::vector<float> out(static_cast<std::size_t>(head_size));
    const auto ask = [&](std::int32_t end) {
      const row_range range{0, end};
      const shortlist list{
          .ranges = &range, .range_count = 1, .size = end, .vocab_size = head_size};
      const std::int32_t row = 0;
      row_view<float> logits{out.data(), end};
      parts(head_rows<float>{1, &row, &list, &logits}, [&](const head_rows<float>& own) {
        multiply(own, shards.first(c.rank()), shards.end(c.rank()),
                 static_cast<std::vector<std::vector<float>>*>(nullptr));
      });
    };
    try {
      ask(head_size);
      FAIL_CHECK("accepted");
    } catch (const std::invalid_argument& e) {
      CHECK(std::string(e.what()).find("row 999 of the head") != std::string::npos);
    }
    ask(head_size - 1);
    CHECK(out[998] == logit<float>(0, 998));
  });
  for (const std::string& what : ends.what) { CHECK(what == ""); }
}

}  // namespace
}  // namespace hunch::test::shard_heads_test
