// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

#include "generate/draft_length.hpp"
#include "generate/forecast.hpp"
#include "generate/measure.hpp"

namespace generate {

using prompt_list = std::vector<std::vector<hunch::token>>;

/// A composition that flags ask for, and plain decoding by the same target and rule. Their decoders
/// are behind whole runs, so that what a program does with them is compiled once: what is timed is
/// what `generate` runs.
class composed {
 public:
  /// Of the largest draft of all compositions.
  using counters = hunch::statistics<64>;
  using on_step = std::function<void(const hunch::step_summary&)>;
  using on_token = std::function<void(std::size_t, hunch::token, hunch::origin)>;

  virtual ~composed() = default;

  /// Levels that a draft can have, with which a meter is made.
  virtual std::int32_t levels() const = 0;

  /// See `generate::calibrate`.
  virtual void calibrate(hunch::length::meter& meter, const prompt_list& prompts,
                         const hunch::generation_options& options, std::int32_t batch,
                         std::int32_t longest) = 0;
  /// See `generate::warm_up`.
  virtual void warm_up(hunch::length::meter& meter, const prompt_list& prompts,
                       const hunch::generation_options& options, std::int32_t batch) = 0;

  virtual run run_plain(const prompt_list& prompts, const hunch::generation_options& options,
                        std::int32_t batch, const on_token& seen = ignore) = 0;
  /// Drafts as long as a meter lets them be. `expected` takes what it expects of each step.
  virtual run run_metered(hunch::length::meter& meter, const prompt_list& prompts,
                          const hunch::generation_options& options, std::int32_t batch,
                          forecast& expected, const on_token& seen = ignore) = 0;
  /// Drafts of so many levels, or of `repeated` lengths; a meter only learns.
  virtual run run_fixed(std::int32_t length, hunch::length::meter& meter,
                        const prompt_list& prompts, const hunch::generation_options& options,
                        std::int32_t batch, forecast& expected, const on_token& seen = ignore,
                        const draft_lengths& repeated = {}) = 0;
  /// Drafts as long as they can be: texts and counts depend on no clock.
  virtual run run_whole(const prompt_list& prompts, const hunch::generation_options& options,
                        std::int32_t batch, const on_step& seen) = 0;

  /// Of all runs with drafts since the last `calibrate` or `warm_up`.
  virtual counters stats() const = 0;

 private:
  static void ignore(std::size_t, hunch::token, hunch::origin) {}
};

/// The runs of two decoders.
/// \tparam Speculative has a drafter whose length policy is a `chosen_length` of `length`.
template <class Plain, class Speculative>
class composed_of final : public composed {
 public:
  /// All outlive this.
  composed_of(Plain& plain, Speculative& speculative, any_length& length)
      : plain_(plain), speculative_(speculative), length_(length) {}

  std::int32_t levels() const override { return levels_of<Speculative>; }

  void calibrate(hunch::length::meter& meter, const prompt_list& prompts,
                 const hunch::generation_options& options, std::int32_t batch,
                 std::int32_t longest) override {
    length_ = hunch::length::fixed{};
    generate::calibrate(meter, speculative_, prompts, options, batch, longest);
  }
  void warm_up(hunch::length::meter& meter, const prompt_list& prompts,
               const hunch::generation_options& options, std::int32_t batch) override {
    length_ = hunch::length::metered{meter};
    generate::warm_up(meter, speculative_, prompts, options, batch);
    length_ = hunch::length::fixed{};
  }

  run run_plain(const prompt_list& prompts, const hunch::generation_options& options,
                std::int32_t batch, const on_token& seen) override {
    return run_requests(
        plain_, prompts, options, batch, [](auto&) {}, seen);
  }
  run run_metered(hunch::length::meter& meter, const prompt_list& prompts,
                  const hunch::generation_options& options, std::int32_t batch, forecast& expected,
                  const on_token& seen) override {
    length_ = hunch::length::metered{meter};
    run out = generate::run_metered(meter, speculative_, prompts, options, batch, seen, expected);
    length_ = hunch::length::fixed{};  // the meter may end before this
    return out;
  }
  run run_fixed(std::int32_t length, hunch::length::meter& meter, const prompt_list& prompts,
                const hunch::generation_options& options, std::int32_t batch, forecast& expected,
                const on_token& seen, const draft_lengths& repeated) override {
    speculative_.draft_length(length);
    return run_learning(meter, speculative_, prompts, options, batch, seen, expected, repeated);
  }
  run run_whole(const prompt_list& prompts, const hunch::generation_options& options,
                std::int32_t batch, const on_step& seen) override {
    speculative_.draft_length(levels());
    return run_requests(
        speculative_, prompts, options, batch,
        [&](const auto& decoder) { seen(decoder.last_step()); }, [](auto&&...) {});
  }

  counters stats() const override {
    counters all;
    all += speculative_.stats();
    return all;
  }

 private:
  Plain& plain_;
  Speculative& speculative_;
  any_length& length_;
};

}  // namespace generate
