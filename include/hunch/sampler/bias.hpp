// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch::sampler {

/// Adds the request's `bias` to the logits of the tokens that it names; -inf bans a token. In a row
/// of 16-bit logits the sum is rounded, see `to_logit`.
struct bias {
  static constexpr bool needs_counts = false;
  static constexpr bool needs_allowed = false;

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE void edit(T& team, row_view<Logit> row, const sampling_parameters& p,
                              const row_history& history) const {
    if (p.bias_count == 0) { return; }
    team.for_each(p.bias_count, [&](std::int64_t i) {
      const std::int32_t at = history.position_of(p.bias[i].t);
      if (at < 0 || !team::holds(team, at)) { return; }
      const auto value = static_cast<real_of<Logit>>(p.bias[i].value);
      row[at] = to_logit<Logit>(to_real(row[at]) + value);
    });
  }

  /// In range if no value is NaN or +inf. That tokens are in the vocabulary and none occurs twice
  /// is checked where the vocabulary is known, when the request is added.
  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    bool valid = true;
    for (std::int32_t i = 0; i < p.bias_count; ++i) {
      valid = valid && p.bias[i].value <= kernel::largest<float>;
    }
    p.bias = nullptr;
    p.bias_count = 0;
    return valid ? status::ok : status::invalid_parameter;
  }
};

static_assert(LogitStage<bias>);

}  // namespace hunch::sampler
