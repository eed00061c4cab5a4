// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/length/metered.hpp>
#include <hunch/length/one_of.hpp>

namespace generate {

/// Levels that were drafted: per request, of each step that emitted.
using draft_lengths = std::vector<std::vector<std::int32_t>>;

/// As text that a command line takes: `4,0,3/2,2`.
std::string text_of(const draft_lengths& lengths);

/// Reads that: numbers up to `most`. \throws command_line::usage_error naming the flag.
draft_lengths draft_lengths_of(std::string_view flag, std::string_view text, std::int32_t most);

/// How deep drafts are: as deep as the decoder says, or as deep as pays, by given costs or by those
/// that a meter learns.
using any_length =
    hunch::length::one_of<hunch::length::fixed, hunch::length::cost, hunch::length::metered>;

/// That choice as a policy, to be made when a decoder exists and its costs have been measured, and
/// made anew when anybody likes: each step takes it as it then is.
class chosen_length {
 public:
  static constexpr bool needs_entropy = any_length::needs_entropy;
  static constexpr bool needs_clock = any_length::needs_clock;
  using memory = any_length::memory;

  /// \param choice outlives this.
  chosen_length(const any_length* choice) : choice_(choice), now_(*choice) {}

  void refresh() {
    now_ = *choice_;
    now_.refresh();
  }

  HUNCH_HOST_DEVICE std::int32_t begin(memory& m, std::int32_t max_depth) const {
    return now_.begin(m, max_depth);
  }
  HUNCH_HOST_DEVICE bool continues(memory& m, const hunch::length_evidence& e) const {
    return now_.continues(m, e);
  }
  HUNCH_HOST_DEVICE void observe(memory& m, std::int32_t drafted,
                                 std::int32_t accepted) const noexcept {
    now_.observe(m, drafted, accepted);
  }

 private:
  const any_length* choice_;
  any_length now_;
};

static_assert(hunch::LengthPolicy<chosen_length>);

}  // namespace generate
