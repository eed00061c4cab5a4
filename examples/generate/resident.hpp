// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/eagle.hpp>
#include <engine/device/early_exit.hpp>
#include <engine/device/int4_multiply.hpp>
#include <engine/device/medusa.hpp>
#include <engine/device/model.hpp>
#include <engine/device/streams.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/planner.hpp>
#include <hunch/selector/any.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tools/made_for.hpp>

#include "generate/ranking.hpp"
#include "generate/resident_loop.hpp"
#include "generate/resident_router.hpp"
#include "generate/session.hpp"
#include "generate/tree_shapes.hpp"

/// \file
/// The program with models and loops that live on an executor.

namespace generate {

/// Runs `batch` requests to their ends, like `run_requests`, as `run_to_end` does.
/// \throws std::runtime_error if a request ends with an error.
template <class Decoder, class Ended, class OnToken>
run run_resident(Decoder& decoder, const std::vector<std::vector<hunch::token>>& prompts,
                 hunch::generation_options options, std::int32_t batch, Ended&& ended,
                 OnToken&& on_token) {
  run out;
  out.tokens.resize(static_cast<std::size_t>(batch));
  hunch::request_id first = 0;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const hunch::request_id id = decoder.add(prompts[i % prompts.size()], options);
    first = i == 0 ? id : first;
    ++options.seed;
  }
  const auto start = std::chrono::steady_clock::now();
  run_to_end(
      decoder, ended,
      [&](const hunch::ring_entry& e) {
        if (e.finish == hunch::finish_reason::error) {
          throw std::runtime_error(std::string("a request failed: ") + to_string(e.status));
        }
        const auto request = static_cast<std::size_t>(e.id - first);
        out.tokens[request].push_back(e.t);
        on_token(request, e.t, e.origin);
        ++out.timed;
      },
      [] {});
  out.time = seconds(std::chrono::steady_clock::now() - start).count();
  return out;
}

/// \tparam Platform says where: `executor`, `multiply`, `ended(executor)` as in `run_to_end`, and
///         `rules`, such as `all_rules`.
template <class Platform>
class resident_program {
  using executor = typename Platform::executor;
  using multiply = typename Platform::multiply;
  using rules = typename Platform::rules;
  using model = engine::device_model<executor, multiply>;
  using copy_in_int4 = engine::device_model<executor, engine::device::int4_multiply<executor>>;
  using any_selector = hunch::selector::any<float, executor>;
  using all_rows = hunch::selector::frequency<>;

 public:
  resident_program(const arguments& a, executor where)
      : args_(resolved(a)),
        executor_(std::move(where)),
        shape_(engine::read_config(std::filesystem::path(a.model) / "config.json")),
        session_(args_, shape_, shape_.context),
        target_(shape_, engine::checkpoint::open(a.model), sizes(max_rows(), streams()),
                executor_) {}

  void run() {
    switch (args_.decodes_plainly() ? drafter_kind::none : args_.drafter) {
      case drafter_kind::none:
        return without_drafter();
      case drafter_kind::model:
        return with_model(model::load(args_.draft, sizes(0), executor_));
      case drafter_kind::int4:
        return with_model(copy_in_int4::load(args_.draft, sizes(0), executor_));
      case drafter_kind::eagle:
        return with_eagle();
      case drafter_kind::early_exit:
        return with_early_exit();
      case drafter_kind::medusa:
        return with_medusa();
      case drafter_kind::streaming:
        return with_streaming();
      case drafter_kind::lookup:
        return with_lookup();
    }
  }

 private:
  /// Prompt tokens of a pass, whether there are any: few, for every pass has room for so many.
  static constexpr std::int32_t chunk = 64;
  /// Of any tree that is drafted here.
  static constexpr std::int32_t max_nodes =
      std::max({chain_shape::max_nodes, dynamic_shape::max_nodes, fixed_shape::max_nodes});

  void without_drafter() {
    announce(args_);
    rules::drawn(args_, [&](auto sampler, auto, auto of_plain) {
      auto plain = decoder_of(hunch::drafter::none{}, everything(), sampler, of_plain, 1);
      warm_up(plain);
      session_.begin_text();
      session_.report_plain(run_on(plain, session_.request, session_.stream()));
    });
  }

  template <class Draft>
  void with_model(Draft draft) {
    session_.check_draft(draft.shape());
    over_trees(draft, draft.made_for());
  }
  void with_eagle() {
    using eagle = engine::device_eagle<executor, multiply>;
    eagle draft = eagle::load(args_.draft, args_.model, target_, sizes(0));
    over_trees(draft, draft.made_for());
  }
  void with_early_exit() {
    auto draft = engine::device_early_exit<executor, multiply>::load(args_.draft, target_);
    over_trees(draft, target_.made_for());
  }
  void with_medusa() {
    using namespace hunch;
    auto draft = engine::device_medusa<executor, multiply>::load(args_.draft, target_);
    const any_selector selector = chosen_selector(draft, target_.made_for());
    if (args_.tree == tree_kind::chain) {
      drawn(selector, heads_chain_shape::max_depth, [&] {
        return drafter::heads{draft, heads_chain_shape{}};
      });
    } else {
      ranked(selector, fixed_shape::max_depth, [&] {
        return drafter::heads{draft, fixed_shape{}};
      });
    }
  }
  void with_streaming() {
    auto draft = engine::device_streams<executor, multiply>::load(args_.draft, target_);
    const any_selector selector = chosen_selector(draft, target_.made_for());
    drawn(selector, heads_chain_shape::max_depth, [&] {
      return hunch::drafter::streaming{draft, heads_chain_shape{}};
    });
  }
  void with_lookup() {
    ranked(everything(), max_draft_length,
           [] { return hunch::drafter::lookup<max_draft_length>{1}; });
  }

  /// Chains and dynamic trees of a model.
  template <class Draft>
  void over_trees(Draft& draft, const hunch::made_for& head) {
    using namespace hunch;
    const any_selector selector = chosen_selector(draft, head);
    if (args_.tree == tree_kind::chain) {
      drawn(selector, chain_shape::max_depth, [&] {
        return drafter::autoregressive{draft, chain_shape{}};
      });
    } else {
      ranked(selector, dynamic_shape::max_depth, [&] {
        return drafter::autoregressive{draft, dynamic_shape{}};
      });
    }
  }

  /// Of a model that drafts with this head; its rows are in that order then. The most frequent
  /// tokens where clusters are asked for and none are its own.
  template <class Draft>
  any_selector chosen_selector(Draft& draft, const hunch::made_for& head) {
    const auto clusters = load_clusters(args_, session_.drafted_by(head), draft.context_width());
    if (!clusters) {
      any_selector fixed(session_.fixed_shortlist(head));
      // The report names what drafts, not what was asked for.
      if (args_.selector == selector_kind::clustered) { args_.selector = selector_kind::frequency; }
      draft.set_head_layout(fixed.layout());
      return fixed;
    }
    router_.emplace(executor_, clusters->router);
    draft.set_head_layout(clusters->layout);
    return any_selector(hunch::selector::clustered{
        clusters->layout, router_->view(), args_.budget.value_or(default_budget(head.vocab_size))});
  }

  /// By every rule that takes drafts with a law, or those without one. make() is a drafter that
  /// drafts `levels` levels at most.
  template <class Selector, class Make>
  void drawn(const Selector& selector, std::int32_t levels, Make&& make) {
    rules::drawn(args_, [&](auto sampler, auto verifier, auto of_plain) {
      both(selector, levels, make, sampler, verifier, of_plain);
    });
  }
  template <class Selector, class Make>
  void ranked(const Selector& selector, std::int32_t levels, Make&& make) {
    rules::ranked(args_, [&](auto sampler, auto verifier, auto of_plain) {
      both(selector, levels, make, sampler, verifier, of_plain);
    });
  }

  template <class Selector, class Make, class S, class V, class P>
  void both(const Selector& selector, std::int32_t levels, Make&& make, S sampler, V verifier,
            P of_plain) {
    using namespace hunch;
    announce(args_);
    const auto speculative = [&](std::int32_t length) {
      return decoder_of(make(), selector, sampler, verifier, length);
    };
    auto plain = decoder_of(drafter::none{}, everything(), sampler, of_plain, 1);
    const double one = step_seconds(plain);
    // What a drafted token costs, verification included, over a step of plain decoding.
    double drafted = 0.0;
    std::int32_t length = std::min(4, levels);
    {
      auto trial = speculative(length);
      // A clock may say that it costs less than nothing.
      drafted = std::max((step_seconds(trial) / one - 1.0) / length, 0.0);
      const double alpha = trial.stats().acceptance_probability();
      length = args_.draft_length.value_or(planner::best_draft_length(alpha, drafted, levels));
    }
    // What a loop does in a step is fixed when it is recorded: one that drafts always does.
    if (length == 0) {
      report_both(plain, decoder_of(drafter::none{}, everything(), sampler, of_plain, 1), length,
                  drafted);
    } else {
      report_both(plain, speculative(length), length, drafted);
    }
  }

  template <class Plain, class Decoder>
  void report_both(Plain& plain, Decoder decoder, std::int32_t length, double drafted) {
    static_assert(Decoder::lossless);
    warm_up(decoder);
    session_.begin_text();
    const comparison compared = compare(
        [&](const auto& options, auto&& on_token) { return run_on(plain, options, on_token); },
        [&](const auto& options, auto&& on_token) { return run_on(decoder, options, on_token); },
        session_.request, args_.batch, args_.rounds, session_.stream());
    const auto stats = decoder.stats();
    const double alpha = stats.acceptance_probability();
    session_.report_both(compared, stats, hunch::planner::walltime_gain(alpha, length, drafted),
                         std::to_string(length));
  }

  /// Of all sequences: as many as the target's, or those of what drafts.
  std::int32_t max_rows() const { return chunk + args_.batch * max_nodes; }

  engine::device_options sizes(std::int32_t outputs, std::int32_t streams = 0) const {
    return {.max_batch = args_.batch,
            .max_length = session_.length(),
            .max_rows = max_rows(),
            .max_staged = chunk + 2 * max_nodes,
            .max_outputs = outputs,
            .keep_features = args_.drafter == drafter_kind::eagle,
            .max_streams = streams};
  }

  /// Beside every row of the target.
  std::int32_t streams() const {
    if (args_.decodes_plainly() || args_.drafter != drafter_kind::streaming) { return 0; }
    return engine::read_stream_config(std::filesystem::path(args_.draft) / "config.json").streams;
  }

  all_rows everything() const {
    return {hunch::vocab_layout::identity(shape_.vocab_size), shape_.vocab_size};
  }

  template <class D, class Selector, class S, class V>
  auto decoder_of(D drafter, Selector selector, S sampler, V verifier, std::int32_t length) {
    const hunch::resident_options options{.max_batch = args_.batch,
                                          .max_length = session_.length(),
                                          .chunk = chunk,
                                          .draft_length = length,
                                          .ring = args_.max_new_tokens + max_nodes};
    return hunch::resident_decoder<model&, D, Selector, S, V, hunch::random_source<>, executor>(
        target_, std::move(drafter), std::move(selector), std::move(sampler), std::move(verifier),
        options, {}, executor_);
  }

  template <class Decoder, class OnToken>
  generate::run run_on(Decoder& decoder, const hunch::generation_options& options,
                       OnToken&& on_token) {
    return run_resident(
        decoder, session_.prompts(), options, args_.batch,
        [this] { return Platform::ended(executor_); }, on_token);
  }

  /// Records what a step is, with as few tokens as possible.
  template <class Decoder>
  void warm_up(Decoder& decoder) {
    hunch::generation_options few = session_.request;
    few.max_new_tokens = 1;
    run_on(decoder, few, [](auto&&...) {});
  }

  /// Seconds of a step in a short run.
  template <class Decoder>
  double step_seconds(Decoder& decoder) {
    warm_up(decoder);
    hunch::generation_options some = session_.request;
    some.max_new_tokens = std::min(some.max_new_tokens, 64);
    some.stop_tokens.clear();
    // The fastest of three runs: whoever else is busy on the machine only ever adds to them.
    double fastest = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
      const std::int64_t before = decoder.stats().target_passes;
      const double time = run_on(decoder, some, [](auto&&...) {}).time;
      const auto steps = static_cast<double>(decoder.stats().target_passes - before);
      fastest = std::min(fastest, time / steps);
    }
    return fastest;
  }

  arguments args_;
  executor executor_;
  engine::config shape_;
  session session_;
  model target_;
  std::optional<resident_router<executor>> router_;
};

}  // namespace generate
