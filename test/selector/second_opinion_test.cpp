// SPDX-License-Identifier: Apache-2.0

// The router as a second opinion: which mass each cluster has afterwards, and what must not change.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/selector/second_opinion.hpp>
#include <hunch/selector/selecting.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"
#include "../support/toy_router.hpp"

namespace hunch::test::second_opinion_test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr std::int32_t clusters = 5;
constexpr std::int32_t core = 3;

/// Every second token in another order, some of them in a core.
vocab_layout layout() {
  std::vector<token> order;
  for (token t = 0; t < vocab; ++t) { order.push_back((7 * t + 2) % vocab); }
  return vocab_layout::permuted(order, vocab).clustered({core, 9, 12, 20, 31, vocab});
}

/// Masses of the parts of a shortlist, the core being -1.
std::map<std::int32_t, double> masses(const vocab_layout& of, const shortlist& list,
                                      const std::vector<double>& logits) {
  std::map<std::int32_t, double> out;
  double total = 0.0;
  for (std::int32_t i = 0; i < list.size; ++i) {
    const double w = std::exp(logits[static_cast<std::size_t>(i)]);
    out[of.token_part()[list.token_at(i)] - 1] += w;
    total += w;
  }
  for (auto& part : out) { part.second /= total; }
  return out;
}

struct advised {
  shortlist list;
  std::vector<row_range> ranges;
  std::vector<double> before;
  std::vector<double> after;
};

/// What a router says of context i, here and in a selector, and the logits of its row.
template <class Change>
std::vector<advised> advise(double weight, const toy_router& router, Change&& change,
                            std::vector<std::vector<float>>& scores) {
  const auto route = router.view();
  selector::second_opinion selector{selector::clustered{layout(), route, budget::fixed{3}}, weight};
  static const vocab_layout order = layout();
  dice random{31};
  constexpr std::int32_t size = 3;
  std::vector<std::vector<float>> known(size, std::vector<float>(toy_context_size));
  std::vector<const float*> states;
  std::vector<advised> out(size);
  std::vector<row_range*> ranges;
  std::vector<std::int32_t> counts(size), row(size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (float& x : known[i]) { x = static_cast<float>(4.0 * random.unit() - 2.0); }
    states.push_back(known[i].data());
    out[i].ranges.resize(static_cast<std::size_t>(selector.max_ranges()));
    ranges.push_back(out[i].ranges.data());
    std::vector<float> workspace(static_cast<std::size_t>(route.scratch));
    scores.emplace_back(clusters);
    team::serial team;
    route(team, known[i].data(), workspace.data(), scores.back().data());
  }
  executor::host host;
  selecting chosen{selector, host, size};
  chosen.select({size, 0, nullptr, states.data()}, {ranges.data(), counts.data()});
  threads teams;
  teams.blocks = 2;
  teams.ranks = 3;
  selecting again{selector, teams, size};
  again.select({size, 0, nullptr, states.data()}, {ranges.data(), counts.data()});
  std::vector<shortlist> lists;
  std::vector<row_view<double>> views;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].list = order.list(out[i].ranges.data(), counts[i]);
    for (std::int32_t k = 0; k < out[i].list.size; ++k) {
      out[i].before.push_back(6.0 * random.unit() - 3.0);
    }
    change(out[i]);
    out[i].after = out[i].before;
    lists.push_back(out[i].list);
    views.push_back({out[i].after.data(), out[i].list.size});
  }
  chosen.advise(head_rows<double>{size, row.data(), lists.data(), views.data()});
  // By teams of threads, too.
  std::vector<std::vector<double>> others;
  std::vector<row_view<double>> other_views;
  for (const advised& a : out) { others.push_back(a.before); }
  for (auto& row_of : others) {
    other_views.push_back({row_of.data(), static_cast<std::int32_t>(row_of.size())});
  }
  again.advise(head_rows<double>{size, row.data(), lists.data(), other_views.data()});
  for (std::size_t i = 0; i < out.size(); ++i) { CHECK(others[i] == out[i].after); }
  return out;
}

TEST_CASE("of the mass of the clusters the router divides its share") {
  const toy_router router(toy_context_size, clusters, 5);
  for (const double weight : {0.0, 0.3, 1.0}) {
    CAPTURE(weight);
    std::vector<std::vector<float>> scores;
    const auto rows = advise(
        weight, router, [](advised&) {}, scores);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const advised& row = rows[i];
      if (weight == 0.0) { CHECK(row.after == row.before); }
      const auto before = masses(layout(), row.list, row.before);
      const auto after = masses(layout(), row.list, row.after);
      double routed = 0.0;
      for (const auto& [c, mass] : before) {
        if (c >= 0) {
          routed += std::exp(static_cast<double>(scores[i][static_cast<std::size_t>(c)]));
        }
      }
      for (const auto& [c, mass] : before) {
        if (c < 0) {
          CHECK(after.at(c) == doctest::Approx(mass));
          continue;
        }
        const double share =
            std::exp(static_cast<double>(scores[i][static_cast<std::size_t>(c)])) / routed;
        CHECK(after.at(c) ==
              doctest::Approx((1.0 - weight) * mass + weight * (1.0 - before.at(-1)) * share));
      }
      // Within a cluster, and in the core, all logits move alike.
      std::map<std::int32_t, double> moved;
      for (std::int32_t k = 0; k < row.list.size; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const std::int32_t part = layout().token_part()[row.list.token_at(k)] - 1;
        const double by = row.after[at] - row.before[at];
        const auto [first, is_new] = moved.try_emplace(part, by);
        CHECK(first->second == doctest::Approx(by));
      }
      CHECK(moved.at(-1) == 0.0);
    }
  }
}

TEST_CASE("what the drafter rules out stays ruled out") {
  const toy_router router(toy_context_size, clusters, 5);
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  std::vector<std::vector<float>> scores;
  const auto one_cluster = [](advised& row) {
    for (std::int32_t k = core; k < row.list.size; ++k) {
      const bool first = layout().token_part()[row.list.token_at(k)] ==
                         layout().token_part()[row.list.token_at(core)];
      if (!first) { row.before[static_cast<std::size_t>(k)] = nothing; }
    }
  };
  for (const advised& row : advise(0.9, router, one_cluster, scores)) {
    for (std::size_t k = 0; k < row.after.size(); ++k) {
      // One cluster has all there is to divide.
      CHECK((row.after[k] == row.before[k] || std::abs(row.after[k] - row.before[k]) < 1e-9));
    }
  }
  const auto core_only = [](advised& row) {
    for (std::size_t k = core; k < row.before.size(); ++k) { row.before[k] = nothing; }
  };
  for (const advised& row : advise(0.9, router, core_only, scores)) {
    CHECK(row.after == row.before);
  }
}

TEST_CASE("a weight that is none is refused") {
  const toy_router router(toy_context_size, clusters, 5);
  const selector::clustered routed{layout(), router.view(), budget::fixed{3}};
  CHECK_THROWS_AS((selector::second_opinion{routed, -0.1}), std::invalid_argument);
  CHECK_THROWS_AS((selector::second_opinion{routed, 1.1}), std::invalid_argument);
  CHECK_THROWS_AS((selector::second_opinion{routed, std::numeric_limits<double>::quiet_NaN()}),
                  std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test::second_opinion_test
