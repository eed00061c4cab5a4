// SPDX-License-Identifier: Apache-2.0

// What is said about drawn tokens: entropies against sums over probabilities, on every team.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/distribution/entropy.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

using sampler_type = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;

template <class Real>
std::vector<Real> some_row(std::int32_t n, std::uint64_t seed, bool holes) {
  std::vector<Real> row;
  dice random{seed};
  for (std::int32_t i = 0; i < n; ++i) {
    row.push_back(static_cast<Real>(12.0 * random.unit()));
    if (holes && i > 0 && random.below(3) > 0) {
      row.back() = -std::numeric_limits<Real>::infinity();
    }
  }
  return row;
}

template <class Real>
double plain_entropy(const law<Real>& l) {
  double sum = 0.0;
  for (std::int32_t i = 0; i < l.size(); ++i) { sum += static_cast<double>(l.weight(i)); }
  double nats = 0.0;
  for (std::int32_t i = 0; i < l.size(); ++i) {
    const double p = static_cast<double>(l.weight(i)) / sum;
    nats -= p > 0.0 ? p * std::log(p) : 0.0;
  }
  return nats;
}

struct said {
  double probability = -1.0;
  double entropy = -1.0;
  bool operator==(const said& o) const {
    return std::bit_cast<std::uint64_t>(probability) ==
               std::bit_cast<std::uint64_t>(o.probability) &&
           std::bit_cast<std::uint64_t>(entropy) == std::bit_cast<std::uint64_t>(o.entropy);
  }
};

template <class Real, class E>
said said_by(E executor, const law<Real>& l, std::int32_t at, bool with_entropy = true) {
  said out;
  const kernel::evidence_task<Real> task{&l, &at, &out.probability,
                                         with_entropy ? &out.entropy : nullptr};
  executor.launch(1, kernel::report_evidence<Real>{&task});
  return out;
}

template <class Real>
void check_entropies(double tolerance) {
#if defined(__SANITIZE_THREAD__)
  const std::vector<std::int32_t> sizes{1, 33, 4097};
#else
  const std::vector<std::int32_t> sizes{1, 2, 33, 128, 1025, 4096, 4097, 9000, 32000};
#endif
  constexpr sampling_parameters parameters[] = {
      {1.0f, 0, 1.0f}, {0.7f, 5, 1.0f}, {1.3f, 0, 0.8f}, {0.3f, 0, 1.0f}, {0.0f, 0, 1.0f}};
  for (const std::int32_t n : sizes) {
    for (const bool holes : {false, true}) {
      for (const sampling_parameters& with : parameters) {
        CAPTURE(n);
        CAPTURE(with.temperature);
        std::vector<Real> row = some_row<Real>(n, static_cast<std::uint64_t>(n), holes);
        team::serial team;
        const law<Real> l = sampler_type{}(team, row_view<Real>{row.data(), n}, with, {});
        // A point mass says what its logits say at temperature 1.
        std::int32_t kept = 0;
        for (std::int32_t i = 0; i < n; ++i) { kept += l.weight(i) > Real(0) ? 1 : 0; }
        const law<Real> telling =
            kept > 1 ? l : sampler_type{}(team, row_view<Real>{row.data(), n}, {1.0f, 0, 1.0f}, {});
        const std::int32_t at = kernel::argmax(team, l);
        const said found = said_by(executor::host{}, l, at);
        CHECK(std::abs(found.entropy - plain_entropy(telling)) <=
              tolerance * (1.0 + found.entropy));
        CHECK(found.entropy >= 0.0);
        CHECK(found.probability == static_cast<double>(telling.prob(at)));
        for (const threads& team_of : {threads{{}, 1, 3}, threads{{}, 1, 32}, threads{{}, 2, 2}}) {
          CHECK(said_by(team_of, l, at) == found);
          CHECK(said_by(team_of, l, at, false) == said{found.probability, -1.0});
        }
      }
    }
  }
}

TEST_CASE("the probability of a token and the entropy of its law, the same bits on every team") {
  check_entropies<float>(2e-6);
  check_entropies<double>(1e-12);
}

TEST_CASE("entropies that are known") {
  std::vector<double> even(1000, 2.5);
  team::serial team;
  const sampling_parameters with{0.8f, 0, 1.0f};
  CHECK(
      kernel::entropy(team, sampler_type{}(team, row_view<double>{even.data(), 1000}, with, {})) ==
      doctest::Approx(std::log(1000.0)).epsilon(1e-12));
  const sampling_parameters greedy{0.0f, 0, 1.0f};
  CHECK(kernel::entropy(
            team, sampler_type{}(team, row_view<double>{even.data(), 1000}, greedy, {})) == 0.0);
  law<float> broken;
  broken.status = status::invalid_logits;
  CHECK(kernel::entropy(team, broken) == 0.0);
  CHECK(said_by(executor::host{}, broken, -1) == said{0.0, 0.0});
}

}  // namespace
}  // namespace hunch::test
