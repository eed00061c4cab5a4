// SPDX-License-Identifier: Apache-2.0

// The laws that samplers make, against a reference that sorts.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/logit.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/serial.hpp>
#include "../support/hash.hpp"
#include "../support/reference.hpp"

namespace hunch::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Real, class S>
law<Real> law_of(const std::vector<Real>& row, const S& sampler, const sampling_parameters& with) {
  team::serial team;
  const row_view<Real> view{const_cast<Real*>(row.data()), static_cast<std::int32_t>(row.size())};
  return sampler(team, view, with, {});
}

template <class Real>
double largest_gap(const law<Real>& l, const std::vector<double>& expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double p = static_cast<double>(l.prob(static_cast<std::int64_t>(i)));
    largest = std::max(largest, std::abs(p - expected[i]));
    if ((p > 0.0) != (expected[i] > 0.0) && expected[i] > 1e-30) { largest = 1.0; }
    if (expected[i] == 0.0 && p != 0.0) { largest = 1.0; }
  }
  return largest;
}

/// Rows with many ties, few ties, and elements that are impossible.
std::vector<double> row_of(std::int32_t n, std::uint64_t seed) {
  std::vector<double> row(static_cast<std::size_t>(n));
  dice random{seed};
  const std::int32_t kind = static_cast<std::int32_t>(seed % 4);
  for (double& x : row) {
    x = kind == 0 ? random.below(3) : kind == 1 ? 10.0 * random.unit() : 4.0 * random.unit() - 9.0;
    if (kind == 3 && random.below(4) == 0) { x = -infinity; }
  }
  row[static_cast<std::size_t>(n - 1)] = 0.5;
  return row;
}

const sampler::pipeline all{sampler::temperature{}, sampler::top_k{}, sampler::top_p{}};

TEST_CASE("temperature, top-k and top-p against the reference") {
  std::int64_t compared = 0;
  for (const std::int32_t n : {1, 2, 5, 64, 129, 1000}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const std::vector<double> row = row_of(n, seed);
      for (const float t : {1.0f, 0.7f, 2.5f, 0.01f, 0.0f}) {
        for (const std::int32_t k : {0, 1, 2, 7, n, n + 5}) {
          for (const float p : {1.0f, 0.9999f, 0.9f, 0.51f, 0.01f, 1e-6f}) {
            const sampling_parameters with{t, k, p};
            const law<double> l = law_of(row, all, with);
            CAPTURE(n);
            CAPTURE(seed);
            CAPTURE(t);
            CAPTURE(k);
            CAPTURE(p);
            CHECK(l.status == status::ok);
            CHECK(largest_gap(l, reference_law(row, with)) <= 1e-13);
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared == 6 * 8 * 5 * 6 * 6);
}

TEST_CASE("long rows, whose cut is found by narrowing") {
  const sampler::pipeline with_min_p{sampler::temperature{}, sampler::top_k{}, sampler::top_p{},
                                     sampler::min_p{}};
  for (const std::int32_t n : {2049, 5000, 40000}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {  // every fourth row has three distinct logits
      const std::vector<double> row = row_of(n, seed);
      for (const float t : {1.0f, 0.2f, 30.0f}) {
        for (const auto& cuts : {std::pair{0, 0.9f},
                                 {0, 0.5f},
                                 {0, 0.9999f},
                                 {0, 1e-3f},
                                 {1, 1.0f},
                                 {50, 1.0f},
                                 {n / 2, 1.0f},
                                 {n - 1, 1.0f},
                                 {n / 3, 0.7f}}) {
          const std::int32_t k = cuts.first;
          const float p = cuts.second;
          for (const float least : {0.0f, 0.2f}) {
            const sampling_parameters with{t, k, p, least};
            CAPTURE(n);
            CAPTURE(seed);
            CAPTURE(t);
            CAPTURE(k);
            CAPTURE(p);
            CHECK(largest_gap(law_of(row, with_min_p, with), reference_law(row, with)) <= 1e-12);
          }
        }
      }
    }
  }
}

/// Narrowing asks first how much lies 8 and 16 powers of two below the maximum. Here elements lie
/// exactly there: each belongs to one side of the bracket, and to one only.
template <class Real>
void cut_at_the_ends() {
  const auto below = [](int octaves) {
    return Real(0) - static_cast<Real>(octaves) / kernel::scale_at_one<Real>;
  };
  const auto kept = [](const std::vector<Real>& row, std::int32_t k) {
    const law<Real> l = law_of(row, all, {1.0f, k, 1.0f});
    std::vector<std::int32_t> found;
    for (std::int32_t i = 0; i < l.size(); ++i) {
      if (l.keeps(i)) { found.push_back(i); }
    }
    return found;
  };
  std::vector<Real> row(5000, Real(-100));
  row[7] = Real(0);
  row[4000] = below(8);
  CHECK(kept(row, 2) == std::vector<std::int32_t>{7, 4000});  // the lower end
  row[1500] = below(12);
  CHECK(kept(row, 3) == std::vector<std::int32_t>{7, 1500, 4000});  // the upper end
  row[1500] = below(16);
  CHECK(kept(row, 3) == std::vector<std::int32_t>{7, 1500, 4000});  // both
}

TEST_CASE("elements at the ends of the bracket in which a cut is sought") {
  cut_at_the_ends<float>();
  cut_at_the_ends<double>();
}

TEST_CASE("production laws in float") {
  for (std::uint64_t seed = 1; seed < 40; seed += 4) {  // rows without ties
    std::vector<float> row;
    std::vector<double> wide;
    for (const double x : row_of(1000, seed)) {
      row.push_back(static_cast<float>(x));
      wide.push_back(static_cast<double>(row.back()));
    }
    for (const sampling_parameters& with : {sampling_parameters{},
                                            {0.7f, 0, 1.0f},
                                            {1.0f, 40, 1.0f},
                                            {2.0f, 3, 1.0f},
                                            {0.0f, 0, 1.0f}}) {
      CHECK(largest_gap(law_of(row, all, with), reference_law(wide, with)) <= 2e-7);
    }
  }
}

TEST_CASE("ties are cut by id, lowest first") {
  const std::vector<double> row{1.0, 2.0, 1.0, 2.0, 1.0, 2.0};
  const auto kept = [&](const sampling_parameters& with) {
    const law<double> l = law_of(row, all, with);
    std::vector<int> ids;
    for (int i = 0; i < 6; ++i) {
      if (l.prob(i) > 0.0) { ids.push_back(i); }
    }
    return ids;
  };
  CHECK(kept({1.0f, 1, 1.0f}) == std::vector{1});
  CHECK(kept({1.0f, 2, 1.0f}) == std::vector{1, 3});
  CHECK(kept({1.0f, 3, 1.0f}) == std::vector{1, 3, 5});
  CHECK(kept({1.0f, 4, 1.0f}) == std::vector{0, 1, 3, 5});
  CHECK(kept({1.0f, 5, 1.0f}) == std::vector{0, 1, 2, 3, 5});
  CHECK(kept({0.0f, 0, 1.0f}) == std::vector{1});
  CHECK(kept({1.0f, 2, 0.5f}) == std::vector{1});
  CHECK(kept({1.0f, 2, 0.51f}) == std::vector{1, 3});
}

TEST_CASE("ties all over a long row are cut by id") {
  std::vector<double> row = row_of(9001, 4);  // three logits
  std::vector<std::int32_t> largest;
  for (std::int32_t i = 0; i < 9001; ++i) {
    if (row[static_cast<std::size_t>(i)] == 2.0) { largest.push_back(i); }
  }
  const auto ties = static_cast<std::int32_t>(largest.size());
  REQUIRE(ties > 2500);
  for (const std::int32_t k : {1, 2, 3, 1000, 1001, ties / 2, ties - 1}) {
    CAPTURE(k);
    const law<double> l = law_of(row, sampler::pipeline{sampler::top_k{}}, {1.0f, k});
    CHECK(l.last_kept == largest[static_cast<std::size_t>(k) - 1]);
    CHECK(l.threshold == 2.0);
    CHECK(1.0 / l.norm == doctest::Approx(k));
  }
}

TEST_CASE_TEMPLATE("what is written to a row of 16-bit logits is rounded", Half, bfloat16,
                   float16) {
  dice random{7};
  const sampler::pipeline stages{sampler::bias{}, sampler::allowed_tokens{},
                                 sampler::temperature{}};
  constexpr std::int32_t size = 100;
  constexpr float banned = -std::numeric_limits<float>::infinity();
  std::vector<Half> row;
  for (std::int32_t i = 0; i < size; ++i) {
    row.push_back(to_logit<Half>(static_cast<float>(20.0 * random.unit() - 10.0)));
  }
  std::vector<float> expected;
  for (const Half x : row) { expected.push_back(to_float(x)); }
  const logit_bias biases[] = {{3, 0.7f}, {5, banned}, {8, -1e-4f}, {9, 1e6f}, {11, -3e38f}};
  for (const logit_bias& b : biases) {
    float& x = expected[static_cast<std::size_t>(b.t)];
    x = to_float(to_logit<Half>(x + b.value));
  }
  std::vector<std::uint32_t> allowed(4, ~0u);
  allowed[1] = 0x0000ffffu;
  for (std::size_t t = 48; t < 64; ++t) { expected[t] = banned; }
  team::serial team;
  row_history history;
  history.allowed = allowed.data();
  const sampling_parameters with{.bias = biases, .bias_count = 5, .constrained = true};
  const law<Half> of_halves = stages(team, row_view<Half>{row.data(), size}, with, history);
  const law<float> of_copy = law_of(expected, sampler::pipeline{sampler::temperature{}}, {});
  for (std::size_t i = 0; i < row.size(); ++i) { CHECK(to_float(row[i]) == expected[i]); }
  // A finite sum stays finite, however few of such numbers the type has.
  CHECK(of_halves.status == status::ok);
  CHECK(of_halves.maximum == of_copy.maximum);
  CHECK(of_halves.norm == of_copy.norm);
}

TEST_CASE("edge values of top-p on a row of equal logits") {
  const std::vector<double> row(8, 0.25);
  const auto count = [&](float p) {
    const law<double> l = law_of(row, all, {1.0f, 0, p});
    int kept = 0;
    for (int i = 0; i < 8; ++i) { kept += l.prob(i) > 0.0 ? 1 : 0; }
    return kept;
  };
  CHECK(count(1.0f) == 8);
  CHECK(count(std::nextafter(1.0f, 0.0f)) == 8);
  CHECK(count(0.876f) == 8);
  CHECK(count(0.875f) == 7);
  CHECK(count(0.5f) == 4);
  CHECK(count(0.126f) == 2);
  CHECK(count(0.125f) == 1);
  CHECK(count(std::numeric_limits<float>::denorm_min()) == 1);
}

TEST_CASE("a temperature that is tiny or huge") {
  const std::vector<double> row{0.0, 1.0, 1.0, -3.0};
  const std::vector<float> narrow{0.0f, 1.0f, 1.0f, -3.0f};
  const float smallest = std::numeric_limits<float>::denorm_min();
  const float largest = std::numeric_limits<float>::max();
  for (const float t : {1e-3f, 1e-20f, 1e-38f}) {  // both of the largest stay
    CHECK(law_of(row, all, {t, 0, 1.0f}).prob(1) == 0.5);
    CHECK(law_of(row, all, {t, 0, 1.0f}).prob(2) == 0.5);
    CHECK(law_of(narrow, all, {t, 0, 1.0f}).prob(2) == 0.5f);
  }
  CHECK(law_of(narrow, all, {smallest, 0, 1.0f}).prob(1) == 1.0f);  // 1 / T is not finite
  CHECK(law_of(narrow, all, {0.0f, 0, 1.0f}).prob(1) == 1.0f);
  CHECK(law_of(narrow, all, {-0.0f, 0, 1.0f}).prob(1) == 1.0f);
  CHECK(law_of(row, all, {-0.0f, 0, 1.0f}).prob(1) == 1.0);
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(law_of(narrow, all, {largest, 0, 1.0f}).prob(i) == 0.25f);
    CHECK(std::abs(law_of(row, all, {largest, 0, 1.0f}).prob(i) - 0.25) < 1e-15);
  }
}

TEST_CASE("greedy is the argmax, the lowest id on ties, zeros of both signs being equal") {
  const auto best = [](const std::vector<float>& row) {
    return law_of(row, sampler::greedy{}, {}).last_kept;
  };
  CHECK(best({1.0f, 3.0f, 3.0f, 2.0f}) == 1);
  CHECK(best({-0.0f, 0.0f, -1.0f}) == 0);
  CHECK(best({-1.0f, 0.0f, -0.0f}) == 1);
  CHECK(best({-5.0f}) == 0);
  CHECK(best({-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::max()}) == 1);
  CHECK(law_of(std::vector<float>{1.0f, 3.0f}, sampler::greedy{}, {}).prob(1) == 1.0f);
}

TEST_CASE("rows that have no law") {
  const double nan = std::nan("");
  for (const std::vector<double>& row : {std::vector<double>{nan, 1.0},
                                         {1.0, -nan},
                                         {infinity, 1.0},
                                         {-infinity, -infinity},
                                         {nan, infinity, -infinity}}) {
    CHECK(law_of(row, all, {}).status == status::invalid_logits);
    CHECK(law_of(row, sampler::greedy{}, {}).status == status::invalid_logits);
    const std::vector<float> narrow(row.begin(), row.end());
    CHECK(law_of(narrow, all, {}).status == status::invalid_logits);
  }
  CHECK(law_of(std::vector<double>{-infinity, -7.0}, all, {}).prob(1) == 1.0);
}

TEST_CASE("stages apply in the order given") {
  // Top-p after top-k sees the mass that top-k left; before it, the mass of the whole row.
  const std::vector<double> row{std::log(0.4), std::log(0.3), std::log(0.2), std::log(0.1)};
  const sampling_parameters with{1.0f, 2, 0.65f};
  const sampler::pipeline k_first{sampler::top_k{}, sampler::top_p{}};
  const sampler::pipeline p_first{sampler::top_p{}, sampler::top_k{}};
  CHECK(law_of(row, k_first, with).prob(1) == doctest::Approx(3.0 / 7.0));
  CHECK(law_of(row, p_first, with).prob(1) == doctest::Approx(3.0 / 7.0));
  const sampling_parameters tight{1.0f, 2, 0.5f};
  CHECK(law_of(row, k_first, tight).prob(0) == 1.0);
  CHECK(law_of(row, p_first, tight).prob(0) == doctest::Approx(4.0 / 7.0));
}

}  // namespace
}  // namespace hunch::test
