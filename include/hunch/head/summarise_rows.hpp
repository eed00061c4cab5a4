// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/head/row_summary.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

namespace detail {

/// Adjacent elements of a tile whose best is looked for first.
inline constexpr std::int32_t summary_group = 32;
static_assert(max_ranked_children * summary_group <= team::list_capacity);

/// What a logit is ranked by.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE order<float>::key rank_key(Real logit) {
  return order<float>::of(static_cast<float>(to_real(logit)));
}

/// The best element of [begin, end), at most a group.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t best_of_group(const Real* logits, std::int64_t begin,
                                                          std::int64_t end) {
  std::int64_t best = ranked_element::none;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t ranked = ranked_element::of(rank_key(logits[i]), i);
    best = ranked > best ? ranked : best;
  }
  return best;
}
/// Likewise of a full group, by halves: loops that vectorise.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t best_of_group(const Real* logits, std::int64_t begin) {
  std::int32_t keys[summary_group];
  std::int32_t fold[summary_group];
  for (std::int32_t i = 0; i < summary_group; ++i) {
    keys[i] = rank_key(logits[begin + i]);
    fold[i] = keys[i];
  }
  HUNCH_UNROLLED
  for (std::int32_t n = summary_group / 2; n > 0; n /= 2) {
    for (std::int32_t i = 0; i < n; ++i) {
      fold[i] = fold[i] > fold[i + n] ? fold[i] : fold[i + n];
    }
  }
  const std::int32_t top = fold[0];
  for (std::int32_t i = 0; i < summary_group; ++i) { fold[i] = keys[i] == top ? i : summary_group; }
  HUNCH_UNROLLED
  for (std::int32_t n = summary_group / 2; n > 0; n /= 2) {
    for (std::int32_t i = 0; i < n; ++i) {
      fold[i] = fold[i] < fold[i + n] ? fold[i] : fold[i + n];
    }
  }
  return ranked_element::of(top, begin + fold[0]);
}

/// Writes the `count` largest of the first `n` elements of the team's list, which differ but for
/// `none`, in descending order; `none` after. Collective, ends with a `sync`.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void put_largest(T& team, std::int32_t n,
                                                          std::int32_t count, std::int64_t* best) {
  const std::int64_t* const list = team.scratch().list;
  team.for_each(count, [=](std::int64_t i) { best[i] = ranked_element::none; });
  team.for_each(n, [=](std::int64_t i) {
    const std::int64_t mine = list[i];
    std::int64_t above = 0;  // as wide as what is compared, so that the loop vectorises
    for (std::int32_t j = 0; j < n; ++j) { above += list[j] > mine ? 1 : 0; }
    if (above < count && mine != ranked_element::none) { best[above] = mine; }
  });
}

/// The `count` best elements of the tile [begin, end) of a row. The groups with the best favourites
/// hold them all, and nothing below the last of these favourites is one of them.
template <Team T, class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void best_of_tile(T& team, const Real* logits,
                                                           std::int64_t begin, std::int64_t end,
                                                           std::int32_t count, std::int64_t* best) {
  const auto groups = static_cast<std::int32_t>((end - begin + summary_group - 1) / summary_group);
  team.fill(groups, [=](std::int64_t g) {
    const std::int64_t first = begin + g * summary_group;
    return first + summary_group <= end ? best_of_group(logits, first)
                                        : best_of_group(logits, first, end);
  });
  put_largest(team, groups, count, best);
  const std::int64_t least = best[count - 1];
  const auto element = [=](std::int64_t i) {
    const std::int64_t favourite = best[i / summary_group];
    if (favourite == ranked_element::none) { return favourite; }
    const std::int64_t group = (ranked_element::position(favourite) - begin) / summary_group;
    const std::int64_t at = begin + group * summary_group + i % summary_group;
    return at < end ? ranked_element::of(rank_key(logits[at]), at) : ranked_element::none;
  };
  const std::int32_t found = team.compact(
      static_cast<std::int64_t>(count) * summary_group,
      [=](std::int64_t i) {
        const std::int64_t ranked = element(i);
        return ranked >= least && ranked != ranked_element::none;
      },
      element, team::list_capacity);
  team.sync();  // all ranks have read the favourites: `compact` need not be a barrier
  put_largest(team, found, count, best);
}

/// The `count` best elements of a row of `size`, from `best` [tiles, count], those of its tiles.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void best_of_tiles(T& team, std::int64_t size,
                                                            std::int32_t count,
                                                            const std::int64_t* best,
                                                            std::int64_t* of_row) {
  const auto candidates = static_cast<std::int32_t>(team::tiles_of(size)) * count;
  team.fill(candidates, [=](std::int64_t i) { return best[i]; });
  put_largest(team, candidates, count, of_row);
}

}  // namespace detail

/// Makes the summaries of rows of logits: the epilogue of a head. Launched with rows * `tiles`
/// teams; team `index` makes that of tile `index % tiles` of row `index / tiles`, from logits that
/// have just been written.
struct summarise_rows {
  const row_view<float>* logits;  ///< [rows]
  const std::int32_t* asked;      ///< [rows] -1: the row is padding
  const row_summary* summaries;   ///< [rows]
  std::int32_t tiles;             ///< `team::tiles_of` the longest row, or more

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t row = index / tiles;
    const std::int32_t tile = index % tiles;
    const std::int64_t size = logits[row].size;
    const std::int64_t begin = tile * team::tile_elements;
    if (asked[row] < 0 || begin >= size) { return; }
    const std::int64_t end =
        begin + team::tile_elements < size ? begin + team::tile_elements : size;
    const float* const x = logits[row].data;
    const row_summary summary = summaries[row];
    if (summary.tiles != nullptr) {
      const auto total = team.soft_sum(end - begin, row_terms<float>{x + begin, summary.scale});
      if (team.rank() == 0) { summary.tiles[tile] = total; }
    }
    if (summary.count > 0) {
      detail::best_of_tile(team, x, begin, end, summary.count, summary.best + tile * summary.count);
    }
  }
};

}  // namespace hunch::kernel
