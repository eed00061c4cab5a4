// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/model.hpp>
#include <engine/row_batch.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>

/// The shipped EAGLE head, layout and router along held-out text: what of the target's law is
/// accepted from a draft law over the shortlists of a selector.

namespace routed_shortlists_test {
namespace {

using namespace hunch;

const std::filesystem::path models = HUNCH_TEST_MODELS;
constexpr int first_measured = 8;  // positions before it have little context

std::vector<double> softmax(row_view<const float> logits) {
  const float top = *std::max_element(logits.data, logits.data + logits.size);
  std::vector<double> out(static_cast<std::size_t>(logits.size));
  double total = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    total += out[i] = std::exp(static_cast<double>(logits.data[i] - top));
  }
  for (double& x : out) { x /= total; }
  return out;
}

class along_text {
 public:
  along_text()
      : target_(engine::model::load(models / "target", options())),
        eagle_(engine::eagle_model::load(models / "eagle", models / "target", target_, options())) {
  }

  int vocab_size() const { return target_.vocab_size(); }
  made_for head() const { return target_.made_for(); }

  /// The mean of sum min(p, q) over the positions of a text, q over shortlists of `selector`.
  template <class Selector>
  double acceptance(const std::vector<token>& text, Selector& selector) {
    const auto n = static_cast<std::int32_t>(text.size());
    engine::row_batch batch;
    batch.add_chain(0, 0, text);
    const auto evaluated = target_.evaluate(batch.view());
    std::vector<std::vector<double>> p;
    for (int i = 0; i < n; ++i) {
      const auto logits = evaluated.logits(i);
      p.push_back(softmax({logits.data, logits.size}));
    }
    std::vector<std::int32_t> slot(text.size(), 0);
    std::vector<std::int32_t> id(text.size());
    for (int i = 0; i < n; ++i) { id[static_cast<std::size_t>(i)] = i; }
    target_.commit({n, slot.data(), id.data(), 0, nullptr});
    eagle_.set_head_layout(selector.layout());
    const auto hidden = eagle_.forward(batch.view());
    double sum = 0.0;
    std::vector<row_range> ranges(static_cast<std::size_t>(selector.max_ranges()));
    executor::host host;
    selecting chosen{selector, host, 1};
    for (int i = first_measured; i < n; ++i) {
      const float* const state = hidden.context(i);
      row_range* const to = ranges.data();
      std::int32_t count = 0;
      chosen.select({1, 0, &text[static_cast<std::size_t>(i)], &state}, {&to, &count});
      const shortlist list = selector.layout().list(ranges.data(), count);
      std::vector<float> logits(static_cast<std::size_t>(list.size));
      row_view<float> out{logits.data(), list.size};
      eagle_.head(hidden, {1, &i, &list, &out});
      const auto q = softmax({logits.data(), list.size});
      for (std::int32_t k = 0; k < list.size; ++k) {
        const auto t = static_cast<std::size_t>(list.token_at(k));
        sum += std::min(p[static_cast<std::size_t>(i)][t], q[static_cast<std::size_t>(k)]);
      }
    }
    const std::int32_t released = 0;
    target_.commit({0, nullptr, nullptr, 1, &released});
    eagle_.commit({0, nullptr, nullptr, 1, &released});
    return sum / (n - first_measured);
  }

 private:
  static engine::model_options options() {
    engine::model_options out;
    out.keep_features = true;
    return out;
  }

  engine::model target_;
  engine::eagle_model eagle_;
};

std::vector<token> held_out(const engine::tokenizer& text, const char* domain, std::size_t length) {
  std::ifstream in(models / "heldout" / (std::string(domain) + ".txt"), std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  auto out = text.encode(all.substr(all.find('\n', all.size() / 2), 8 * length), true);
  out.resize(std::min(out.size(), length));
  return out;
}

}  // namespace

TEST_CASE("the shipped router beats the static list in every domain") {
  const engine::tokenizer text(models / "target");
  along_text measured;
  const std::int32_t vocab = measured.vocab_size();
  const std::int32_t rows = vocab / 20;
  const vocab_layout layout = load_layout(models / "layout.safetensors", measured.head());
  const auto weights =
      router::weights::load(models / "router.safetensors", layout, measured.head());
  auto ignorant = weights;  // the scores of other clusters, for every context
  std::rotate(ignorant.second.begin(), ignorant.second.begin() + weights.width,
              ignorant.second.end());
  std::rotate(ignorant.second_bias.begin(), ignorant.second_bias.begin() + 1,
              ignorant.second_bias.end());
  const auto budget = budget::per_row{budget::rows{layout.clusters(), rows}};
  selector::full everything{vocab};
  // The list has as many more rows as it has byte pieces in front, which the core has not.
  selector::frequency listed{load_layout(models / "frequency.safetensors", measured.head()),
                             rows + 256};
  selector::clustered routed{layout, weights.view(), budget};
  selector::clustered misled{layout, ignorant.view(), budget};

  double gained = 0.0;
  double whole = 0.0;
  for (const char* domain :
       {"dictionary", "docs", "java", "man", "man_de", "man_fr", "python", "scripture"}) {
    CAPTURE(domain);
    const auto words = held_out(text, domain, 128);
    const double best = measured.acceptance(words, everything);
    const double by_list = measured.acceptance(words, listed);
    const double by_router = measured.acceptance(words, routed);
    CHECK(by_router > by_list);
    CHECK(measured.acceptance(words, misled) < by_list);
    gained += by_router;
    whole += best;
  }
  CHECK(gained > 0.93 * whole);
}

}  // namespace routed_shortlists_test
