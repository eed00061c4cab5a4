// SPDX-License-Identifier: Apache-2.0

// Which clusters a row of scores chooses, against sorting them; the router against plain loops; the
// same on any team. Built a second time under ThreadSanitizer.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/selector/choose_clusters.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/oracle.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/simulated.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/vocab/layouts.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

struct scored {
  std::vector<std::int32_t> begin;
  std::vector<float> scores;
  std::int32_t clusters() const { return static_cast<std::int32_t>(scores.size()); }

  scored(std::int32_t clusters, std::int32_t core, std::int32_t values, std::uint64_t seed) {
    dice random{seed};
    begin.push_back(core);
    for (std::int32_t c = 0; c < clusters; ++c) {
      begin.push_back(begin.back() + 1 + random.below(9));
      scores.push_back(static_cast<float>(random.below(values)) * 0.25f);
    }
  }
};

/// The clusters in the order of their scores, the lower number first on ties; or of their scores
/// per row.
std::vector<std::int32_t> ranked(const scored& of, bool per_row) {
  std::vector<std::int32_t> order(of.scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto worth = [&](std::int32_t cluster) {
    const auto c = static_cast<std::size_t>(cluster);
    const double rows = of.begin[c + 1] - of.begin[c];
    return of.scores[c] - (per_row ? static_cast<float>(std::log(rows)) : 0.0f);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return worth(a) > worth(b); });
  return order;
}

template <class B>
std::size_t count_of(const scored& of, const std::vector<std::int32_t>& order, const B& budget,
                     std::int32_t depth) {
  const auto most = static_cast<std::size_t>(std::min(budget.at(depth), of.clusters()));
  if constexpr (requires { budget.share; }) {
    double all = 0.0;
    for (const float s : of.scores) { all += std::exp(static_cast<double>(s)); }
    double mass = 0.0;
    for (std::size_t k = 0; k < most; ++k) {
      mass += std::exp(static_cast<double>(of.scores[static_cast<std::size_t>(order[k])])) / all;
      if (mass >= static_cast<double>(budget.share)) { return k + 1; }
    }
    return most;
  } else if constexpr (requires { budget.rows; }) {
    std::int32_t rows = of.begin[0];
    for (std::size_t k = 0; k < most; ++k) {
      const auto c = static_cast<std::size_t>(order[k]);
      rows += of.begin[c + 1] - of.begin[c];
      if (rows > budget.rows_at(depth)) { return std::max(k, std::size_t(1)); }
    }
    return most;
  } else {
    return most;
  }
}

/// Ranges from rows that are marked one by one.
template <class B>
std::vector<row_range> expected_ranges(const scored& of, const B& budget, std::int32_t depth) {
  std::vector<bool> in(static_cast<std::size_t>(of.begin.back()));
  std::fill_n(in.begin(), of.begin[0], true);
  const std::vector<std::int32_t> order = ranked(
      of, requires { budget.ranks_per_row; });
  const std::size_t count = count_of(of, order, budget, depth);
  for (std::size_t k = 0; k < count; ++k) {
    const auto c = static_cast<std::size_t>(order[k]);
    std::fill(in.begin() + of.begin[c], in.begin() + of.begin[c + 1], true);
  }
  std::vector<row_range> out;
  for (std::int32_t row = 0; row < of.begin.back(); ++row) {
    if (!in[static_cast<std::size_t>(row)]) { continue; }
    if (out.empty() || out.back().end != row) { out.push_back({row, row}); }
    ++out.back().end;
  }
  return out;
}

/// By a team of so many blocks of threads, or by one thread.
struct team_shape {
  std::int32_t blocks = 1;
  std::int32_t ranks = 0;
};

template <class B>
std::vector<row_range> chosen_by(team_shape shape, const scored& of, const B& budget,
                                 std::int32_t depth) {
  std::vector<row_range> ranges(of.scores.size() + 1);
  std::int32_t count = 0;
  const kernel::choose_clusters<B> choose{of.begin.data(), of.clusters(), budget};
  std::vector<float> scores = of.scores;
  const auto body = [&](auto& team, std::int32_t) {
    const std::int32_t found = choose(team, scores.data(), depth, ranges.data());
    if (team.rank() == 0) { count = found; }
  };
  if (shape.ranks == 0) {
    team::serial team;
    body(team, 0);
  } else {
    team::simulated::launch(shape.blocks, shape.ranks, 1, body);
  }
  ranges.resize(static_cast<std::size_t>(count));
  return ranges;
}

/// By one thread at every depth, and by teams of threads at one: these take long to begin.
template <class B>
void check_budget(const scored& of, const B& budget) {
  for (const std::int32_t depth : {0, 1, 2, 5}) {
    const auto expected = expected_ranges(of, budget, depth);
    CHECK(chosen_by({}, of, budget, depth) == expected);
    if (depth != 2) { continue; }
    for (const team_shape shape : {team_shape{1, 3}, team_shape{1, 32}, team_shape{2, 3}}) {
      CHECK(chosen_by(shape, of, budget, depth) == expected);
    }
  }
}

#if defined(__SANITIZE_THREAD__)
constexpr std::int32_t cluster_counts[] = {1, 65, 200};
#else
constexpr std::int32_t cluster_counts[] = {1, 2, 63, 64, 65, 127, 128, 200, 1000};
#endif

TEST_CASE("the best clusters, ties to the lower number") {
  for (const std::int32_t clusters : cluster_counts) {
    for (const std::int32_t core : {0, 5}) {
      for (const std::int32_t values : {1, 3, 40}) {  // one value: all are tied
        const scored of(clusters, core, values, static_cast<std::uint64_t>(clusters + values));
        for (const std::int32_t most : {1, 7, 100}) {
          const std::int32_t k = std::min(most, clusters);
          check_budget(of, budget::fixed{k});
          check_budget(of, budget::position_aware{k});
          check_budget(of, budget::rows{k, core + 30});
          check_budget(of, budget::position_aware{budget::rows{k, core + 90}});
          check_budget(of, budget::per_row{budget::fixed{k}});
          check_budget(of, budget::per_row{budget::rows{k, core + 30}});
          check_budget(of, budget::position_aware{budget::per_row{budget::rows{k, core + 90}}});
          if (values == 40) {
            check_budget(of, budget::mass{k, 0.37f});
            check_budget(of, budget::per_row{budget::mass{k, 0.37f}});
          }
        }
      }
    }
  }
}

TEST_CASE("clusters by scores of all sizes, by one thread and by many") {
  dice random{17};
  const auto some_score = [&] {
    switch (random.below(8)) {
      case 0:
        return 0.0f;
      case 1:
        return -0.0f;
      case 2:
        return std::numeric_limits<float>::denorm_min();
      case 3:
        return -std::numeric_limits<float>::infinity();
      case 4:
        return static_cast<float>(std::ldexp(random.unit() - 0.5, random.below(200) - 100));
      default:
        return static_cast<float>(10.0 * random.unit() - 5.0);
    }
  };
#if defined(__SANITIZE_THREAD__)
  constexpr std::int32_t counts[] = {90, 2100};
#else
  constexpr std::int32_t counts[] = {1, 90, 1000, 2047, 2048, 2049, 9000};  // of two digits, too
#endif
  for (const std::int32_t clusters : counts) {
    for (int round = 0; round < 4; ++round) {
      scored of(clusters, round % 2 * 7, 1, static_cast<std::uint64_t>(clusters + round));
      for (float& s : of.scores) { s = some_score(); }
      of.scores.back() = 5.0f;
      const auto same = [&](const auto& budget) {
        const auto alone = chosen_by({}, of, budget, 0);
        CHECK(chosen_by({1, 5}, of, budget, 0) == alone);
        CHECK(chosen_by({2, 2}, of, budget, 0) == alone);
        return alone;
      };
      for (const std::int32_t most : {1, clusters / 3 + 1, clusters}) {
        CHECK(same(budget::fixed{most}) == expected_ranges(of, budget::fixed{most}, 0));
        const budget::rows rows{most, 7 + clusters};
        CHECK(same(rows) == expected_ranges(of, rows, 0));
        same(budget::mass{most, 0.6f});
        same(budget::mass{most, 1.0f});
        same(budget::per_row{budget::mass{most, 0.9f}});
      }
    }
  }
}

TEST_CASE("scores that are not numbers choose some clusters") {
  scored of(70, 3, 40, 5);
  of.scores[20] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<row_range> expected{{0, of.begin[1]}};
  CHECK(chosen_by({}, of, budget::fixed{4}, 0) == expected);
  std::fill(of.scores.begin(), of.scores.end(), -std::numeric_limits<float>::infinity());
  CHECK(chosen_by({1, 3}, of, budget::mass{4, 0.5f}, 0) == expected);
}

TEST_CASE("clusters that a router rules out come last") {
  scored of(70, 3, 40, 5);
  std::fill(of.scores.begin(), of.scores.end(), -std::numeric_limits<float>::infinity());
  of.scores[20] = of.scores[60] = 1.0f;
  check_budget(of, budget::fixed{4});
  check_budget(of, budget::per_row{budget::rows{50, 100}});
  check_budget(of, budget::mass{50, 1.0f});
  CHECK(chosen_by({}, of, budget::mass{50, 1.0f}, 0).size() == 3);
}

TEST_CASE("a cluster of few rows is worth as much as a large one that is more probable") {
  scored of(3, 0, 1, 1);
  of.begin = {0, 10, 12, 13};
  of.scores = {std::log(0.6f), std::log(0.3f), std::log(0.1f)};
  CHECK(chosen_by({}, of, budget::fixed{1}, 0) == std::vector<row_range>{{0, 10}});
  CHECK(chosen_by({}, of, budget::per_row{budget::fixed{1}}, 0) ==
        std::vector<row_range>{{10, 12}});
  // The share is one of probability: 0.3 and 0.1 are less than half of it.
  CHECK(chosen_by({}, of, budget::per_row{budget::mass{3, 0.39f}}, 0) ==
        std::vector<row_range>{{10, 13}});
  CHECK(chosen_by({}, of, budget::per_row{budget::mass{3, 0.5f}}, 0) ==
        std::vector<row_range>{{0, 13}});
  CHECK(chosen_by({}, of, budget::per_row{budget::rows{3, 4}}, 0) ==
        std::vector<row_range>{{10, 13}});
  CHECK(chosen_by({}, of, budget::rows{3, 4}, 0) == std::vector<row_range>{{0, 10}});
}

/// The scores of a layer by the words of sliced_rows.hpp.
template <class Weight>
float sliced_product(const Weight* row, std::size_t width, const float* x) {
  constexpr std::size_t each = 4 / sizeof(Weight);
  constexpr std::size_t least = 16 * 16 * each;  // elements of 1,024 bytes
  const std::size_t slice = ((width + 15) / 16 + least - 1) / least * least;
  float lane[16] = {};
  for (std::size_t begin = 0; begin < width; begin += slice) {
    float sums[16 * each] = {};
    for (std::size_t k = begin; k < std::min(width, begin + slice); ++k) {
      float& sum = sums[(k - begin) % (16 * each)];
      sum = std::fma(to_float(row[k]), x[k], sum);
    }
    for (std::size_t l = 0; l < 16; ++l) {
      lane[l] += each == 1 ? sums[l] : sums[l * each] + sums[l * each + each - 1];
    }
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
  }
  return lane[0];
}

template <class Weight>
void check_router(std::int32_t inputs, std::int32_t width, std::int32_t clusters,
                  double tolerance) {
  dice random{3};
  const auto numbers = [&](std::int32_t n) {
    std::vector<float> out(static_cast<std::size_t>(n));
    for (float& x : out) { x = static_cast<float>(2.0 * random.unit() - 1.0); }
    return out;
  };
  const auto as_weights = [](const std::vector<float>& from) {
    std::vector<Weight> out;
    for (const float x : from) {
      if constexpr (std::is_same_v<Weight, float>) {
        out.push_back(x);
      } else {
        out.push_back(to_bfloat16(x));
      }
    }
    return out;
  };
  const std::vector<Weight> w1 = as_weights(numbers(width * inputs));
  const std::vector<Weight> w2 = as_weights(numbers(clusters * width));
  const std::vector<float> b1 = numbers(width);
  const std::vector<float> b2 = numbers(clusters);
  const std::vector<float> x = numbers(inputs);
  const router::mlp<Weight> route{
      {w1.data(), width, inputs}, b1.data(), {w2.data(), clusters, width}, b2.data()};
  const auto size = [](std::int32_t n) { return static_cast<std::size_t>(n); };
  std::vector<float> scores(size(clusters));
  std::vector<float> workspace(size(route.scratch));
  team::serial team;
  route(team, x.data(), workspace.data(), scores.data());
  std::vector<double> hidden;
  for (std::size_t i = 0; i < size(width); ++i) {
    double sum = static_cast<double>(b1[i]);
    for (std::size_t k = 0; k < size(inputs); ++k) {
      sum += static_cast<double>(to_float(w1[i * size(inputs) + k])) * static_cast<double>(x[k]);
    }
    hidden.push_back(std::max(sum, 0.0));
    const float exact =
        sliced_product(w1.data() + i * size(inputs), size(inputs), x.data()) + b1[i];
    CHECK(workspace[i] == std::max(exact, 0.0f));
  }
  for (std::size_t c = 0; c < size(clusters); ++c) {
    double score = static_cast<double>(b2[c]);
    for (std::size_t i = 0; i < size(width); ++i) {
      score += static_cast<double>(to_float(w2[c * size(width) + i])) * hidden[i];
    }
    CHECK(std::abs(static_cast<double>(scores[c]) - score) < tolerance);
  }
  for (const team_shape shape : {team_shape{1, 32}, team_shape{2, 3}}) {
    std::vector<float> by_threads(size(clusters));
    team::simulated::launch(shape.blocks, shape.ranks, 1, [&](auto& threads, std::int32_t) {
      route(threads, x.data(), workspace.data(), by_threads.data());
    });
    CHECK(by_threads == scores);
  }
  std::vector<float> by_warp(size(clusters));
  warp_team warp;
  route(warp, x.data(), workspace.data(), by_warp.data());
  CHECK(by_warp == scores);
}

TEST_CASE("a router in bytes has nearly the scores of its weights") {
  constexpr std::int32_t inputs = 48;
  constexpr std::int32_t width = 20;
  constexpr std::int32_t clusters = 33;
  dice random{12};
  router::weights exact = router::weights::sized(inputs, width, clusters);
  for (auto* v : {&exact.first, &exact.first_bias, &exact.second, &exact.second_bias}) {
    for (float& x : *v) { x = static_cast<float>(2.0 * random.unit() - 1.0); }
  }
  std::fill_n(exact.second.begin(), width, 0.0f);  // a row of zeros
  const router::quantised bytes(exact);
  std::vector<float> context(inputs), workspace(width), one(clusters), other(clusters);
  team::serial team;
  for (int round = 0; round < 20; ++round) {
    double size = 0.0;
    for (float& x : context) {
      x = static_cast<float>(2.0 * random.unit() - 1.0);
      size += std::abs(static_cast<double>(x));
    }
    exact.view()(team, context.data(), workspace.data(), one.data());
    double hidden = 0.0;
    for (const float h : workspace) { hidden += static_cast<double>(h); }
    bytes.view()(team, context.data(), workspace.data(), other.data());
    // Half a step of 1 / 127 of every weight, through both layers.
    const double bound = (width * size + hidden) / 254.0 + 1e-5;
    double worst = 0.0;
    for (std::size_t c = 0; c < one.size(); ++c) {
      worst = std::max(worst, std::abs(static_cast<double>(one[c] - other[c])));
    }
    CHECK(worst <= bound);
    CHECK(worst > 0.0);  // they are not the same numbers
    CHECK(other[0] == exact.second_bias[0]);
  }
}

TEST_CASE("a thread multiplies the bytes of a router with integers") {
  constexpr std::int32_t rows = 21;
  for (const std::int32_t width : {1, 48, 512, 1000, 4096, 4097}) {
    CAPTURE(width);
    dice random{static_cast<std::uint64_t>(width)};
    const auto size = static_cast<std::size_t>(width);
    std::vector<std::int8_t> weights(rows * size);
    for (std::int8_t& w : weights) { w = static_cast<std::int8_t>(255.0 * random.unit() - 127.0); }
    std::vector<float> x(size), row_scale(rows), bias(rows), out(rows);
    for (auto* of : {&x, &row_scale, &bias}) {
      for (float& v : *of) { v = static_cast<float>(2.0 * random.unit() - 1.0); }
    }
    const kernel::dense_layer<std::int8_t> layer{
        {weights.data(), rows, width, row_scale.data()}, bias.data(), false};
    team::serial team;
    layer(team, x.data(), out.data());
    const float largest = std::abs(*std::max_element(
        x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
    const auto most = static_cast<float>(std::min(32767, 2147483647 / 128 / width));
    bool all_are_integers = true;
    for (std::size_t r = 0; r < rows; ++r) {
      std::int64_t sum = 0;
      double exact = static_cast<double>(bias[r]);
      double bound = 1e-2;  // of half a step of every number
      for (std::size_t k = 0; k < size; ++k) {
        const auto w = weights[r * size + k];
        sum += w * static_cast<std::int64_t>(std::nearbyint(x[k] * (most / largest)));
        exact +=
            static_cast<double>(w) * static_cast<double>(x[k]) * static_cast<double>(row_scale[r]);
        bound += std::abs(w * 0.5 * static_cast<double>(largest / most * row_scale[r]));
      }
      const float expected =
          std::fma(static_cast<float>(sum) * (largest / most), row_scale[r], bias[r]);
      all_are_integers = all_are_integers && out[r] == expected;
      CHECK(std::abs(static_cast<double>(out[r]) - exact) < bound);
    }
    CHECK(all_are_integers == (width <= 4096));
    x[size / 2] = std::numeric_limits<float>::quiet_NaN();
    layer(team, x.data(), out.data());
    for (const float y : out) { CHECK(std::isnan(y)); }
  }
}

TEST_CASE("a router of two layers") {
  check_router<float>(37, 20, 50, 1e-4);
  check_router<bfloat16>(37, 20, 50, 1e-4);
#if !defined(__SANITIZE_THREAD__)
  // More than a slice, more than sixteen of the shortest, and neither.
  check_router<float>(4 * 256, 256, 9, 1e-3);
  check_router<bfloat16>(3 * 512 + 32, 600, 17, 1e-3);
  check_router<bfloat16>(8192 + 77, 33, 8, 1e-3);
#endif
}

/// A selector of contexts, some of them padding, on an executor: its lists, time after time.
template <class S, class E>
std::vector<std::vector<row_range>> routed(const S& selector, E executor, std::int32_t contexts,
                                           std::int32_t padding) {
  const auto width = static_cast<std::size_t>(selector.context_width());
  const std::int32_t size = contexts + padding;
  std::vector<std::vector<row_range>> out;
  selecting<const S, E> select(selector, executor, size);
  for (std::uint64_t time = 0; time < 3; ++time) {
    std::vector<std::vector<float>> states;
    std::vector<const float*> read;
    std::vector<std::vector<row_range>> lists(
        static_cast<std::size_t>(contexts),
        std::vector<row_range>(static_cast<std::size_t>(selector.max_ranges())));
    std::vector<row_range*> to;
    dice random{time};
    for (std::int32_t i = 0; i < size; ++i) {
      states.emplace_back();
      for (std::size_t k = 0; k < width; ++k) {
        states.back().push_back(static_cast<float>(2.0 * random.unit() - 1.0));
      }
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      const bool there = i < lists.size();
      read.push_back(there ? states[i].data() : nullptr);  // nobody reads what is padding
      to.push_back(there ? lists[i].data() : nullptr);
    }
    std::vector<std::int32_t> counts(static_cast<std::size_t>(size), -1);
    select.select({size, 1, nullptr, read.data()}, {to.data(), counts.data()});
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (i >= lists.size()) {
        CHECK(counts[i] == -1);
        continue;
      }
      lists[i].resize(static_cast<std::size_t>(counts[i]));
      out.push_back(lists[i]);
    }
  }
  return out;
}

TEST_CASE("contexts that are routed layer by layer have the lists of those routed one by one") {
  constexpr std::int32_t inputs = 70, width = 21, vocab = 300;
  std::vector<std::int32_t> begin{5};
  while (begin.back() < vocab) { begin.push_back(std::min(vocab, begin.back() + 7)); }
  const auto clusters = static_cast<std::int32_t>(begin.size()) - 1;
  router::weights weights = router::weights::sized(inputs, width, clusters);
  dice random{5};
  for (auto* v : {&weights.first, &weights.first_bias, &weights.second, &weights.second_bias}) {
    for (float& x : *v) { x = static_cast<float>(2.0 * random.unit() - 1.0); }
  }
  const selector::clustered selector{vocab_layout::identity(vocab).clustered(begin), weights.view(),
                                     budget::position_aware{9}};
  for (const std::int32_t contexts : {1, 2, 3, 5}) {
    for (const std::int32_t padding : {0, 1, 3}) {
      const auto one_by_one = routed(selector, executor::host{}, contexts, padding);
      threads several;
      several.blocks = contexts % 2 + 1;
      several.ranks = 3;
      CHECK(routed(selector, several, contexts, padding) == one_by_one);
      CHECK(routed(selector, warps{}, contexts, padding) == one_by_one);
    }
  }
  // Negative control: they are not the same lists.
  const auto lists = routed(selector, executor::host{}, 2, 0);
  CHECK(lists[0] != lists[1]);
}

TEST_CASE("an oracle chooses the clusters that the target likes best") {
  dice random{23};
  constexpr std::int32_t vocab = 60, k = 3;
  std::vector<std::int32_t> cluster;
  std::vector<float> logits;
  for (std::int32_t t = 0; t < vocab; ++t) {
    cluster.push_back(random.below(8));
    logits.push_back(static_cast<float>(6.0 * random.unit()));
  }
  const token core[] = {5, 9};
  const vocab_layout layout = clustered_layout(cluster, core);
  team::serial team;
  const law<float> target =
      kernel::unrestricted(team, row_view<const float>{logits.data(), vocab},
                           kernel::scale_at_one<float>, status::invalid_logits);
  std::vector<float> masses(static_cast<std::size_t>(layout.clusters()));
  cluster_masses(target, layout, masses.data());
  // The law of the ranges' tokens, looked up one by one.
  const auto covered = [&](const std::vector<row_range>& ranges) {
    double sum = 0.0;
    for (const row_range& r : ranges) {
      for (std::int32_t row = r.begin; row < r.end; ++row) {
        sum += static_cast<double>(target.prob(layout.row_token()[row]));
      }
    }
    return sum;
  };
  const double of_core = covered({{0, layout.core_rows()}});
  CHECK(of_core + std::accumulate(masses.begin(), masses.end(), 0.0) == doctest::Approx(1.0));
  std::vector<double> sorted(masses.begin(), masses.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());

  const auto coverage_by = [&](const auto& selector, const float* context) {
    std::vector<row_range> ranges(static_cast<std::size_t>(selector.max_ranges()));
    row_range* const to = ranges.data();
    std::int32_t count = 0;
    executor::host host;
    selecting{selector, host, 1}.select({1, 0, nullptr, &context}, {&to, &count});
    ranges.resize(static_cast<std::size_t>(count));
    return covered(ranges);
  };
  const router::oracle knows(layout.clusters());
  const selector::clustered best{layout, knows, budget::fixed{k}};
  CHECK(best.context_width() == layout.clusters());
  CHECK(coverage_by(best, masses.data()) ==
        doctest::Approx(of_core + sorted[0] + sorted[1] + sorted[2]));
  // In any unit, and beside clusters without mass; one that is told nonsense covers less.
  std::vector<float> other = masses;
  for (float& m : other) { m = m * 8.0f < 1.0f ? 0.0f : m * 8.0f; }
  CHECK(coverage_by(best, other.data()) >= of_core + sorted[0]);
  for (float& m : masses) { m = 1.0f - m; }
  CHECK(coverage_by(best, masses.data()) < of_core + sorted[0] + sorted[1]);
}

struct rows_without_depth : budget::fixed {
  std::int32_t rows;
};
struct share_in_words : budget::fixed {
  const char* share;
};
static_assert(!ClusterBudget<rows_without_depth>);
static_assert(!ClusterBudget<share_in_words>);
static_assert(ClusterBudget<budget::position_aware<budget::mass>>);

TEST_CASE("a clustered selector knows how much room it needs") {
  const vocab_layout layout = vocab_layout::identity(20).clustered({2, 3, 8, 10, 19, 20});
  std::vector<float> nothing(5);
  const router::mlp<float> route{
      {nothing.data(), 1, 1}, nothing.data(), {nothing.data(), 5, 1}, nothing.data()};
  const selector::clustered fixed{layout, route, budget::fixed{2}};
  CHECK(fixed.max_rows() == 2 + 9 + 5);
  CHECK(fixed.max_ranges() == 3);
  CHECK(selector::clustered{layout, route, budget::fixed{50}}.max_rows() == 20);
  CHECK(selector::clustered{layout, route, budget::rows{5, 12}}.max_rows() == 12);
  CHECK(selector::clustered{layout, route, budget::rows{5, 4}}.max_rows() == 11);
  CHECK(selector::clustered{layout, route, budget::per_row{budget::rows{5, 12}}}.max_rows() == 12);
  CHECK_THROWS_AS((selector::clustered{layout, route, budget::fixed{0}}), std::invalid_argument);
  CHECK_THROWS_AS((selector::clustered{layout, route, budget::rows{1, 0}}), std::invalid_argument);
  for (const float share : {0.0f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    CHECK_THROWS_AS((selector::clustered{layout, route, budget::mass{1, share}}),
                    std::invalid_argument);
  }
  CHECK_THROWS_AS((selector::clustered{vocab_layout::identity(20), route, budget::fixed{1}}),
                  std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test
