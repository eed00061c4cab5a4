// SPDX-License-Identifier: Apache-2.0

// The law of the sampling code, exact in integers: as a function of the random word, every boundary
// found by bisection and every word counted.

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/distribution/random.hpp>
#include <hunch/distribution/residual.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/team/serial.hpp>
#include "../support/hash.hpp"
#include "../support/word_law.hpp"

namespace hunch::test::draw_law_test {
namespace {

struct fixed_word {
  std::uint64_t word = 0;
  std::uint64_t operator()(const address&) const { return word; }
};

/// Weights of very different sizes; about `positive` of them are not 0, and the first and last of
/// every tile are among these.
template <class Real>
std::vector<Real> weights_of(std::int64_t n, std::int64_t positive, std::uint64_t seed) {
  std::vector<Real> w(static_cast<std::size_t>(n), Real(0));
  dice random{seed};
  for (std::int64_t i = 0; i < n; ++i) {
    const bool edge = n > 1000 && (i % 4096 == 0 || i % 4096 == 4095);
    const bool drawn = random.unit() * static_cast<double>(n) < static_cast<double>(positive);
    const double value = std::exp(-12.0 * random.unit());
    if (edge || drawn) { w[static_cast<std::size_t>(i)] = static_cast<Real>(value); }
  }
  if (positive >= n) { w[static_cast<std::size_t>(n / 2)] = Real(0); }
  w[static_cast<std::size_t>(n - 1)] = Real(0.5);
  return w;
}

template <class Real>
double distance_of_draw(const std::vector<Real>& weights) {
  const auto n = static_cast<std::int64_t>(weights.size());
  const auto counts = word_counts(
      n,
      [&](std::uint64_t word) {
        team::serial team;
        return random_source<fixed_word>{{word}}.categorical(
            team, {}, n, [&](std::int64_t i) { return weights[static_cast<std::size_t>(i)]; });
      },
      draw_order);
  std::uint64_t impossible = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == Real(0)) { impossible += counts[i]; }
  }
  CHECK(impossible == 0);
  return total_variation(counts, weights);
}

double double_bound(std::int64_t n) { return static_cast<double>(n) * 0x1.0p-53 + 1e-12; }

TEST_CASE("in double a draw is exact to 53 bits") {
  for (const std::int64_t n : {1, 2, 3, 127, 128, 129, 1000, 4095, 4096, 4097, 8193}) {
    CAPTURE(n);
    CHECK(distance_of_draw(weights_of<double>(n, n <= 1000 ? n : 150, 7)) <= double_bound(n));
  }
  CHECK(distance_of_draw(weights_of<double>(4097, 4097, 8)) <= double_bound(4097));
}

TEST_CASE("groups of several tiles, beyond 524,288 elements") {
  const std::int64_t n = 128 * 4096 + 4096 * 2 + 77;
  REQUIRE(team::tiles_per_group(n) == 2);
  // Only the first, the last and some others: a word costs a pass over the row.
  std::vector<double> weights(static_cast<std::size_t>(n), 0.0);
  dice random{3};
  for (int i = 0; i < 40; ++i) {
    weights[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(n)))] = random.unit();
  }
  for (const std::int64_t i : {std::int64_t{4095}, std::int64_t{4096}, std::int64_t{8191}, n - 1}) {
    weights[static_cast<std::size_t>(i)] = random.unit();
  }
  CHECK(distance_of_draw(weights) <= double_bound(n));
}

TEST_CASE("in float a draw within a tile is as exact; over tiles it keeps 1e-6") {
  // Inside a tile lanes are summed in double. The sums of tiles are float, and so is the norm of a
  // law: production laws are exact to about 1e-6 in total variation, those of the tests to 1e-12.
  for (const std::int64_t n : {1, 2, 128, 129, 4096}) {
    CAPTURE(n);
    CHECK(distance_of_draw(weights_of<float>(n, n <= 1000 ? n : 150, 9)) <= double_bound(n));
  }
  for (const std::int64_t n : {4097, 8193, 20000}) {
    CAPTURE(n);
    CHECK(distance_of_draw(weights_of<float>(n, 150, 9)) <= 1e-6);
  }
}

TEST_CASE("the bound would see a draw that is a little wrong") {
  const auto weights = weights_of<double>(129, 129, 7);
  const auto counts = word_counts(
      129,
      [&](std::uint64_t word) {
        team::serial team;
        return kernel::draw(
            team, 129,
            [&](std::int64_t i) {
              return weights[static_cast<std::size_t>(i)] + (i == 5 ? 1e-8 : 0.0);
            },
            word);
      },
      draw_order);
  CHECK(total_variation(counts, weights) > double_bound(129));
}

TEST_CASE("edge words draw the first and the last possible element") {
  const std::vector<double> weights = {0.0, 0.25, 0.0, 0.5, 0.25, 0.0};
  const auto draw = [&](std::uint64_t word) {
    team::serial team;
    return kernel::draw(
        team, 6, [&](std::int64_t i) { return weights[static_cast<std::size_t>(i)]; }, word);
  };
  CHECK(draw(0) == 1);
  CHECK(draw(1) == 1);
  CHECK(draw(~std::uint64_t(0)) == 4);
  CHECK(draw(std::uint64_t(1) << 62) == 3);  // u = 1/4, strictly beyond the first
  CHECK(draw((std::uint64_t(1) << 62) - 1) == 1);
}

TEST_CASE("no positive weight draws nothing") {
  for (const std::int64_t n : {0, 1, 5, 4097}) {
    team::serial team;
    CHECK(kernel::draw(
              team, n, [](std::int64_t) { return 0.0; }, 77) == -1);
  }
}

TEST_CASE("weights that are tiny or far apart") {
  const double tiny = 1e-290;
  for (const std::vector<double>& weights :
       {std::vector<double>{tiny, tiny, tiny}, {1.0, 4.9e-324, 1.0}, {tiny, 0.0, 1e300}}) {
    CHECK(distance_of_draw(weights) <= double_bound(3));
  }
}

TEST_CASE("where there is no choice a draw does not read the row, and only there") {
  team::serial team;
  std::vector<float> row(5000, -1.0f);
  row[70] = row[1095] = 2.0f;
  const row_view<float> logits{row.data(), static_cast<std::int32_t>(row.size())};
  const auto law_with = [&](float temperature, std::int32_t k) {
    law<float> l = kernel::whole_row<float>(team, {logits.data, logits.size});
    if (temperature == 0.0f) {
      kernel::keep_argmax(team, l);
    } else {
      kernel::keep_top_k(team, l, k);
      kernel::normalise(team, l);
    }
    team.remember({});
    return l;
  };
  const law<float> argmax = law_with(0.0f, 0);
  const law<float> first = law_with(1.0f, 1);  // of two that are equal the first
  const law<float> both = law_with(1.0f, 2);
  CHECK(argmax.only_kept() == 70);
  CHECK(first.only_kept() == 70);
  CHECK(both.only_kept() == -1);
  const auto drawn = [&](const law<float>& l, std::uint64_t word) {
    return kernel::draw(team, l.size(), hunch::weights_of<law<float>>{l}, word);
  };
  CHECK(drawn(both, 0) == 70);
  CHECK(drawn(both, ~std::uint64_t(0)) == 1095);
  row[70] = row[1095] = -1.0f;  // nobody looks
  for (const std::uint64_t word : {std::uint64_t(0), ~std::uint64_t(0)}) {
    CHECK(drawn(argmax, word) == 70);
    CHECK(drawn(first, word) == 70);
    CHECK(drawn(both, word) == -1);
  }
}

TEST_CASE("bernoulli is exact to 53 bits") {
  const auto probability = [](double num, double den) {
    const auto counts = word_counts(
        2,
        [&](std::uint64_t word) {
          return random_source<fixed_word>{{word}}.bernoulli({}, num, den) ? 0 : 1;
        },
        [](std::int64_t i) { return i; });
    return static_cast<double>(counts[0]) * 0x1.0p-53;
  };
  dice random{5};
  for (int i = 0; i < 500; ++i) {
    const double den = random.unit() * (i % 2 == 0 ? 1.0 : 1e-9) + 1e-300;
    const double num = random.unit() * (i % 3 == 0 ? 2.0 : 1.0) * den;
    CHECK(std::abs(probability(num, den) - std::min(1.0, num / den)) <= 0x1.0p-52);
  }
  CHECK(probability(0.0, 0.5) == 0.0);
  CHECK(probability(0.0, 0.0) == 0.0);
  CHECK(probability(0.5, 0.5) == 1.0);
  CHECK(probability(0.7, 0.5) == 1.0);
  CHECK(probability(0.25, 0.5) == 0.5);
}

TEST_CASE("the law of a row in float: what is drawn and what is reported agree") {
  // prob() of the same law decides about acceptance, so it is compared with the counted words.
  const std::int32_t n = 300;
  std::vector<float> logits(static_cast<std::size_t>(n));
  dice random{6};
  for (float& x : logits) { x = static_cast<float>(12.0 * random.unit() - 6.0); }
  team::serial team;
  const sampler::pipeline sampler{sampler::temperature{}};
  const law<float> l = sampler(team, row_view<float>{logits.data(), n}, {0.9f, 0, 1.0f}, {});
  std::vector<float> reported(logits.size());
  for (std::int32_t i = 0; i < n; ++i) { reported[static_cast<std::size_t>(i)] = l.prob(i); }
  const auto counts = word_counts(
      n,
      [&](std::uint64_t word) {
        return kernel::draw(
            team, n, [&](std::int64_t i) { return l.weight(i); }, word);
      },
      draw_order);
  double largest = 0.0;
  double mass = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    mass += static_cast<double>(reported[i]);
    largest = std::max(largest, std::abs(static_cast<double>(counts[i]) * 0x1.0p-53 -
                                         static_cast<double>(reported[i])));
  }
  CHECK(largest <= 1e-7);
  CHECK(std::abs(mass - 1.0) <= 1e-6);
}

/// The law of one float verification (draft, accept, residual), from the probabilities that the
/// code itself computes: the total variation distance from p is the bias of production arithmetic.
TEST_CASE("one step of rejection in float is exact to 1e-6") {
  const std::int32_t n = 300;
  dice random{12};
  for (const double spread : {0.001, 0.1, 3.0}) {
    CAPTURE(spread);
    std::vector<float> p_row(static_cast<std::size_t>(n));
    std::vector<float> q_row(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < p_row.size(); ++i) {
      p_row[i] = static_cast<float>(6.0 * random.unit());
      q_row[i] = p_row[i] + static_cast<float>(spread * random.unit());
    }
    team::serial team;
    const sampler::pipeline sampler{sampler::temperature{}};
    const law<float> p = sampler(team, row_view<float>{p_row.data(), n}, {}, {});
    const law<float> q = sampler(team, row_view<float>{q_row.data(), n}, {}, {});
    const kernel::residual<law<float>, law<float>, kernel::list_kind::everything> residual{
        p, q, {}};
    double drawn = 0.0;
    double wanted = 0.0;
    double rest = 0.0;
    for (std::int32_t i = 0; i < n; ++i) {
      drawn += q.weight(i);
      wanted += std::exp(static_cast<double>(p_row[static_cast<std::size_t>(i)]));
      rest += residual(i);
    }
    double rejected = 1.0;
    std::vector<double> emitted(static_cast<std::size_t>(n));
    for (std::int32_t i = 0; i < n; ++i) {
      const double accepted = q.weight(i) / drawn * std::min(1.0, double(p.prob(i)) / q.prob(i));
      emitted[static_cast<std::size_t>(i)] = accepted;
      rejected -= accepted;
    }
    double distance = 0.0;
    for (std::int32_t i = 0; i < n; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const double got = emitted[index] + rejected * residual(i) / rest;
      distance += std::abs(got - std::exp(static_cast<double>(p_row[index])) / wanted) / 2.0;
    }
    CHECK(distance <= 1e-6);
  }
}

}  // namespace
}  // namespace hunch::test::draw_law_test
