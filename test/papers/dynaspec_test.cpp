// SPDX-License-Identifier: Apache-2.0

// What DynaSpec's argument rests on (Zhang et al. 2025, arXiv:2510.13847), by counting: on random
// laws small enough that every support can be tried. docs/papers/dynaspec.md has the sentences.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/distribution/law.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/oracle.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/vocab/layouts.hpp>

#include "support.hpp"

namespace hunch::test::dynaspec_test {
namespace {

using vector = std::vector<double>;
/// Bit t: token t is in it.
using support = std::uint32_t;

constexpr std::int32_t vocab = 10;
constexpr std::int32_t contexts = 40;

/// A law whose tokens differ by factors of up to e^sharpness in both directions.
vector random_law(std::mt19937& random, double sharpness) {
  std::uniform_real_distribution<double> logit(-sharpness, sharpness);
  vector law(vocab);
  double sum = 0.0;
  for (double& p : law) { sum += p = std::exp(logit(random)); }
  for (double& p : law) { p /= sum; }
  return law;
}

std::vector<vector> random_laws(unsigned seed, double sharpness) {
  std::mt19937 random(seed);
  std::vector<vector> laws(contexts);
  for (vector& law : laws) { law = random_law(random, sharpness); }
  return laws;
}

std::vector<token> tokens_of(support s) {
  std::vector<token> out;
  for (token t = 0; t < vocab; ++t) {
    if ((s >> t & 1u) != 0) { out.push_back(t); }
  }
  return out;
}

double acceptance(const vector& p, const vector& q, support s) {
  return papers::bounds_of<double>(p, q, tokens_of(s)).acceptance;
}

double mass(const vector& law, support s) {
  double sum = 0.0;
  for (const token t : tokens_of(s)) { sum += law[static_cast<std::size_t>(t)]; }
  return sum;
}

std::vector<support> supports_of(int size) {
  std::vector<support> out;
  for (support s = 0; s < (1u << vocab); ++s) {
    if (std::popcount(s) == size) { out.push_back(s); }
  }
  return out;
}

/// The mean over the contexts of value(context, chosen(context)).
template <class Value, class Choice>
double mean(const Value& value, const Choice& chosen) {
  double sum = 0.0;
  for (std::int32_t c = 0; c < contexts; ++c) { sum += value(c, chosen(c)); }
  return sum / contexts;
}

/// The best support of every context against the best one for all of them.
template <class Value>
void check_routing(const std::vector<support>& family, const Value& value) {
  const auto best_for = [&](const auto& worth) {
    return *std::ranges::max_element(family, {}, worth);
  };
  std::vector<support> best(contexts);
  for (std::int32_t c = 0; c < contexts; ++c) {
    best[static_cast<std::size_t>(c)] = best_for([&](support s) { return value(c, s); });
  }
  const support at_all =
      best_for([&](support s) { return mean(value, [s](std::int32_t) { return s; }); });
  const double fixed = mean(value, [&](std::int32_t) { return at_all; });
  const double routed =
      mean(value, [&](std::int32_t c) { return best[static_cast<std::size_t>(c)]; });
  CHECK(routed >= fixed);
  CHECK(routed > 1.05 * fixed);  // these contexts differ
  // That is no matter of course: the best supports of other contexts are worse than the static one.
  const double misrouted = mean(
      value, [&](std::int32_t c) { return best[static_cast<std::size_t>((c + 1) % contexts)]; });
  CHECK(misrouted < fixed);
}

TEST_CASE("the best support for each context keeps at least what the best static one does") {
  for (const unsigned seed : {1u, 2u, 3u}) {
    const auto p = random_laws(seed, 3.0);
    const auto q = random_laws(seed + 100, 3.0);
    for (const int size : {1, 3, 5}) {
      CAPTURE(seed);
      CAPTURE(size);
      const auto family = supports_of(size);
      check_routing(family, [&](std::int32_t c, support s) {
        return mass(p[static_cast<std::size_t>(c)], s);
      });
      check_routing(family, [&](std::int32_t c, support s) {
        const auto at = static_cast<std::size_t>(c);
        return acceptance(p[at], q[at], s);
      });
    }
  }
}

TEST_CASE("what a support keeps of the acceptance lies between bounds, for all supports") {
  std::mt19937 random(7);
  bool lower_is_reached = false;
  bool upper_is_reached = false;
  for (int round = 0; round < 60; ++round) {
    const vector p = random_law(random, 3.0);
    const vector q = round % 3 == 0 ? p : random_law(random, 3.0);
    const double whole = acceptance(p, q, (1u << vocab) - 1u);
    for (support s = 1; s < (1u << vocab); ++s) {
      const papers::support_bounds b = papers::bounds_of<double>(p, q, tokens_of(s));
      CHECK(b.acceptance >= b.lower - 1e-12);
      CHECK(b.acceptance <= b.upper + 1e-12);
      CHECK(b.lower <= whole + 1e-12);
      CHECK(std::abs(b.acceptance - whole) <= 1.0 - mass(q, s) + 1e-12);
      // A drafter that knows the target's law is accepted as often as the target's token is there.
      if (round % 3 == 0) { CHECK(b.acceptance == doctest::Approx(mass(p, s)).epsilon(1e-12)); }
      lower_is_reached =
          lower_is_reached || (std::popcount(s) < vocab && b.acceptance < b.lower + 1e-9);
      upper_is_reached =
          upper_is_reached || (std::popcount(s) < vocab && b.acceptance > b.upper - 1e-9);
    }
  }
  CHECK(lower_is_reached);
  CHECK(upper_is_reached);
  // Without dividing by q(S) the drafter would be accepted less often than it is.
  const vector p{0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0};
  const vector q{0.2, 0.2, 0.6, 0, 0, 0, 0, 0, 0, 0};
  const papers::support_bounds b = papers::bounds_of<double>(p, q, std::vector<token>{0, 1});
  CHECK(b.acceptance == doctest::Approx(1.0));
  CHECK(b.lower == doctest::Approx(0.4));
}

TEST_CASE("the oracle's clusters hold the most mass of all choices of so many clusters") {
  const auto laws = random_laws(11, 2.5);
  const std::vector<std::int32_t> cluster{0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
  constexpr std::int32_t clusters = 5;
  const vocab_layout layout = clustered_layout(cluster);
  for (const std::int32_t k : {1, 2, 3}) {
    CAPTURE(k);
    selector::clustered routed{layout, router::oracle{clusters}, budget::fixed{k}};
    executor::host host;
    selecting choosing{routed, host, 1};
    std::vector<support> family;  // unions of k clusters, of 2 k tokens each
    for (const support s : supports_of(2 * k)) {
      if (((s ^ s >> clusters) & ((1u << clusters) - 1u)) == 0) { family.push_back(s); }
    }
    CHECK(family.size() == (k == 1 ? 5u : 10u));
    std::vector<row_range> ranges(static_cast<std::size_t>(routed.max_ranges()));
    row_range* const to = ranges.data();
    for (const vector& law : laws) {
      const probabilities<double> p{{law.data(), vocab}};
      std::vector<float> masses(clusters);
      cluster_masses(p, layout, masses.data());
      const float* const seen = masses.data();
      std::int32_t count = 0;
      choosing.select({.size = 1, .depth = 0, .tokens = nullptr, .states = &seen},
                      {.ranges = &to, .counts = &count});
      support chosen = 0;
      const shortlist list = routed.layout().list(ranges.data(), count);
      list.for_each_in(0, list.size, [&](std::int32_t, token t) { chosen |= 1u << t; });
      CHECK(std::popcount(chosen) == 2 * k);
      double most = 0.0;
      for (const support s : family) { most = std::max(most, mass(law, s)); }
      CHECK(mass(law, chosen) == doctest::Approx(most).epsilon(1e-6));
    }
  }
}

}  // namespace
}  // namespace hunch::test::dynaspec_test
