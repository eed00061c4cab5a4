// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

namespace generate {

/// What a meter expects of the steps of a run: each at the prices that were known before it, by
/// what it did, not by what it took.
class forecast {
 public:
  /// Of a step, before `meter` learns it. Steps that read prompts are not counted.
  void add(const hunch::length::meter& meter, const hunch::step_summary& s) {
    if (s.sequences < 1 || s.prompt_rows > 0) { return; }
    const double tokens = static_cast<double>(s.emitted) / s.sequences;
    plain_seconds_ += tokens * meter.plain_seconds(s.sequences);
    seconds_ += meter.expected_seconds(s);
  }

  /// The speed-up over plain decoding; 1 before anything was added.
  double gain() const { return seconds_ > 0.0 ? plain_seconds_ / seconds_ : 1.0; }

 private:
  double plain_seconds_ = 0.0;  ///< that plain decoding would take for the same tokens
  double seconds_ = 0.0;
};

}  // namespace generate
