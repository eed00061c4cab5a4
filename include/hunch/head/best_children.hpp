// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/head/row_summary.hpp>
#include <hunch/head/summarise_rows.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// A row of draft logits that has been summarised, and where its children go. Without a
/// `drawn_from` it is padding.
struct summarised_row {
  row_view<const float> logits;  ///< [list.size] over `list`
  shortlist list;
  row_summary summary;               ///< with `tiles`, and `count` best elements of each
  law<float>* drawn_from = nullptr;  ///< out
  std::int64_t* best = nullptr;      ///< [count] workspace
  token* children = nullptr;         ///< [count] out: the most probable tokens; `no_token` after
  float* probability = nullptr;      ///< [count] out: theirs
};

/// The law of a row and its most probable tokens, from its summary: of the row itself only the best
/// elements are read. Ties go to the lower position of the list. A row with an error has no
/// children, and a law that carries the error. One team per row; the summary has at most
/// `team::list_capacity` best elements in all tiles together, which is so up to 262,144 logits.
struct best_children {
  const summarised_row* rows;  ///< [rows]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const summarised_row row = rows[index];
    if (row.drawn_from == nullptr) { return; }
    const law<float> q = unrestricted(team, row.logits, row.summary.scale, status::invalid_logits,
                                      row.summary.tiles);
    if (team.rank() == 0) { *row.drawn_from = q; }
    detail::best_of_tiles(team, row.logits.size, row.summary.count, row.summary.best, row.best);
    team.for_each(row.summary.count, [=](std::int64_t i) {
      const std::int64_t ranked = row.best[i];
      const bool there = ranked != ranked_element::none && q.status == status::ok;
      const std::int32_t at = there ? ranked_element::position(ranked) : 0;
      row.children[i] = there ? row.list.token_at(at) : no_token;
      row.probability[i] = there ? q.prob(at) : 0.0f;
    });
  }
};

}  // namespace hunch::kernel
