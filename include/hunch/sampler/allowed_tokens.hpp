// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/sampler/pipeline.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch::sampler {

/// Bans every token that the request's grammar does not allow at this place of the text; see
/// `Grammar`. A row without an allowed token is `empty_support`.
///
/// Writes the row: a banned logit becomes -inf, which is exact in every type of logits.
struct allowed_tokens {
  static constexpr bool needs_counts = false;
  static constexpr bool needs_allowed = true;

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE void edit(T& team, row_view<Logit> row, const sampling_parameters&,
                              const row_history& history) const {
    if (history.allowed == nullptr) { return; }
    constexpr auto never = to_logit<Logit>(-kernel::infinity<real_of<Logit>>);
    const std::uint32_t* const words = history.allowed;
    if (history.list == nullptr) {
      // A word at a time: the shifts of a word's 32 elements are constants.
      const team::element_range own = team::held(team, row.size);
      const std::int64_t first = own.begin / 32;
      const std::int64_t whole = own.end / 32;
      team.for_each(whole > first ? whole - first : 0, [=](std::int64_t i) {
        const std::int64_t w = first + i;
        const std::uint32_t word = words[w];
        Logit* const x = row.data + 32 * w;
        for (std::int32_t b = 0; b < 32; ++b) { x[b] = (word >> b & 1u) != 0 ? x[b] : never; }
      });
      team.for_each(own.size() == 0 ? 0 : own.end - 32 * whole, [=](std::int64_t b) {
        if ((words[whole] >> b & 1u) == 0) { row[32 * whole + b] = never; }
      });
    } else {
      // Some positions at a time, so that few walk along the ranges.
      constexpr std::int32_t at_once = 32;
      team.for_each((row.size + at_once - 1) / at_once, [=](std::int64_t block) {
        const auto first = static_cast<std::int32_t>(block) * at_once;
        const std::int32_t last = first + at_once < row.size ? first + at_once : row.size;
        history.list->for_each_in(first, last, [=](std::int32_t at, token t) {
          if ((words[t / 32] >> (t % 32) & 1u) == 0) { row[at] = never; }
        });
      });
    }
  }

  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    p.constrained = false;
    return status::ok;
  }
};

static_assert(LogitStage<allowed_tokens>);

}  // namespace hunch::sampler
