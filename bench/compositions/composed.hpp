// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <generate/costs.hpp>
#include <generate/measure.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

namespace bench {

using prompt_list = std::vector<std::vector<hunch::token>>;

/// A composition as suites run it, and plain decoding by the same target and rule. Their decoders
/// are behind whole runs, so that those of all suites are compiled once, and what is timed is what
/// `generate` runs.
class composed {
 public:
  /// Of the largest draft of all compositions.
  using counters = hunch::statistics<64>;
  using on_step = std::function<void(const hunch::step_summary&)>;

  virtual ~composed() = default;

  /// Levels that a draft can have, with which a meter is made.
  virtual std::int32_t levels() const = 0;

  /// See `generate::calibrate`.
  virtual generate::costs calibrate(hunch::length::meter& meter, const prompt_list& prompts,
                                    const hunch::generation_options& options,
                                    std::int32_t batch) = 0;
  /// See `generate::warm_up`.
  virtual void warm_up(hunch::length::meter& meter, const prompt_list& prompts,
                       const hunch::generation_options& options, std::int32_t batch) = 0;

  virtual generate::run run_plain(const prompt_list& prompts,
                                  const hunch::generation_options& options, std::int32_t batch) = 0;
  /// Drafts as long as a meter lets them be.
  virtual generate::run run_metered(hunch::length::meter& meter, const prompt_list& prompts,
                                    const hunch::generation_options& options,
                                    std::int32_t batch) = 0;
  /// Drafts as long as they can be: texts and counts depend on no clock.
  virtual generate::run run_whole(const prompt_list& prompts,
                                  const hunch::generation_options& options, std::int32_t batch,
                                  const on_step& seen) = 0;

  /// Of all runs with drafts since the last `calibrate` or `warm_up`.
  virtual counters stats() const = 0;
};

}  // namespace bench
