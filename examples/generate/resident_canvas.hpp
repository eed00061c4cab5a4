// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>

#include <engine/checkpoint.hpp>
#include <engine/device/canvas_head.hpp>
#include <engine/device/masked_model.hpp>
#include <engine/masked_config.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/resident_decoder.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/distribution/random.hpp>

#include "generate/canvas_session.hpp"
#include "generate/on_executor.hpp"
#include "generate/run_to_end.hpp"

namespace generate {

/// The program with a masked model and loops that live on an executor.
/// \tparam Platform as of `resident_program`.
template <class Platform>
class resident_canvas_program {
  using executor = typename Platform::executor;
  using multiply = typename Platform::multiply;
  using model = engine::device_masked_model<executor, multiply>;
  using head = engine::device_canvas_head<executor, multiply>;

 public:
  resident_canvas_program(const arguments& a, executor where)
      : args_(a),
        executor_(std::move(where)),
        shape_(engine::read_masked_config(std::filesystem::path(a.model) / "config.json")),
        session_(args_, shape_, shape_.model.context),
        model_(shape_, engine::checkpoint::open(a.model), sizes(), executor_) {}

  void run() {
    using namespace hunch::diffusion;
    if (args_.draft.empty()) {
      return fill_by(self_speculation<max_draft_length>{.spread = args_.spread});
    }
    head drafts = head::load(args_.draft, args_.model, model_, head_sizes());
    fill_by(drafted_by<max_draft_length>(drafts, hunch::length::fixed{}, args_.spread));
  }

 private:
  /// Fills canvases in loops that do not wait for the host. How many drafts a round has is fixed
  /// when it is recorded: each number has a loop of its own.
  template <class Drafts>
  class looped_canvases {
    using decoder = hunch::diffusion::resident_decoder<
        model&, hunch::diffusion::order::confidence, canvas_sampler,
        hunch::diffusion::verifier::stepwise_exact, Drafts, hunch::random_source<>, executor>;

   public:
    looped_canvases(resident_canvas_program& of, Drafts drafts)
        : of_(of), drafts_(std::move(drafts)) {}

    void prepare(std::int32_t drafts) {
      const auto found = loops_.find(drafts);
      now_ = found == loops_.end() ? record(drafts) : &found->second;
    }

    void fill(const hunch::generation_options& request, filling_canvas& canvas, canvas_run& out) {
      count(now_->stats(), -1, out);
      now_->add(of_.session_.prompt(), request, of_.session_.canvas());
      run_to_end(
          *now_, [this] { return Platform::ended(of_.executor_); },
          [&](const hunch::ring_entry& e) {
            if (e.t != hunch::no_token) { canvas.unmask({e.position, e.t}, e.origin); }
            canvas.end(e.finish);
          },
          [&] { canvas.show(); });
      count(now_->stats(), 1, out);
    }

   private:
    /// With as few tokens as possible.
    decoder* record(std::int32_t drafts) {
      const hunch::diffusion::resident_options options{
          .max_batch = 1,
          .max_canvas = of_.session_.length(),
          .max_block = of_.block(),
          .draft_length = drafts,
          .max_bias = 0,
          .max_stop_tokens = 1,
          .ring = of_.args_.max_new_tokens + decoder::max_drafts + 1};
      decoder& made =
          loops_
              .try_emplace(drafts, of_.model_, hunch::diffusion::order::confidence{},
                           canvas_sampler{}, hunch::diffusion::verifier::stepwise_exact{},
                           Drafts(drafts_), options, hunch::random_source<>{}, of_.executor_)
              .first->second;
      hunch::generation_options few = of_.session_.request();
      few.max_new_tokens = 1;
      made.generate(of_.session_.prompt(), few, of_.session_.canvas());
      return &made;
    }

    resident_canvas_program& of_;
    Drafts drafts_;
    std::map<std::int32_t, decoder> loops_;
    decoder* now_ = nullptr;
  };

  template <class Drafts>
  void fill_by(Drafts drafts) {
    session_.run(looped_canvases<Drafts>(*this, std::move(drafts)));
  }

  std::int32_t block() const {
    return std::min(session_.canvas().block_length, args_.max_new_tokens);
  }
  /// Canvases of a round.
  std::int32_t canvases() const { return session_.most_drafts() + 1; }
  /// Positions of a canvas from the beginning of the first block with masks to the last one that a
  /// law is asked for: so many blocks that, without the drafts on it, one mask is left for each
  /// canvas.
  std::int32_t span() const {
    const std::int32_t masks = 2 * session_.most_drafts() + 1;
    const std::int32_t blocks = 1 + (masks + block() - 1) / block();
    return std::min(blocks * block(), session_.length());
  }

  /// The first pass of a request reads its prompt.
  engine::device_canvas_options sizes() const {
    const bool caches = shape_.pattern == engine::masked_config::attention::causal_prefix;
    const auto prompt = static_cast<std::int32_t>(session_.prompt().size());
    return {
        .max_batch = 1,
        .max_length = session_.length(),
        .max_canvases = canvases(),
        .max_rows = caches ? std::max(prompt, span()) + canvases() * span()
                           : canvases() * session_.length(),
        .max_wanted = canvases() * std::min(session_.length(), block() + session_.most_drafts())};
  }
  engine::device_canvas_options head_sizes() const {
    return {.max_batch = 1,
            .max_length = session_.length(),
            .max_canvases = 1,
            .max_rows = span(),
            .max_wanted = block()};
  }

  arguments args_;
  executor executor_;
  engine::masked_config shape_;
  canvas_session session_;
  model model_;
};

template <class Platform>
void canvas_loops<Platform>::run(const arguments& a, typename Platform::executor where) {
  resident_canvas_program<Platform>(a, std::move(where)).run();
}

}  // namespace generate
