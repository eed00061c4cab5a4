// SPDX-License-Identifier: Apache-2.0

// Draws by races: the first of all arrivals is found, its law is that of the weights, teams of
// every size agree, and logits that differ in their last bits keep a seed's text, where draws along
// sums of weights do not.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/distribution/race_source.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/chi_squared.hpp"
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"
#include "../support/toy_model.hpp"

namespace hunch::test::race_test {
namespace {

struct some_words {
  std::uint64_t seed = 0;
  std::uint64_t operator()(std::int32_t which, std::uint32_t kind) const {
    return mix(mix(seed * 2 + kind) + static_cast<std::uint64_t>(which));
  }
};
using noise_type = kernel::token_noise<some_words>;

std::int64_t first_of_all(const std::vector<float>& weights, const noise_type& noise) {
  kernel::timed_token best;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0.0f)) { continue; }
    const auto t = static_cast<token>(i);
    const double time = noise.arrival(t, noise.start(t / kernel::noise_tile));
    best = ahead(best, kernel::timed_token{time / static_cast<double>(weights[i]), t});
  }
  return best.who == no_token ? -1 : best.who;
}

/// Weights of very different sizes, some of them 0.
std::vector<float> some_weights(std::int32_t n, double spread, std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(n));
  dice random{seed};
  for (float& w : out) {
    w = random.below(8) == 0 ? 0.0f : static_cast<float>(std::exp(-spread * random.unit()));
  }
  return out;
}

/// A race by teams of threads, each rank of which must come to the same.
struct race_body {
  const float* weights;
  std::int64_t n;
  std::uint64_t seed;
  std::int64_t* winner;  ///< [count]

  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    const std::int64_t found = race_source<>{}.categorical(
        team, {.seed = seed, .length = static_cast<std::uint32_t>(index)}, n,
        [w = weights](std::int64_t i) { return w[i]; });
    if (team.rank() == 0) { winner[index] = found; }
  }
};

}  // namespace

TEST_CASE("a race finds the first of all arrivals") {
  for (const std::int32_t n : {1, 2, 7, 1023, 1024, 1025, 5000}) {
    for (const double spread : {0.0, 3.0, 30.0, 80.0}) {
      CAPTURE(n);
      CAPTURE(spread);
      const std::vector<float> weights = some_weights(n, spread, 5);
      for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const noise_type noise{{seed}};
        team::serial team;
        const std::int64_t found = kernel::race(
            team, n, [&](std::int64_t i) { return weights[static_cast<std::size_t>(i)]; }, noise);
        REQUIRE(found == first_of_all(weights, noise));
      }
    }
  }
  team::serial team;
  CHECK(kernel::race(
            team, 3000, [](std::int64_t) { return 0.0f; }, noise_type{}) == -1);
  const auto only = [](std::int64_t i) { return i == 2900 ? 1e-30f : 0.0f; };
  CHECK(kernel::race(team, 3000, only, noise_type{}) == 2900);
}

TEST_CASE("the winner's law is that of the weights") {
  // Over a border of two tiles, so that both kinds of arrival are in it.
  const std::int32_t first = 1020;
  const std::vector<double> law{0.3, 0.01, 0.19, 0.05, 0.25, 0.02, 0.08, 0.1};
  const auto weight = [&](std::int64_t i) {
    return i < first ? 0.0 : 7.0 * law[static_cast<std::size_t>(i - first)];
  };
  std::vector<std::int64_t> counts(law.size());
  for (std::uint32_t i = 0; i < 200000; ++i) {
    team::serial team;
    const std::int64_t found = race_source<>{}.categorical(
        team, {.seed = 3, .length = i, .what = purpose::residual}, first + 8, weight);
    REQUIRE(found >= first);
    ++counts[static_cast<std::size_t>(found - first)];
  }
  CHECK(chi_squared(counts, law) < bound(7));
  // Negative control: a law that is off by a hundredth of the mass.
  std::vector<double> wrong = law;
  wrong[0] += 0.01;
  wrong[4] -= 0.01;
  CHECK(chi_squared(counts, wrong) > bound(7));
}

TEST_CASE("teams of every size draw the same") {
  for (const std::int32_t n : {5, 1500, 9000}) {
    const std::vector<float> weights = some_weights(n, 20.0, 9);
    const auto winners = [&](auto executor) {
      std::vector<std::int64_t> out(40);
      executor.launch(40, race_body{weights.data(), n, 4, out.data()});
      return out;
    };
    const auto expected = winners(executor::host{});
    CHECK(winners(threads{{}, 1, 3}) == expected);
    CHECK(winners(threads{{}, 1, 32}) == expected);
    CHECK(winners(threads{{}, 2, 4}) == expected);
  }
}

TEST_CASE("speculative sampling by races has the law of plain decoding") {
  constexpr std::int32_t vocab = 5;
  const toy_world world{vocab, 5, flavour::smooth};
  const std::vector<token> prompt{1, 2};
  // The law of the first two tokens.
  std::vector<double> law(vocab * vocab);
  const auto softmax = [&](std::uint64_t text) {
    std::vector<double> p = world.logits(text);
    double sum = 0.0;
    for (double& x : p) { sum += x = std::exp(x); }
    for (double& x : p) { x /= sum; }
    return p;
  };
  const std::uint64_t read = hash_of(prompt);
  for (token a = 0; a < vocab; ++a) {
    for (token b = 0; b < vocab; ++b) {
      law[static_cast<std::size_t>(a * vocab + b)] =
          softmax(read)[static_cast<std::size_t>(a)] *
          softmax(extend(read, a))[static_cast<std::size_t>(b)];
    }
  }
  const auto counted = [&](auto random) {
    std::vector<std::int64_t> counts(law.size());
    decoder d{toy_target<float>{world},
              drafter::autoregressive{
                  toy_draft<float>{{vocab, 6, flavour::smooth}, vocab_layout::identity(vocab)},
                  tree::sampled<2, 1>{}},
              selector::full{vocab},
              sampler::pipeline<sampler::temperature>{},
              verifier::rejection{},
              decoder_options{.token_text = {}},
              random};
    for (std::uint64_t seed = 0; seed < 60000; ++seed) {
      std::vector<token> text;
      for (const token t : d.generate(prompt, {.max_new_tokens = 2, .seed = seed})) {
        text.push_back(t);
      }
      ++counts[static_cast<std::size_t>(text[0] * vocab + text[1])];
    }
    return counts;
  };
  const auto by_races = counted(race_source<>{});
  CHECK(chi_squared(by_races, law) < bound(vocab * vocab - 1));
  CHECK(by_races != counted(random_source<>{}));  // other texts, of the same law
  // Negative control: a law that is off by a fiftieth of the mass.
  std::vector<double> wrong = law;
  const auto [least, most] = std::minmax_element(wrong.begin(), wrong.end());
  *least += 0.02;
  *most -= 0.02;
  CHECK(chi_squared(by_races, wrong) > bound(vocab * vocab - 1));
}

TEST_CASE("logits that differ a little keep the winner of a race") {
  // As they do from batch size to batch size: by 5e-5, at random.
  constexpr std::int32_t n = 32000;
  dice random{11};
  const auto normal = [&] {
    const double radius = std::sqrt(-2.0 * std::log(random.unit() + 1e-18));
    return radius * std::cos(6.283185307179586 * random.unit());
  };
  std::int64_t by_sums = 0, by_races = 0, draws = 0;
  for (int row = 0; row < 60; ++row) {
    std::vector<float> one(n), other(n);
    for (std::size_t i = 0; i < one.size(); ++i) {
      one[i] = static_cast<float>(2.5 * normal());
      other[i] = one[i] + static_cast<float>(5e-5 * normal());
    }
    team::serial team;
    const auto law_of = [&](std::vector<float>& of) {
      return sampler::pipeline<sampler::temperature>{}(team, row_view<float>{of.data(), n},
                                                       sampling_parameters{}, {});
    };
    const law<float> p = law_of(one), q = law_of(other);
    for (std::uint32_t i = 0; i < 100; ++i, ++draws) {
      const address a{.seed = static_cast<std::uint64_t>(row), .length = i};
      const auto changes = [&](const auto& source) {
        return source.categorical(team, a, n, weights_of{p}) !=
               source.categorical(team, a, n, weights_of{q});
      };
      by_sums += changes(random_source<>{}) ? 1 : 0;
      by_races += changes(race_source<>{}) ? 1 : 0;
    }
  }
  MESSAGE("of ", draws, " draws changed: ", by_sums, " along sums, ", by_races, " by races");
  CHECK(by_races == 0);
  CHECK(by_sums > 60);
}

}  // namespace hunch::test::race_test
