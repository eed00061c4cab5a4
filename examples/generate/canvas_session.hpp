// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <engine/masked_config.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>

#include "generate/arguments.hpp"
#include "generate/canvas_view.hpp"
#include "generate/fastest.hpp"
#include "generate/measure.hpp"
#include "generate/median.hpp"
#include "generate/report.hpp"
#include "generate/session.hpp"
#include "generate/terminal.hpp"

/// \file
/// Text from a masked model, wherever it runs.

namespace generate {

using canvas_sampler = hunch::sampler::pipeline<hunch::sampler::temperature, hunch::sampler::top_k,
                                                hunch::sampler::top_p, hunch::sampler::min_p>;

/// What one way of filling a canvas took.
struct canvas_run {
  std::vector<hunch::token> answer;
  std::vector<hunch::diffusion::unmasking> unmaskings;
  std::vector<double> rates;  ///< tokens per second, of each round of runs
  std::int64_t passes = 0;
  std::int64_t canvases = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;

  double rate() const { return median(rates); }
  /// Share of the drafts.
  double acceptance() const {
    return drafted == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(drafted);
  }
  double tokens_per_pass() const {
    return static_cast<double>(unmaskings.size()) / static_cast<double>(passes);
  }
};

/// Adds the counters of a decoder to those of a run; with `sign` -1 takes them away.
template <class Statistics>
void count(const Statistics& stats, std::int64_t sign, canvas_run& out) {
  out.passes += sign * stats.target_passes;
  out.canvases += sign * stats.target_rows;
  out.drafted += sign * stats.drafted;
  out.accepted += sign * stats.accepted;
}

/// An answer while it is unmasked.
class filling_canvas {
 public:
  /// \param answer  its first position in the canvas. \param view  where it is shown, or nullptr.
  filling_canvas(const hunch::generation_options& request, std::size_t answer, hunch::token mask,
                 canvas_view* view, canvas_run& out)
      : request_(request),
        answer_(answer),
        tokens_(static_cast<std::size_t>(request.max_new_tokens), mask),
        origins_(tokens_.size()),
        view_(view),
        out_(out) {
    out_.unmaskings.clear();
  }

  void unmask(const hunch::diffusion::unmasking& w, hunch::origin from) {
    const std::size_t at = static_cast<std::size_t>(w.position) - answer_;
    tokens_[at] = w.t;
    origins_[at] = from;
    out_.unmaskings.push_back(w);
    changed_ = true;
  }
  void end(hunch::finish_reason finish) { finish_ = finish; }
  hunch::finish_reason finish() const { return finish_; }

  /// Up to the stop token, once it has ended.
  std::span<const hunch::token> answer() const {
    return hunch::diffusion::answer_in(tokens_, 0, request_.stop_tokens, finish_);
  }
  void show() {
    if (view_ != nullptr && std::exchange(changed_, false)) { view_->show(answer(), origins_); }
  }

 private:
  const hunch::generation_options& request_;
  std::size_t answer_;
  std::vector<hunch::token> tokens_;
  std::vector<hunch::origin> origins_;
  hunch::finish_reason finish_ = hunch::finish_reason::none;
  bool changed_ = false;  ///< since it was shown
  canvas_view* view_;
  canvas_run& out_;
};

/// What does not depend on where the model runs: the request, the canvas as it fills in, the
/// report.
class canvas_session {
 public:
  /// Of a model with room for `context` positions. The flags must outlive it.
  canvas_session(const arguments& a, const engine::masked_config& shape, std::int32_t context);

  const hunch::generation_options& request() const { return request_; }
  const std::vector<hunch::token>& prompt() const { return prompt_; }
  const hunch::diffusion::canvas_options& canvas() const { return canvas_; }
  /// Positions of the canvas.
  std::int32_t length() const {
    return static_cast<std::int32_t>(prompt_.size()) + args_.max_new_tokens;
  }
  /// Canvases with drafts that a round may have.
  std::int32_t most_drafts() const {
    return speculates() ? args_.draft_length.value_or(max_draft_length) : 0;
  }

  /// Fills the canvas by one token a pass and, where the flags ask for it, with drafts.
  /// \param filler  `filler.prepare(drafts)` says how many canvases with drafts a round has from
  /// now
  ///        on, and `filler.fill(request, canvas, run)` unmasks one to its end and adds what it
  ///        took to the counters of the run.
  /// \throws std::runtime_error if the logits of a position are not numbers.
  template <class Filler>
  void run(Filler&& filler) {
    announce(args_);
    const std::int32_t drafts = !speculates()        ? 0
                                : args_.draft_length ? *args_.draft_length
                                                     : fastest(filler);
    begin_text();
    canvas_run shown;
    fill(filler, request_, drafts, shown, true);
    canvas_run stepwise, speculative;
    for (std::int32_t round = 0; round < args_.rounds; ++round) {
      fill(filler, request_, 0, stepwise, false);
      if (speculates()) { fill(filler, request_, drafts, speculative, false); }
    }
    terminal_.finish();
    report(shown, stepwise, drafts, speculates() ? &speculative : nullptr);
  }

 private:
  bool speculates() const { return args_.method == method_kind::diffusion; }

  /// At the beginning of this text. What is written does not depend on it.
  template <class Filler>
  std::int32_t fastest(Filler& filler) {
    hunch::generation_options beginning = request_;
    beginning.max_new_tokens = std::min(beginning.max_new_tokens, tokens_of_a_try);
    return fastest_number(max_draft_length, [&](std::int32_t drafts) {
      canvas_run one;
      fill(filler, beginning, drafts, one, false);
      return one.rate();
    });
  }

  template <class Filler>
  void fill(Filler& filler, const hunch::generation_options& request, std::int32_t drafts,
            canvas_run& out, bool visible) {
    canvas_view view(text_, terminal_, mask_);
    filling_canvas canvas(request, prompt_.size(), mask_, visible ? &view : nullptr, out);
    out.passes = out.canvases = out.drafted = out.accepted = 0;
    filler.prepare(drafts);
    const auto start = std::chrono::steady_clock::now();
    filler.fill(request, canvas, out);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (canvas.finish() == hunch::finish_reason::error) {
      throw std::runtime_error(args_.model + ": the logits of a position are not numbers");
    }
    const auto answer = canvas.answer();
    out.answer.assign(answer.begin(), answer.end());
    out.rates.push_back(static_cast<double>(out.unmaskings.size()) / passed.count());
  }

  void begin_text();
  void report(const canvas_run& shown, const canvas_run& stepwise, std::int32_t drafts,
              const canvas_run* speculative) const;

  const arguments& args_;
  hunch::token mask_;
  engine::tokenizer text_;
  terminal terminal_;
  std::vector<hunch::token> prompt_;
  hunch::generation_options request_;
  hunch::diffusion::canvas_options canvas_;
};

}  // namespace generate
