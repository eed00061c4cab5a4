// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/model.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/length/planner.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>

#include "generate/session.hpp"

/// \file
/// The program with models and loops that live on an executor.

namespace generate {

/// Runs `batch` requests to their ends, like `run_requests`, in a loop that does not wait for the
/// host. `ended()` says whether the executor has nothing under way; it throws its errors.
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
  decoder.run();
  while (decoder.running() > 0) {
    const bool stands = ended();
    decoder.poll([&](const hunch::ring_entry& e) {
      if (e.finish == hunch::finish_reason::error) {
        throw std::runtime_error(std::string("a request failed: ") + to_string(e.status));
      }
      const auto request = static_cast<std::size_t>(e.id - first);
      out.tokens[request].push_back(e.t);
      on_token(request, e.t, e.origin);
      ++out.timed;
    });
    if (stands && decoder.running() > 0) { decoder.run(); }
  }
  out.time = seconds(std::chrono::steady_clock::now() - start).count();
  return out;
}

/// \tparam Platform says where: `executor`, `multiply`, `ended(executor)` as in `run_resident`, and
///         `with_policies(args, use)`, which calls use(sampler, verifier, the verifier of plain
///         decoding) with what is asked for.
template <class Platform>
class resident_program {
  using executor = typename Platform::executor;
  using model = engine::device_model<executor, typename Platform::multiply>;

 public:
  resident_program(const arguments& a, executor where)
      : args_(a),
        executor_(std::move(where)),
        shape_(engine::read_config(std::filesystem::path(a.model) / "config.json")),
        session_(args_, shape_, shape_.context),
        target_(shape_, engine::checkpoint::open(a.model), sizes(max_rows()), executor_) {}

  void run() {
    using namespace hunch;
    const arguments& a = args_;
    if (a.decodes_plainly()) {
      announce(a);
      return Platform::with_policies(a, [&](auto sampler, auto, auto of_plain) {
        auto plain = decoder_of(drafter::none{}, everything(), sampler, of_plain, 1);
        warm_up(plain);
        session_.begin_text();
        session_.report_plain(run_on(plain, session_.request, session_.stream()));
      });
    }
    if (is_eagle(a.draft)) {
      throw usage_error("--draft: " + a.draft +
                        " is an EAGLE head, which --device cuda has no model for: use --device "
                        "host");
    }
    model draft = model::load(a.draft, sizes(0), executor_);
    session_.check_draft(draft.shape());
    const selector::frequency<> shortlist = session_.fixed_shortlist(draft.made_for());
    draft.set_head_layout(shortlist.layout());
    announce(a);
    Platform::with_policies(a, [&](auto sampler, auto verifier, auto of_plain) {
      const auto without_drafts = [&] {
        return decoder_of(drafter::none{}, everything(), sampler, of_plain, 1);
      };
      const auto speculative = [&](std::int32_t length) {
        return decoder_of(drafter::autoregressive{draft, tree::chain<max_draft_length>{}},
                          shortlist, sampler, verifier, length);
      };
      auto plain = without_drafts();
      const double one = step_seconds(plain);
      // What a drafted token costs, verification included, over a step of plain decoding.
      double drafted = 0.0;
      std::int32_t length = 4;
      {
        auto trial = speculative(length);
        // A clock may say that it costs less than nothing.
        drafted = std::max((step_seconds(trial) / one - 1.0) / length, 0.0);
        const double alpha = trial.stats().acceptance_probability();
        length =
            a.draft_length.value_or(planner::best_draft_length(alpha, drafted, max_draft_length));
      }
      const auto report = [&](auto decoder) {
        static_assert(decltype(decoder)::lossless);
        warm_up(decoder);
        session_.begin_text();
        const comparison both = compare(
            [&](const auto& options, auto&& on_token) { return run_on(plain, options, on_token); },
            [&](const auto& options, auto&& on_token) {
              return run_on(decoder, options, on_token);
            },
            session_.request, a.batch, a.rounds, session_.stream());
        const auto stats = decoder.stats();
        const double alpha = stats.acceptance_probability();
        session_.report_both(both, stats, planner::walltime_gain(alpha, length, drafted),
                             std::to_string(length));
      };
      // What a loop does in a step is fixed when it is recorded: one that drafts always does.
      if (length == 0) {
        report(without_drafts());
      } else {
        report(speculative(length));
      }
    });
  }

 private:
  /// Prompt tokens of a pass, whether there are any: few, for every pass has room for so many.
  static constexpr std::int32_t chunk = 64;

  std::int32_t max_rows() const { return chunk + args_.batch * (max_draft_length + 1); }

  engine::device_options sizes(std::int32_t outputs) const {
    return {.max_batch = args_.batch,
            .max_length = session_.length(),
            .max_rows = max_rows(),
            .max_staged = chunk + max_draft_length + 1,
            .max_outputs = outputs};
  }

  hunch::selector::frequency<> everything() const {
    return {hunch::vocab_layout::identity(shape_.vocab_size), shape_.vocab_size};
  }

  template <class D, class S, class V>
  auto decoder_of(D drafter, hunch::selector::frequency<> selector, S sampler, V verifier,
                  std::int32_t length) {
    const hunch::resident_options options{.max_batch = args_.batch,
                                          .max_length = session_.length(),
                                          .chunk = chunk,
                                          .draft_length = length,
                                          .ring = args_.max_new_tokens + max_draft_length + 1};
    return hunch::resident_decoder<model&, D, hunch::selector::frequency<>, S, V,
                                   hunch::random_source<>, executor>(
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
};

}  // namespace generate
