// SPDX-License-Identifier: Apache-2.0
#include "generate/diffusion.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <command_line/files.hpp>
#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/hunch.hpp>
#include <nlohmann/json.hpp>

#include "generate/canvas_view.hpp"
#include "generate/fastest.hpp"
#include "generate/measure.hpp"
#include "generate/median.hpp"
#include "generate/ranking.hpp"
#include "generate/report.hpp"
#include "generate/session.hpp"
#include "generate/terminal.hpp"

namespace generate {
namespace {

using namespace hunch;

using canvas_sampler =
    sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

/// What one way of filling a canvas took.
struct canvas_run {
  std::vector<token> answer;
  std::vector<diffusion::unmasking> unmaskings;
  std::vector<double> rates;  ///< tokens per second, of each round of runs
  std::int64_t passes = 0;
  std::int64_t canvases = 0;
  double accepted = 0.0;  ///< share of the drafts

  double rate() const { return median(rates); }
};

engine::model_options options(const arguments& a) {
  engine::model_options o;
  o.threads = a.threads > 0 ? a.threads : default_threads();
  return o;
}

/// \tparam Drafts where drafts come from: a `diffusion::DraftPolicy`.
template <class Drafts>
class diffusion_program {
 public:
  diffusion_program(const arguments& a, engine::masked_model& model, Drafts drafts)
      : args_(a),
        model_(model),
        text_(tokenizer_of_masked(a, model.shape().model)),
        terminal_(a.color),
        decoder_{model, diffusion::order::confidence{}, canvas_sampler{},
                 diffusion::verifier::stepwise_exact{}, std::move(drafts)} {
    prompt_ = text_.encode(a.prompt);
    request_ = request_of(a, text_.eos());
    const std::int32_t own = model_.shape().block_length;
    canvas_.block_length = a.block_length.value_or(own > 0 ? own : canvas_.block_length);
    check_length(prompt_.size(), a, model_.max_positions());
  }

  void run() {
    const bool speculates = args_.method == method_kind::diffusion;
    announce(args_);
    const std::int32_t drafts = !speculates          ? 0
                                : args_.draft_length ? *args_.draft_length
                                                     : fastest();
    terminal_.legend();
    std::fwrite(args_.prompt.data(), 1, args_.prompt.size(), stdout);
    command_line::flush_output();
    canvas_run shown;
    fill(request_, drafts, shown, true);
    canvas_run stepwise, speculative;
    for (std::int32_t round = 0; round < args_.rounds; ++round) {
      fill(request_, 0, stepwise, false);
      if (speculates) { fill(request_, drafts, speculative, false); }
    }
    terminal_.finish();
    report(shown, stepwise, drafts, speculates ? &speculative : nullptr);
  }

 private:
  /// At the beginning of this text. What is written does not depend on it.
  std::int32_t fastest() {
    generation_options beginning = request_;
    beginning.max_new_tokens = std::min(beginning.max_new_tokens, tokens_of_a_try);
    return fastest_number(max_draft_length, [&](std::int32_t drafts) {
      canvas_run one;
      fill(beginning, drafts, one, false);
      return one.rate();
    });
  }

  void fill(const generation_options& request, std::int32_t drafts, canvas_run& out, bool visible) {
    decoder_.draft_length(drafts);
    decoder_.reset_stats();
    out.unmaskings.clear();
    canvas_view view(text_, terminal_, model_.mask_token());
    std::vector<origin> origins(static_cast<std::size_t>(args_.max_new_tokens));
    const auto start = std::chrono::steady_clock::now();
    decoder_.add(prompt_, request, canvas_);
    while (decoder_.running() > 0) {
      for (const diffusion::emission& e : decoder_.step()) {
        for (std::size_t i = 0; i < e.unmaskings.size(); ++i) {
          const auto at = static_cast<std::size_t>(e.unmaskings[i].position) - prompt_.size();
          origins[at] = e.origins[i];
        }
        out.unmaskings.insert(out.unmaskings.end(), e.unmaskings.begin(), e.unmaskings.end());
        if (visible) { view.show(e.answer, origins); }
        if (e.finish == finish_reason::none) { continue; }
        if (e.finish == finish_reason::error) {
          throw std::runtime_error(args_.model + ": the logits of a position are not numbers");
        }
        out.answer.assign(e.answer.begin(), e.answer.end());
      }
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    out.rates.push_back(static_cast<double>(out.unmaskings.size()) / passed.count());
    out.passes = decoder_.stats().target_passes;
    out.canvases = decoder_.stats().target_rows;
    out.accepted = decoder_.stats().draft_acceptance_rate();
  }

  void report(const canvas_run& shown, const canvas_run& stepwise, std::int32_t drafts,
              const canvas_run* speculative) const {
    const auto per_pass = [](const canvas_run& r) {
      return static_cast<double>(r.unmaskings.size()) / static_cast<double>(r.passes);
    };
    const double repeated = repeated_4grams(shown.answer);
    std::printf("\n%-34s %12s", "", "stepwise");
    if (speculative != nullptr) {
      std::printf(" %16s", args_.draft.empty() ? "self-speculative" : "with a head");
    }
    const auto row = [&](const char* name, const char* format, const auto& of) {
      std::printf("\n%-34s ", name);
      std::printf(format, 12, of(stepwise));
      if (speculative == nullptr) { return; }
      std::printf(" ");
      std::printf(format, 16, of(*speculative));
    };
    row("tokens per second", "%*.1f", [](const canvas_run& r) { return r.rate(); });
    row("passes of the model", "%*lld",
        [](const canvas_run& r) { return static_cast<long long>(r.passes); });
    row("canvases in them", "%*lld",
        [](const canvas_run& r) { return static_cast<long long>(r.canvases); });
    row("tokens per pass", "%*.2f", per_pass);
    std::printf("\n");
    nlohmann::ordered_json j;
    std::string answer;
    for (const token t : shown.answer) { answer += text_.bytes(t); }
    j["preset"] =
        args_.preset.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(args_.preset);
    j["composition"] = composition(args_);
    j["text"] = answer;
    j["tokens"] = shown.answer.size();
    j["stepwise"] = {{"tokens_per_second", stepwise.rate()}, {"passes", stepwise.passes}};
    if (speculative != nullptr) {
      const bool identical = speculative->unmaskings == stepwise.unmaskings;
      std::printf("%-34s %12s %15.1f%%\n", "drafts accepted", "", 100.0 * speculative->accepted);
      std::printf("%-34s %12s %16s\n", "positions and tokens identical", "",
                  identical ? "yes" : "NO");
      j["draft_length"] = std::to_string(drafts);
      j["diffusion"] = {{"tokens_per_second", speculative->rate()},
                        {"passes", speculative->passes},
                        {"canvases", speculative->canvases},
                        {"tokens_per_pass", per_pass(*speculative)},
                        {"draft_acceptance_rate", speculative->accepted},
                        {"identical_to_stepwise", identical}};
    }
    std::printf("%-34s %11.1f%%\n", "repeated 4-grams", 100.0 * repeated);
    if (speculative != nullptr && args_.measures_length()) {
      std::printf(
          "\ncanvases with drafts, the fastest number; to have it again:\n"
          "--draft-length %d\n",
          static_cast<int>(drafts));
    }
    j["repetition_4gram"] = repeated;
    if (!args_.json.empty()) { write_json(j, args_.json); }
  }

  arguments args_;
  engine::masked_model& model_;
  engine::tokenizer text_;
  terminal terminal_;
  diffusion::decoder<engine::masked_model&, diffusion::order::confidence, canvas_sampler,
                     diffusion::verifier::stepwise_exact, Drafts>
      decoder_;
  std::vector<token> prompt_;
  generation_options request_;
  diffusion::canvas_options canvas_;
};

}  // namespace

void run_diffusion(const arguments& a) {
  auto model = engine::masked_model::load(a.model, options(a));
  if (a.draft.empty()) {
    diffusion_program(a, model, diffusion::self_speculation<max_draft_length>{}).run();
    return;
  }
  auto head = engine::canvas_head::load(a.draft, a.model, model, options(a));
  diffusion_program(a, model, diffusion::drafted_by<max_draft_length>(head)).run();
}

}  // namespace generate
