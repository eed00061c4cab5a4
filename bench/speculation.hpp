// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/draft_length.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"
#include "prompts.hpp"

/// \file
/// Plain and speculative decoding with the shipped models: one request at a time, and batches.

namespace bench {

/// The speed-up with the planner's draft length at T = 0 and T = 1, for batches of 1 to 32.
inline void measure_speculation(report& out, const std::filesystem::path& models) {
  using namespace hunch;
  constexpr std::int32_t largest = 32;
  constexpr std::int32_t new_tokens = 96;
  constexpr std::int32_t longest_draft = 8;

  engine::model_options options;
  options.threads = generate::default_threads();
  options.max_batch = largest;
  engine::model target = engine::model::load(models / "target", options);
  engine::model draft = engine::model::load(models / "draft", options);
  const engine::tokenizer text(models / "target");
  const auto prompts = domain_prompts(text, models / "heldout");

  const std::int32_t vocab = target.vocab_size();
  selector::frequency frequent{load_layout(models / "frequency.safetensors", target.made_for()),
                               vocab / 6};
  draft.set_head_layout(frequent.layout());

  const sampler::pipeline law{sampler::temperature{}};
  decoder_options sizes;
  sizes.max_batch = largest;
  decoder plain{target, drafter::none{}, selector::full{vocab}, law, verifier::rejection{}, sizes};
  generate::any_length length_of_drafts;
  const generate::chosen_length chosen{&length_of_drafts};
  decoder speculative{target,
                      drafter::autoregressive{draft, tree::chain<longest_draft>{}, chosen},
                      frequent,
                      law,
                      verifier::rejection{},
                      sizes};

  const auto nothing = [](auto&&...) {};
  for (const float temperature : {0.0f, 1.0f}) {
    generation_options request;
    request.max_new_tokens = new_tokens;
    request.temperature = temperature;
    request.seed = 1;
    for (std::int32_t batch = 1; batch <= largest; batch *= 2) {
      // A batch of one takes the prompts in turn, so that every row speaks for all domains.
      const auto each = batch == 1 ? prompts.size() : std::size_t{1};
      double fast = 0.0, slow = 0.0, predicted = 0.0, length = 0.0, repeated = 0.0;
      bool identical = true;
      for (std::size_t i = 0; i < each; ++i) {
        const auto asked = batch == 1 ? std::vector<std::vector<token>>{prompts[i]} : prompts;
        length_of_drafts = {};
        const generate::costs cost =
            generate::calibrate(target, plain, speculative, asked, request, batch);
        length_of_drafts = cost.policy();
        const generate::comparison both = generate::compare(
            [&](const auto& o, auto&& on_token) {
              return generate::run_requests(plain, asked, o, batch, nothing, on_token);
            },
            [&](const auto& o, auto&& on_token) {
              return generate::run_requests(speculative, asked, o, batch, nothing, on_token);
            },
            request, batch, batch <= 4 ? 3 : 1, nothing);
        fast += 1.0 / both.rate;
        slow += 1.0 / both.plain_rate;
        predicted += generate::predicted_gain(cost, speculative.stats());
        length += speculative.stats().mean_acceptance_length();
        repeated += generate::repeated_4grams(both.first.tokens[0]);
        identical = identical && both.identical;
      }
      const auto n = static_cast<double>(each);
      const std::string name = "speculation, T = " + std::to_string(static_cast<int>(temperature)) +
                               ", batch " + std::to_string(batch) + ", ";
      out.add(name + "plain", n / slow, "tok/s");
      out.add(name + "speculative", n / fast, "tok/s");
      out.add(name + "speed-up", slow / fast, "x",
              batch == 1 ? std::optional(at_least(1.3)) : std::nullopt);
      out.add(name + "speed-up predicted", predicted / n, "x");
      out.add(name + "mean acceptance length", length / n, "tokens");
      out.add(name + "repeated 4-grams", repeated / n, "");
      if (temperature == 0.0f) {
        out.add(name + "text identical to plain", identical ? 1.0 : 0.0, "", at_least(1.0));
      }
    }
  }
}

}  // namespace bench
