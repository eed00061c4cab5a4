// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/sampler/pipeline.hpp>

namespace hunch::sampler {

/// Bans every token that the request's grammar does not allow at this place of the text; see
/// `Grammar`. A row without an allowed token is `empty_support`.
///
/// Writes the row: a banned logit becomes -inf.
struct allowed_tokens {
  static constexpr bool needs_counts = false;
  static constexpr bool needs_allowed = true;

  template <Team T, class Real>
  HUNCH_HOST_DEVICE void edit(T& team, row_view<Real> row, const sampling_parameters&,
                              const row_history& history) const {
    if (history.allowed == nullptr) { return; }
    constexpr Real never = -kernel::infinity<Real>;
    const std::uint32_t* const words = history.allowed;
    if (history.list == nullptr) {
      // A word at a time: the shifts of a word's 32 elements are constants.
      const std::int64_t whole = row.size / 32;
      team.for_each(whole, [=](std::int64_t w) {
        const std::uint32_t word = words[w];
        Real* const x = row.data + 32 * w;
        for (std::int32_t b = 0; b < 32; ++b) { x[b] = (word >> b & 1u) != 0 ? x[b] : never; }
      });
      team.for_each(row.size - 32 * whole, [=](std::int64_t b) {
        if ((words[whole] >> b & 1u) == 0) { row[32 * whole + b] = never; }
      });
    } else {
      team.for_each(row.size, [=](std::int64_t i) {
        const token t = history.token_at(static_cast<std::int32_t>(i));
        if ((words[t / 32] >> (t % 32) & 1u) == 0) { row[i] = never; }
      });
    }
  }

  static constexpr status take(sampling_parameters& p) {
    p.constrained = false;
    return status::ok;
  }
};

static_assert(LogitStage<allowed_tokens>);

}  // namespace hunch::sampler
