// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <engine/early_contexts.hpp>
#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/tools/made_for.hpp>
#include <prompts.hpp>
#include <vocab/forced_text.hpp>

namespace hunch::test::papers {

inline const std::filesystem::path models = HUNCH_TEST_MODELS;

/// The laws of the shipped target and EAGLE head at places of held-out text, of two domains.
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

/// Read once for all tests of a program.
inline const places& all_places() {
  static const places all;
  return all;
}

}  // namespace hunch::test::papers
