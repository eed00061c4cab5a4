// SPDX-License-Identifier: Apache-2.0
#include "evaluate/canvases.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/arguments.hpp>
#include <generate/fastest.hpp>
#include <generate/measure.hpp>
#include <generate/presets.hpp>
#include <hunch/hunch.hpp>

#include "filled_canvas.hpp"
#include "prompts.hpp"

namespace bench::evaluate {
namespace {

using namespace hunch;

constexpr std::int32_t most = generate::max_draft_length;

class canvas_presets {
 public:
  canvas_presets(report& out, const std::filesystem::path& models,
                 const std::vector<category>& categories, const extent& much)
      : out_(out),
        models_(models),
        categories_(categories),
        much_(much),
        model_(engine::masked_model::load(models / "masked", options())) {
    // The categories' prompts are tokens of the target's.
    tokenizer_for(models / "target", models / "masked", model_.shape().model);
  }

  void measure(const generate::preset& preset) {
    const generate::arguments a = generate::parse({"--preset", preset.name});
    if (a.method != generate::method_kind::diffusion) { return; }
    if (a.draft.empty()) {
      return measure(preset.name, hunch::diffusion::self_speculation<most>{.spread = a.spread});
    }
    auto head = engine::canvas_head::load(a.draft, models_ / "masked", model_, options());
    measure(preset.name, hunch::diffusion::drafted_by<most>(head, length::fixed{}, a.spread));
  }

 private:
  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    return o;
  }

  template <class Drafts>
  void measure(const std::string& name, Drafts drafts) {
    hunch::diffusion::decoder d{model_, hunch::diffusion::order::confidence{},
                                sampler::pipeline<sampler::temperature>{},
                                hunch::diffusion::verifier::stepwise_exact{}, std::move(drafts)};
    for (const int t : {0, 1}) {
      generation_options request;
      request.max_new_tokens = much_.new_tokens;
      request.temperature = static_cast<float>(t);
      scores all(name, t, categories_, most, much_.prompts);
      for (std::size_t c = 0; c < categories_.size(); ++c) {
        for (std::size_t p = 0; p < much_.prompts; ++p) {
          request.seed = p + 1;
          count(d, all, c, p, request);
        }
        time(d, all, c, request);
      }
      all.add_rows(out_, kind::canvas, true);
    }
  }

  /// As many drafts as there can be.
  template <class Decoder>
  void count(Decoder& d, scores& all, std::size_t c, std::size_t p,
             const generation_options& request) {
    request_metrics drafts(most);
    d.draft_length(most);
    d.reset_stats();
    const filled_canvas filled = fill_canvas(d, categories_[c].prompts[p], request, block(), [&] {
      const auto round = d.stats();
      drafts.observe(static_cast<std::int32_t>(generate::drafted_levels(round)), round.drafted,
                     static_cast<std::int32_t>(round.accepted));
      d.reset_stats();
    });
    all.wrote(out_, c, p, filled.answer, drafts);
  }

  /// As many as `generate` chooses at the beginning of the category's first text.
  template <class Decoder>
  void time(Decoder& d, scores& all, std::size_t c, generation_options request) {
    const prompt_list& prompts = categories_[c].prompts;
    const auto filled = [&](std::size_t p, std::int32_t n, const generation_options& asked) {
      d.draft_length(n);
      return fill_canvas(d, prompts[p], asked, block());
    };
    generation_options beginning = request;
    beginning.max_new_tokens = std::min(request.max_new_tokens, generate::tokens_of_a_try);
    const std::int32_t chosen = generate::fastest_number(
        most, [&](std::int32_t n) { return filled(0, n, beginning).rate(); });
    for (int round = 0; round < much_.rounds; ++round) {
      for (std::size_t p = 0; p < much_.prompts; ++p) {
        request.seed = 100 + static_cast<std::uint64_t>(round) * much_.prompts + p;
        const auto runs = run_pair((static_cast<std::size_t>(round) + p) % 2 == 0,
                                   [&] { return filled(p, 0, request); },
                                   [&] { return filled(p, chosen, request); });
        all.timed(c, p, runs.ratio(), runs.fast.unmaskings == runs.plain.unmaskings);
      }
    }
  }

  std::int32_t block() const {
    const std::int32_t own = model_.shape().block_length;
    return own > 0 ? own : hunch::diffusion::canvas_options{}.block_length;
  }

  report& out_;
  std::filesystem::path models_;
  const std::vector<category>& categories_;
  extent much_;
  engine::masked_model model_;
};

}  // namespace

void measure_canvases(report& out, const std::filesystem::path& models,
                      const std::vector<category>& categories, const extent& much) {
  canvas_presets all(out, models, categories, much);
  for (const generate::preset& preset : generate::presets()) { all.measure(preset); }
}

}  // namespace bench::evaluate
