// SPDX-License-Identifier: Apache-2.0

// What DynaSpec's argument rests on, on the laws of the shipped target and EAGLE head along
// held-out text. docs/papers/dynaspec.md has the sentences.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <engine/early_contexts.hpp>
#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>
#include <prompts.hpp>
#include <vocab/forced_text.hpp>

#include "support.hpp"

namespace hunch::test {
namespace {

const std::filesystem::path models = HUNCH_TEST_MODELS;

/// Laws at places of held-out text, of two domains.
class places {
 public:
  places() {
    engine::eagle_model head =
        engine::eagle_model::load(models / "eagle", models / "target", target_, options());
    engine::early_contexts early(head);
    const engine::tokenizer text(models / "target");
    for (const char* domain : {"java.txt", "man_fr.txt"}) {
      const auto tokens = bench::tokens_of(text, models / "heldout" / domain);
      texts_.emplace_back(target_, early, std::span(tokens).subspan(4096, prefix + roots + 1),
                          prefix, roots, 1);
    }
  }

  made_for head() const { return target_.made_for(); }
  std::int32_t vocab() const { return target_.vocab_size(); }

  /// use(p, q, what a router reads), [vocab] each.
  template <class Use>
  void each(const Use& use) const {
    for (const bench::vocab::forced_text& text : texts_) {
      for (int root = 0; root < roots; ++root) {
        use(text.target(root, 0), text.draft(root, 0), text.context(root, 0));
      }
    }
  }
  double count() const { return static_cast<double>(texts_.size()) * roots; }

 private:
  static constexpr int prefix = 48;
  static constexpr int roots = 64;

  static engine::model_options options() {
    engine::model_options out;
    out.keep_features = true;
    return out;
  }

  engine::model target_ = engine::model::load(models / "target", options());
  std::vector<bench::vocab::forced_text> texts_;
};

/// The sum of the `size` largest numbers.
double largest(std::vector<double> of, std::size_t size) {
  std::ranges::nth_element(of, of.begin() + static_cast<std::ptrdiff_t>(size), std::greater<>());
  return std::accumulate(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(size), 0.0);
}

TEST_CASE("on the laws of models the best support for each context keeps more than a static one") {
  const places all;
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
  for (const std::size_t share : {5u, 20u}) {
    CAPTURE(share);
    const std::size_t tokens = vocab * share / 100;
    const std::size_t some_clusters = clusters * share / 100;
    std::ranges::fill(mean, 0.0);
    std::ranges::fill(mean_of_clusters, 0.0);
    double routed = 0.0;
    double routed_clusters = 0.0;
    all.each([&](std::span<const float> p, auto&&...) {
      const std::vector<double> law(p.begin(), p.end());
      const std::vector<double> of_clusters = masses(p);
      routed += largest(law, tokens) / all.count();
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
    CHECK(routed >= fixed);
    CHECK(routed_clusters > fixed_clusters);
    CHECK(routed >= routed_clusters);  // clusters are one way to choose tokens
  }
}

TEST_CASE("shortlists of the shipped router and lists stay within the bounds at every place") {
  const places all;
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
    double slack = 0.0;
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
      slack += (b.upper - b.lower) / all.count();
    });
    return slack;
  };
  // The bounds say something: on average they are closer than what a static list loses.
  const double slack_of_routed = check(routed);
  const double slack_of_list = check(listed);
  MESSAGE("between the bounds: " << slack_of_routed << " routed, " << slack_of_list << " listed");
  CHECK(slack_of_routed < slack_of_list);
  CHECK(slack_of_routed < 0.1);
}

}  // namespace
}  // namespace hunch::test
