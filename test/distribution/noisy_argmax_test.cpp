// SPDX-License-Identifier: Apache-2.0

// Drawing with shared noise: the pruned search finds the winner of a search through everything, the
// winner's law is the law, and two laws have the same winner as often as the theory says.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/distribution/detail/noisy_argmax.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/serial.hpp>
#include "../support/chi_squared.hpp"
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

using sampler_type = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;

/// Random words without the library's addresses.
struct some_words {
  std::uint64_t seed = 0;
  std::uint64_t operator()(std::int32_t which, std::uint32_t kind) const {
    return mix(mix(seed * 2 + kind) + static_cast<std::uint64_t>(which));
  }
};
using noise_type = kernel::token_noise<some_words>;

/// The winner by looking at every token.
token winner_of_all(const law<float>& l, const noise_type& noise, const shortlist* list = nullptr) {
  kernel::timed_token best;
  for (std::int32_t i = 0; i < l.size(); ++i) {
    const float w = l.weight(i);
    if (!(w > 0.0f)) { continue; }
    const token t = list == nullptr ? i : list->token_at(i);
    const double time = noise.arrival(t, noise.start(t / kernel::noise_tile));
    best = ahead(best, kernel::timed_token{time / static_cast<double>(w), t});
  }
  return best.who;
}

/// Rows from flat to peaked: normal logits of a standard deviation, and few equal ones.
std::vector<float> row_of(std::int32_t n, double deviation, std::uint64_t seed) {
  std::vector<float> row(static_cast<std::size_t>(n));
  dice random{seed};
  for (float& x : row) {
    const double radius = std::sqrt(-2.0 * std::log(random.unit() + 1e-18));
    const double normal = radius * std::cos(6.283185307179586 * random.unit());
    x = static_cast<float>(deviation < 0.0 ? random.below(3) : deviation * normal);
    if (random.below(50) == 0) { x = -std::numeric_limits<float>::infinity(); }
  }
  row[static_cast<std::size_t>(n / 2)] = 1.0f;
  return row;
}

TEST_CASE("the pruned search finds the winner") {
  const sampler_type sampler;
  const sampling_parameters all[] = {
      {1.0f, 0, 1.0f}, {0.3f, 0, 1.0f}, {5.0f, 40, 0.9f}, {0.0f, 0, 1.0f}, {1e30f, 0, 1.0f}};
  for (const std::int32_t n : {1, 2, 5, 1023, 1024, 1025, 5000, 40000}) {
    for (const double deviation : {-1.0, 0.0, 0.5, 2.0, 8.0}) {
      std::vector<float> row = row_of(n, deviation, 3);
      team::serial team;
      const auto layout = [&] {
        std::vector<token> order(static_cast<std::size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        dice random{5};
        for (std::int32_t i = n - 1; i > 0; --i) {
          std::swap(order[static_cast<std::size_t>(i)],
                    order[static_cast<std::size_t>(random.below(i + 1))]);
        }
        return vocab_layout::permuted(order, n);
      }();
      const row_range part{0, (n + 1) / 2};
      const shortlist list = layout.list(&part, 1);
      for (const sampling_parameters& with : all) {
        CAPTURE(n);
        CAPTURE(deviation);
        CAPTURE(with.temperature);
        const law<float> whole = sampler(team, row_view<float>{row.data(), n}, with, {});
        const law<float> some = sampler(team, row_view<float>{row.data(), list.size}, with, {});
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const noise_type noise{{seed}};
          CHECK(kernel::noisy_argmax(team, whole, kernel::detail::row_tokens{n}, noise) ==
                winner_of_all(whole, noise));
          if (some.status != status::ok) { continue; }
          CHECK(kernel::noisy_argmax(team, some, kernel::detail::listed_tokens{list}, noise) ==
                winner_of_all(some, noise, &list));
        }
      }
    }
  }
}

TEST_CASE("few tokens are looked at") {
  struct counted_words {
    std::int64_t* asked;
    some_words words;
    std::uint64_t operator()(std::int32_t which, std::uint32_t kind) const {
      *asked += kind;
      return words(which, kind);
    }
  };
  constexpr std::int32_t n = 128256;
  for (const double deviation : {1.0, 3.0, 8.0}) {
    std::vector<float> row = row_of(n, deviation, 9);
    team::serial team;
    const law<float> l = sampler_type{}(team, row_view<float>{row.data(), n}, {}, {});
    std::int64_t asked = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const kernel::token_noise<counted_words> noise{{&asked, {seed}}};
      kernel::noisy_argmax(team, l, kernel::detail::row_tokens{n}, noise);
    }
    CAPTURE(deviation);
    CHECK(asked / 20 < n / 100);
  }
}

TEST_CASE("the winner's law is the law, at two positions at once") {
  constexpr std::int32_t n = 16;
  std::vector<float> row(n);
  for (std::int32_t i = 0; i < n; ++i) {
    row[std::size_t(i)] = 0.25f * static_cast<float>(i) - 2.f;
  }
  team::serial team;
  const law<float> l = sampler_type{}(team, row_view<float>{row.data(), n}, {}, {});
  std::vector<double> one(n), two(n * n);
  for (std::int32_t i = 0; i < n; ++i) {
    for (std::int32_t j = 0; j < n; ++j) {
      one[std::size_t(i)] = static_cast<double>(l.prob(i));
      two[std::size_t(i * n + j)] = static_cast<double>(l.prob(i)) * static_cast<double>(l.prob(j));
    }
  }
  constexpr int draws = 1'000'000;
  const auto statistics = [&](auto&& winner) {
    std::vector<std::int64_t> singles(n, 0), pairs(n * n, 0);
    token before = 0;
    for (int i = 0; i < draws; ++i) {
      const token t = winner(static_cast<std::uint64_t>(i / 2), static_cast<std::uint32_t>(i % 2));
      ++singles[std::size_t(t)];
      if (i % 2 == 1) { ++pairs[std::size_t(before * n + t)]; }
      before = t;
    }
    return std::pair{chi_squared(singles, one), chi_squared(pairs, two)};
  };
  const random_source<> source;
  const auto [singles, pairs] = statistics([&](std::uint64_t seed, std::uint32_t position) {
    return source.noisy_argmax(team, noise_address(seed, position), l);
  });
  MESSAGE("chi-squared " << singles << " of 15, " << pairs << " of 255 degrees of freedom");
  CHECK(singles < bound(15.0));
  CHECK(pairs < bound(255.0));
  // Controls: noise that does not depend on the position; times that forget the start of the tile.
  const auto stuck = statistics([&](std::uint64_t seed, std::uint32_t) {
    return source.noisy_argmax(team, noise_address(seed, 0), l);
  });
  CHECK(stuck.first < bound(15.0) * 4.0);
  CHECK(stuck.second > bound(255.0));
  const auto forgetful = statistics([&](std::uint64_t seed, std::uint32_t position) {
    const noise_type noise{{seed * 2 + position}};
    kernel::timed_token best;
    const auto start = noise.start(0);
    for (std::int32_t t = 0; t < n; ++t) {
      // A first arrival that is also taken out of the fresh times of the others.
      const double time = t == start.first % n ? start.time : noise.arrival(t, {0.0, -1});
      best = ahead(best, kernel::timed_token{time / static_cast<double>(l.weight(t)), t});
    }
    return best.who;
  });
  CHECK(forgetful.first > bound(15.0));
}

TEST_CASE("arrival times are exponential and independent, across tiles too") {
  constexpr int draws = 200'000;
  // Tokens of one tile and of another: means, variances, correlations.
  const std::vector<token> tokens{0, 1, 700, 1023, 1024, 5000};
  std::vector<double> sum(tokens.size(), 0.0);
  std::vector<double> product(tokens.size() * tokens.size(), 0.0);
  for (int i = 0; i < draws; ++i) {
    const noise_type noise{{static_cast<std::uint64_t>(i)}};
    std::vector<double> e;
    for (const token t : tokens) { e.push_back(noise.arrival(t, noise.start(t / 1024)) - 1.0); }
    for (std::size_t a = 0; a < e.size(); ++a) {
      sum[a] += e[a];
      for (std::size_t b = 0; b < e.size(); ++b) { product[a * e.size() + b] += e[a] * e[b]; }
    }
  }
  const double tolerance = 6.0 * std::sqrt(8.0 / draws);  // the variance of (E - 1)^2 is 8
  for (std::size_t a = 0; a < tokens.size(); ++a) {
    CHECK(std::abs(sum[a] / draws) < tolerance);
    for (std::size_t b = 0; b < tokens.size(); ++b) {
      CHECK(std::abs(product[a * tokens.size() + b] / draws - (a == b ? 1.0 : 0.0)) < tolerance);
    }
  }
}

TEST_CASE("two laws have the same winner as often as they must") {
  constexpr std::int32_t n = 8;
  std::vector<float> p_row{0.f, 1.f, 2.f, 0.5f, -1.f, 0.2f, 1.5f, 0.f};
  std::vector<float> q_row{0.5f, 1.f, 1.f, 0.5f, 1.f, -0.2f, 1.f, 0.f};
  team::serial team;
  const law<float> p = sampler_type{}(team, row_view<float>{p_row.data(), n}, {}, {});
  const law<float> q = sampler_type{}(team, row_view<float>{q_row.data(), n}, {}, {});
  double expected = 0.0;
  double variation = 0.0;
  for (std::int32_t i = 0; i < n; ++i) {
    double ratio = 0.0;
    for (std::int32_t j = 0; j < n; ++j) {
      ratio += static_cast<double>(std::max(p.prob(j) / p.prob(i), q.prob(j) / q.prob(i)));
    }
    expected += 1.0 / ratio;
    variation += std::abs(static_cast<double>(p.prob(i) - q.prob(i))) / 2.0;
  }
  constexpr int draws = 200'000;
  int same = 0;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const noise_type noise{{seed}};
    const kernel::detail::row_tokens tokens{n};
    same +=
        kernel::noisy_argmax(team, p, tokens, noise) == kernel::noisy_argmax(team, q, tokens, noise)
            ? 1
            : 0;
  }
  const double share = static_cast<double>(same) / draws;
  CHECK(std::abs(share - expected) < 6.0 * std::sqrt(0.25 / draws));
  CHECK(expected >= (1.0 - variation) / (1.0 + variation));
}

TEST_CASE("the logarithm") {
  dice random{4};
  double worst = 0.0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::exp(80.0 * random.unit() - 60.0);
    const double right = std::log(x);
    worst = std::max(worst, std::abs(kernel::log_of(x) - right) / std::max(std::abs(right), 1e-3));
  }
  for (int i = 1; i < 1000; ++i) {
    const double x = 1.0 - i * 0x1.0p-53;
    worst = std::max(worst, std::abs(kernel::log_of(x) / std::log(x) - 1.0));
  }
  CHECK(worst < 1e-15);
  CHECK(kernel::log_of(1.0) == 0.0);
}

}  // namespace
}  // namespace hunch::test
