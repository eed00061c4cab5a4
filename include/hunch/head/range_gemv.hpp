// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/head/detail/dot_rows.hpp>
#include <hunch/head/detail/rows_ahead.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

namespace detail {

/// The logits of `count` adjacent head rows by a team of several ranks: a rank per lane, so that
/// neighbours read what lies side by side.
template <class Weight, class Logit, Team T>
HUNCH_HOST_DEVICE void share_logits(T& team, const head_weights<Weight>& head, std::int32_t first,
                                    std::int32_t count, const float* hidden, Logit* out) {
  constexpr std::int32_t most = team::list_capacity / gemv_lanes;
  const std::int64_t* const lanes = team.scratch().list;
  for (std::int32_t begin = 0; begin < count; begin += most) {
    const std::int32_t rows = count - begin < most ? count - begin : most;
    team.fill(rows * gemv_lanes, [=](std::int64_t i) {
      const auto row = first + begin + static_cast<std::int32_t>(i / gemv_lanes);
      const auto l = static_cast<std::int32_t>(i % gemv_lanes);
      return bit_cast<std::int32_t>(dot_lane(head.row(row), head.width, hidden, l));
    });
    team.for_each(rows, [=](std::int64_t r) {
      float lane[gemv_lanes];
      for (std::int32_t l = 0; l < gemv_lanes; ++l) {
        lane[l] = bit_cast<float>(static_cast<std::int32_t>(lanes[r * gemv_lanes + l]));
      }
      for (std::int32_t half = gemv_lanes / 2; half > 0; half /= 2) {
        for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
      }
      const std::int64_t at = begin + r;
      out[at] = to_logit<Logit>(head.row_scale == nullptr ? lane[0]
                                                          : lane[0] * head.row_scale[first + at]);
    });
  }
}

/// The logits of `count` <= 8 adjacent head rows with a few hidden states, by a thread. What is
/// asked of `ahead` is what is read. out[s]: [count].
template <std::int32_t States, class Weight, class Ahead>
HUNCH_HOST_DEVICE HUNCH_INLINE void logits_of(const head_weights<Weight>& head, std::int32_t first,
                                              std::int32_t count,
                                              const float* const (&hidden)[States], Ahead& ahead,
                                              float* const (&out)[States]) {
  if constexpr (has_vectors) {
    constexpr std::int32_t registers = 16;
    constexpr std::int32_t most = registers / (States * elements_per_lane<Weight>);
    constexpr std::int32_t together = most < Ahead::together ? most : Ahead::together;
    dot_rows<together>(head.row(first), head.width, count, hidden, ahead, out);
  } else {
    for (std::int32_t s = 0; s < States; ++s) {
      for (std::int32_t r = 0; r < count; ++r) {
        out[s][r] = dot_one(head.row(first + r), head.width, hidden[s]);
      }
    }
  }
  if (head.row_scale != nullptr) {
    for (std::int32_t s = 0; s < States; ++s) {
      for (std::int32_t r = 0; r < count; ++r) { out[s][r] *= head.row_scale[first + r]; }
    }
  }
}
/// With one.
template <class Weight, class Ahead, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE void logits_of(const head_weights<Weight>& head, std::int32_t first,
                                              std::int32_t count, const float* hidden, Ahead& ahead,
                                              Logit* out) {
  const float* const of[1] = {hidden};
  Logit* const to[1] = {out};
  logits_of(head, first, count, of, ahead, to);
}

/// The same to rows of another type of logits, rounded.
template <std::int32_t States, class Weight, class Ahead, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE void logits_of(const head_weights<Weight>& head, std::int32_t first,
                                              std::int32_t count,
                                              const float* const (&hidden)[States], Ahead& ahead,
                                              Logit* const (&out)[States]) {
  float sums[States][gemv_rows];
  float* to[States];
  for (std::int32_t s = 0; s < States; ++s) { to[s] = sums[s]; }
  float* const(&all)[States] = to;
  logits_of(head, first, count, hidden, ahead, all);
  for (std::int32_t s = 0; s < States; ++s) {
    for (std::int32_t r = 0; r < count; ++r) { out[s][r] = to_logit<Logit>(sums[s][r]); }
  }
}

/// The logits of the rows of a range, by a thread.
template <class Weight, class Ahead, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE void range_logits(const head_weights<Weight>& head, row_range range,
                                                 const float* hidden, Ahead& ahead, Logit* out) {
  for (std::int32_t row = range.begin; row < range.end; row += gemv_rows) {
    const std::int32_t left = range.end - row;
    logits_of(head, row, left < gemv_rows ? left : gemv_rows, hidden, ahead,
              out + (row - range.begin));
  }
}

}  // namespace detail

/// out[i] = head row i . hidden, for all rows. Collective.
///
/// hidden: [head.width] float, read faster at a multiple of 64 bytes. out: [head.rows].
template <class Weight, Team T>
HUNCH_HOST_DEVICE void gemv(T& team, const head_weights<Weight>& head, const float* hidden,
                            float* out) {
  if (team.size() > 1) {
    detail::share_logits(team, head, 0, head.rows, hidden, out);
  } else {
    const row_range all{0, head.rows};
    detail::ask_ahead(head, detail::one_range(all),
                      [&](auto& ahead) { detail::range_logits(head, all, hidden, ahead, out); });
  }
}

/// logits[i] = head row of position i . hidden, for every position i of `list`: gather and product
/// in one pass, nothing is copied. Collective; adjacent rows are read as one stream.
///
/// hidden: [head.width] float, read faster at a multiple of 64 bytes. logits: [list.size], out;
/// those of 16 bits are rounded.
template <class Weight, Team T, LogitType Logit = float>
HUNCH_HOST_DEVICE void range_gemv(T& team, const head_weights<Weight>& head, const shortlist& list,
                                  const float* hidden, row_view<Logit> logits) {
  const auto for_ranges = [&](const auto& use) {
    std::int32_t before = 0;
    for (std::int32_t g = 0; g < list.range_count; ++g) {
      use(list.ranges[g], logits.data + before);
      before += list.ranges[g].end - list.ranges[g].begin;
    }
  };
  if (team.size() > 1) {
    for_ranges([&](row_range range, Logit* out) {
      detail::share_logits(team, head, range.begin, range.end - range.begin, hidden, out);
    });
  } else {
    const detail::ranges_in_order ranges(list.ranges, list.range_count);
    detail::ask_ahead(head, ranges, [&](auto& ahead) {
      for_ranges([&](row_range range, Logit* out) {
        detail::range_logits(head, range, hidden, ahead, out);
      });
    });
  }
}

}  // namespace hunch::kernel
