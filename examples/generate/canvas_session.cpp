// SPDX-License-Identifier: Apache-2.0
#include "generate/canvas_session.hpp"

#include <algorithm>
#include <cstdio>

#include <command_line/files.hpp>
#include <engine/text/utf8.hpp>
#include <nlohmann/json.hpp>

#include "generate/ranking.hpp"
#include "generate/report.hpp"

namespace generate {

using hunch::token;

canvas_session::canvas_session(const arguments& a, const engine::masked_config& shape,
                               std::int32_t context)
    : args_(a), mask_(shape.mask_token), text_(tokenizer_of_masked(a, shape)), terminal_(a.color) {
  prompt_ = text_.encode(a.prompt);
  request_ = request_of(a, text_, shape.model);
  canvas_.block_length =
      a.block_length.value_or(shape.block_length > 0 ? shape.block_length : canvas_.block_length);
  check_length(prompt_.size(), a, context);
  if (std::find(prompt_.begin(), prompt_.end(), mask_) != prompt_.end()) {
    throw usage_error("--prompt: has the mask of " + a.model + " in it, which is to be filled");
  }
}

void canvas_session::begin_text() {
  terminal_.legend();
  std::fwrite(args_.prompt.data(), 1, args_.prompt.size(), stdout);
  command_line::flush_output();
}

void canvas_session::report(const canvas_run& shown, const canvas_run& stepwise,
                            std::int32_t drafts, const canvas_run* speculative) const {
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
  row("tokens per pass", "%*.2f", [](const canvas_run& r) { return r.tokens_per_pass(); });
  std::printf("\n");
  nlohmann::ordered_json j;
  std::string answer;
  for (const token t : shown.answer) { answer += text_.bytes(t); }
  answer = engine::text::well_formed(answer);
  j["preset"] =
      args_.preset.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(args_.preset);
  j["composition"] = composition(args_);
  j["text"] = answer;
  j["tokens"] = shown.answer.size();
  j["ids"] = shown.answer;
  j["stepwise"] = {{"tokens_per_second", stepwise.rate()}, {"passes", stepwise.passes}};
  if (speculative != nullptr) {
    const bool identical = speculative->unmaskings == stepwise.unmaskings;
    const bool lossy = args_.accepted_rank > 0;
    std::printf("%-34s %12s %15.1f%%\n", "drafts accepted", "", 100.0 * speculative->acceptance());
    std::printf("%-34s %12s %16s\n", "positions and tokens identical", "",
                identical ? "yes"
                : lossy   ? "no, as asked"
                          : "NO");
    j["draft_length"] = std::to_string(drafts);
    j["diffusion"] = {{"tokens_per_second", speculative->rate()},
                      {"passes", speculative->passes},
                      {"canvases", speculative->canvases},
                      {"tokens_per_pass", speculative->tokens_per_pass()},
                      {"draft_acceptance_rate", speculative->acceptance()},
                      {"identical_to_stepwise", identical},
                      {"lossless", !lossy}};
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

}  // namespace generate
