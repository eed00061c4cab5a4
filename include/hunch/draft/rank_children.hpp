// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/draft/detail/ranking_law.hpp>
#include <hunch/head/row_summary.hpp>
#include <hunch/head/summarise_rows.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// A row of draft logits whose most probable tokens become the children of a node. The sampler may
/// edit it.
template <class Real>
struct ranked_row {
  row_view<Real> logits;  ///< [list.size] over `list`
  shortlist list;
  sampling_parameters parameters;
  row_history history;             ///< its `list` points to the same one
  float value = 0.0f;              ///< log2 of the probability of the path to the node
  std::int32_t count = 0;          ///< children, <= max_ranked_children
  std::int64_t* best = nullptr;    ///< [(tiles_of(size) + 1) * count] workspace
  law<Real>* ranked_by = nullptr;  ///< out: at temperature 1, without cuts
  token* children = nullptr;       ///< [count] out: `no_token` where there is none
  float* values = nullptr;         ///< [count] out: log2 of the probability of the path to them
};

/// Ranks the children of the node of a row, see `ranking_law`. Ties go to the lower position of the
/// list. A row with an error has no children. Collective; with at most `team::list_capacity` best
/// elements in all tiles together: 262,144 logits for 32 children.
template <class Real, class S, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void rank_row(T& team, const S& sampler,
                                                       const ranked_row<Real> row) {
  const law<Real> q = ranking_law(team, sampler, row.logits, row.parameters, row.history);
  if (team.rank() == 0) { *row.ranked_by = q; }
  std::int64_t* const of_row = row.best;
  if (q.status == status::ok) {
    std::int64_t* const of_tiles = row.best + row.count;
    const std::int64_t size = row.logits.size;
    for (std::int64_t begin = 0, tile = 0; begin < size; ++tile) {
      const std::int64_t end =
          begin + team::tile_elements < size ? begin + team::tile_elements : size;
      detail::best_of_tile(team, row.logits.data, begin, end, row.count,
                           of_tiles + tile * row.count);
      begin = end;
    }
    detail::best_of_tiles(team, size, row.count, of_tiles, of_row);
  }
  team.for_each(row.count, [=](std::int64_t i) {
    const std::int64_t ranked = q.status == status::ok ? of_row[i] : ranked_element::none;
    const bool there = ranked != ranked_element::none;
    const std::int32_t at = there ? ranked_element::position(ranked) : 0;
    row.children[i] = there ? row.list.token_at(at) : no_token;
    row.values[i] = there ? row.value + log2_probability(q.prob(at)) : -infinity<float>;
  });
}

/// Ranks the children of the node of row `index`, one team per row.
template <class Real, class S>
struct rank_children {
  const ranked_row<Real>* rows;  ///< [rows]
  S sampler;
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    rank_row(team, sampler, rows[index]);
  }
};

}  // namespace hunch::kernel
