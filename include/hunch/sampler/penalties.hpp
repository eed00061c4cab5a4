// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch::sampler {

/// Penalties for tokens that occurred before the row, drafted ancestors included.
///
/// - `repetition_penalty` r divides a positive logit and multiplies a negative one by r, if the
///   token occurs in the prompt or after it. (CTRL: Keskar et al. 2019, arXiv:1909.05858)
/// - `frequency_penalty` f and `presence_penalty` p then subtract f * n + p, if the token occurs
///   n > 0 times after the prompt.
///
/// Touches only the tokens that occur. In a row of 16-bit logits what it writes is rounded, see
/// `to_logit`: the law is that of the edited logits so rounded, in draft and target alike.
struct penalties {
  static constexpr bool needs_counts = true;
  static constexpr bool needs_allowed = false;

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE void edit(T& team, row_view<Logit> row, const sampling_parameters& p,
                              const row_history& history) const {
    if (p.repetition_penalty == 1.0f && p.presence_penalty == 0.0f && p.frequency_penalty == 0.0f) {
      return;
    }
    const token_counts& counts = history.counts;
    team.for_each(counts.size, [&](std::int64_t i) {
      const token t = counts.tokens[i];
      ask_for(row, history, counts, i + 16);
      penalise(team, row, p, history, t, counts.emitted[i] + occurrences(history, t, 0));
    });
    // Tokens that occur on the path only, each at its first node below the root.
    team.for_each(history.node == 0 ? 0 : history.node + 1, [&](std::int64_t i) {
      const auto node = static_cast<std::int32_t>(i);
      if (!on_path(history, node)) { return; }
      const token t = history.tree_tokens[node];
      const bool first = occurrences(history, t, 0) == occurrences(history, t, node);
      if (first && counts.index[t] < 0) {
        penalise(team, row, p, history, t, occurrences(history, t, 0));
      }
    });
  }

  /// Resets the fields to their defaults where this stage takes care of them.
  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    constexpr float most = kernel::largest<float>;
    const auto finite = [](float x) { return x >= -most && x <= most; };
    const bool valid = p.repetition_penalty > 0.0f && finite(p.repetition_penalty) &&
                       finite(p.presence_penalty) && finite(p.frequency_penalty);
    const sampling_parameters off;
    p.repetition_penalty = off.repetition_penalty;
    p.presence_penalty = off.presence_penalty;
    p.frequency_penalty = off.frequency_penalty;
    return valid ? status::ok : status::invalid_parameter;
  }

 private:
  /// Asks for the logit of the i-th token that occurs: they lie all over the row, and each would be
  /// waited for.
  template <class Logit>
  HUNCH_HOST_DEVICE static HUNCH_INLINE void ask_for(row_view<Logit> row,
                                                     const row_history& history,
                                                     const token_counts& counts, std::int64_t i) {
#if !defined(__CUDA_ARCH__)
    if (history.list == nullptr && i < counts.size) {
      __builtin_prefetch(row.data + counts.tokens[i], 1, 3);
    }
#endif
  }

  /// How often t is drafted on the path to the row, from `least` down; the root is committed.
  HUNCH_HOST_DEVICE static std::int32_t occurrences(const row_history& h, token t,
                                                    std::int32_t least) {
    std::int32_t n = 0;
    for (std::int32_t up = h.node; up > 0 && up >= least; up = h.tree_parent[up]) {
      n += h.tree_tokens[up] == t ? 1 : 0;
    }
    return n;
  }
  HUNCH_HOST_DEVICE static bool on_path(const row_history& h, std::int32_t node) {
    std::int32_t up = h.node;
    while (up > node) { up = h.tree_parent[up]; }
    return node > 0 && up == node;
  }

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE static void penalise(T& team, row_view<Logit> row, const sampling_parameters& p,
                                         const row_history& history, token t, std::int32_t n) {
    const std::int32_t at = history.position_of(t);
    if (at < 0 || !team::holds(team, at)) { return; }
    using real = real_of<Logit>;
    const auto r = static_cast<real>(p.repetition_penalty);
    const real given = to_real(row[at]);
    const real x = given > real(0) ? given / r : given * r;
    const real minus =
        n == 0 ? real(0)
               : kernel::product(static_cast<real>(p.frequency_penalty), static_cast<real>(n)) +
                     static_cast<real>(p.presence_penalty);
    row[at] = to_logit<Logit>(x - minus);
  }
};

static_assert(LogitStage<penalties>);

}  // namespace hunch::sampler
