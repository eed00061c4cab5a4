// SPDX-License-Identifier: Apache-2.0

// What DynaSpec's argument rests on, on the laws of the shipped target and EAGLE head along
// held-out text. docs/papers/dynaspec.md has the sentences.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>

#include "places.hpp"
#include "support.hpp"

namespace hunch::test {
namespace {

using papers::models;
using papers::places;

/// The sum of the `size` largest numbers.
double largest(std::vector<double> of, std::size_t size) {
  std::ranges::nth_element(of, of.begin() + static_cast<std::ptrdiff_t>(size), std::greater<>());
  return std::accumulate(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(size), 0.0);
}

/// The `size` tokens of the largest probability, in any order.
std::vector<std::size_t> best_tokens(const std::vector<double>& law, std::size_t size) {
  std::vector<std::size_t> tokens(law.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  std::ranges::nth_element(tokens, tokens.begin() + static_cast<std::ptrdiff_t>(size),
                           std::ranges::greater{}, [&](std::size_t t) { return law[t]; });
  tokens.resize(size);
  return tokens;
}

TEST_CASE("on the laws of models the best support for each context keeps more than a static one") {
  const places& all = papers::all_places();
  const auto vocab = static_cast<std::size_t>(all.vocab());
  // The mass of a support is a sum over its tokens: the best static one has the tokens of the
  // largest mean, the best one of a context those of its own law. What clusters hold likewise.
  const vocab_layout layout = load_layout(models / "paper" / "layout.safetensors", all.head());
  const auto cluster_of = [&](token t) {
    return static_cast<std::size_t>(layout.token_part()[t] - 1);
  };
  const auto clusters = static_cast<std::size_t>(layout.clusters());
  std::vector<double> mean(vocab);
  std::vector<double> mean_of_clusters(clusters);
  const auto masses = [&](std::span<const float> p) {
    std::vector<double> out(clusters);
    for (std::size_t t = 0; t < vocab; ++t) {
      out[cluster_of(static_cast<token>(t))] += static_cast<double>(p[t]);
    }
    return out;
  };
  /// What is held of the target's law, as the page says it.
  struct expected {
    std::size_t share;
    double routed, fixed, routed_clusters, fixed_clusters;
  };
  for (const expected& e :
       {expected{5, 0.974, 0.915, 0.913, 0.610}, {20, 0.991, 0.972, 0.972, 0.882}}) {
    CAPTURE(e.share);
    const std::size_t tokens = vocab * e.share / 100;
    const std::size_t some_clusters = clusters * e.share / 100;
    std::ranges::fill(mean, 0.0);
    std::ranges::fill(mean_of_clusters, 0.0);
    double routed = 0.0;
    double routed_clusters = 0.0;
    double by_another = 0.0;
    std::vector<std::size_t> best_before;  // tokens of the place before
    all.each([&](std::span<const float> p, auto&&...) {
      const std::vector<double> law(p.begin(), p.end());
      for (const std::size_t t : best_before) { by_another += law[t] / (all.count() - 1.0); }
      best_before = best_tokens(law, tokens);
      const std::vector<double> of_clusters = masses(p);
      for (const std::size_t t : best_before) { routed += law[t] / all.count(); }
      routed_clusters += largest(of_clusters, some_clusters) / all.count();
      std::ranges::transform(mean, law, mean.begin(),
                             [&](double m, double x) { return m + x / all.count(); });
      std::ranges::transform(mean_of_clusters, of_clusters, mean_of_clusters.begin(),
                             [&](double m, double x) { return m + x / all.count(); });
    });
    const double fixed = largest(mean, tokens);
    const double fixed_clusters = largest(mean_of_clusters, some_clusters);
    MESSAGE("tokens: " << routed << " against " << fixed << "; clusters: " << routed_clusters
                       << " against " << fixed_clusters);
    const auto is = [](double x, double wanted) { return std::abs(x - wanted) < 0.005; };
    CHECK(is(routed, e.routed));
    CHECK(is(fixed, e.fixed));
    CHECK(is(routed_clusters, e.routed_clusters));
    CHECK(is(fixed_clusters, e.fixed_clusters));
    // The negative control: what is best for another context is no better than a static choice.
    CHECK(by_another < fixed);
  }
}

TEST_CASE("shortlists of the shipped router and lists stay within the bounds at every place") {
  const places& all = papers::all_places();
  const vocab_layout layout = load_layout(models / "paper" / "layout.safetensors", all.head());
  const auto weights =
      router::weights::load(models / "paper" / "router.safetensors", layout, all.head());
  selector::clustered routed{layout, weights.view(), budget::fixed{layout.clusters() / 8}};
  selector::frequency listed{load_layout(models / "frequency.safetensors", all.head()),
                             all.vocab() / 8};
  executor::host host;
  const auto check = [&](auto& selector) {
    selecting choosing{selector, host, 1};
    std::vector<row_range> ranges(static_cast<std::size_t>(selector.max_ranges()));
    std::vector<token> support;
    papers::support_bounds mean{};
    all.each([&](std::span<const float> p, std::span<const float> q, const float* context) {
      row_range* const to = ranges.data();
      std::int32_t count = 0;
      const token read = 0;  // neither looks at it
      choosing.select({.size = 1, .depth = 0, .tokens = &read, .states = &context},
                      {.ranges = &to, .counts = &count});
      const shortlist list = selector.layout().list(ranges.data(), count);
      support.clear();
      list.for_each_in(0, list.size, [&](std::int32_t, token t) { support.push_back(t); });
      const papers::support_bounds b = papers::bounds_of(p, q, std::span<const token>(support));
      CHECK(b.lower <= b.acceptance + 1e-6);
      CHECK(b.acceptance <= b.upper + 1e-6);
      mean.lower += b.lower / all.count();
      mean.acceptance += b.acceptance / all.count();
      mean.upper += b.upper / all.count();
    });
    return mean;
  };
  const auto is = [](const papers::support_bounds& found, double accepted, double lower,
                     double upper) {
    CHECK(std::abs(found.acceptance - accepted) < 0.005);
    CHECK(std::abs(found.lower - lower) < 0.005);
    CHECK(std::abs(found.upper - upper) < 0.005);
    return found.upper - found.lower;
  };
  // The bounds say something: on average they are closer than what a static list loses.
  const double slack_of_routed = is(check(routed), 0.676, 0.661, 0.723);
  const double slack_of_list = is(check(listed), 0.649, 0.625, 0.712);
  CHECK(slack_of_routed < slack_of_list);
  CHECK(slack_of_routed < 0.1);
}

}  // namespace
}  // namespace hunch::test
