// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/core/logit.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/head_plan.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/head/multiply_strips.hpp>
#include <hunch/head/row_summary.hpp>
#include <hunch/head/summarise_rows.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/canonical.hpp>

namespace hunch {

/// The head of a draft model over shortlists: gather and product in one pass over the weights,
/// nothing is copied, and a row of the head that several hidden states want is read once.
///
/// For a `DraftModel` whose weights lie where bodies of the executor read them; its `head` calls
/// this. Launches only: nothing is allocated, and no launch depends on what the lists hold, so that
/// a step can be recorded.
/// \tparam Weight float, bfloat16, float16 or std::int8_t.
template <Executor E, class Weight>
class shortlist_head {
 public:
  /// Allocates workspace of the executor.
  /// \param max_rows the most rows that the head will have.
  /// \param max_width the most elements that one of them will have.
  shortlist_head(E& executor, std::int32_t max_rows, std::int32_t max_width)
      : states_(executor, states(max_width)),
        wanted_(executor, size(kernel::segments_of(max_rows))),
        by_list_(executor, wanted_.size() * size(kernel::planned_lists)),
        shares_(executor, by_list_.size() * size(kernel::segment_strips)) {}

  /// asked.logits[i] = rows asked.lists[i] of `head` . hidden row asked.row[i], for every i whose
  /// row is not -1. Does not wait.
  ///
  /// \param hidden [rows of the pass, stride] float, in memory of the executor. Up to 65,504 where
  ///        weights are float16 or bytes and the executor multiplies by tensor cores.
  /// \param stride >= head.width.
  /// \param asked arrays in memory of the executor; only its size is known to the host. Logits of
  ///        16 bits are rounded.
  template <LogitType Logit = float>
  void operator()(E& executor, const kernel::head_weights<Weight>& head, const float* hidden,
                  std::int32_t stride, const head_rows<Logit>& asked) {
    const head_rows<float> planned{.size = asked.size, .row = asked.row, .lists = asked.lists};
    for (std::int32_t first = 0; first < asked.size; first += kernel::planned_lists) {
      const std::int32_t lists = std::min(asked.size - first, kernel::planned_lists);
      const kernel::head_plan plan{.wanted = wanted_.data(),
                                   .shares = shares_.data(),
                                   .by_list = by_list_.data(),
                                   .segments = kernel::segments_of(head.rows),
                                   .lists = lists};
      const kernel::detail::state_factors factors{
          .words = states_.data(),
          .columns = std::is_same_v<Weight, float> ? 0 : kernel::detail::columns_for(lists),
          .tiles = (lists + kernel::detail::tile_states - 1) / kernel::detail::tile_states};
      kernel::prepare_head<Weight> prepare{.planning = {.asked = planned,
                                                        .first = first,
                                                        .rows = head.rows,
                                                        .plan = plan,
                                                        .teams = 1},
                                           .width = head.width,
                                           .hidden = hidden,
                                           .stride = stride,
                                           .states = factors};
      prepare.planning.teams = std::min(plan.segments, teams_at_once(executor, prepare));
      executor.launch(prepare.teams(), prepare);
      const kernel::head_product<Weight, Logit> product{.asked = asked,
                                                        .first = first,
                                                        .head = head,
                                                        .hidden = hidden,
                                                        .stride = stride,
                                                        .states = factors,
                                                        .plan = plan,
                                                        .teams = 1,
                                                        .most = 0};
      const std::int32_t tiles =
          std::is_same_v<Weight, float> ? 1 : kernel::detail::tiles_for(lists);
      if (tiles == 1) {
        multiply<1>(executor, product);
      } else if constexpr (!std::is_same_v<Weight, float>) {
        tiles == 2 ? multiply<2>(executor, product) : multiply<4>(executor, product);
      }
    }
  }

  /// The same with an epilogue: summaries[i] is that of list i, for its law and its best children
  /// (see `kernel::best_children`). \param summaries [asked.size] in memory of the executor.
  void operator()(E& executor, const kernel::head_weights<Weight>& head, const float* hidden,
                  std::int32_t stride, const head_rows<float>& asked,
                  const row_summary* summaries) {
    (*this)(executor, head, hidden, stride, asked);
    const auto tiles = static_cast<std::int32_t>(team::tiles_of(head.rows));
    executor.launch(
        asked.size * tiles,
        kernel::summarise_rows{
            .logits = asked.logits, .asked = asked.row, .summaries = summaries, .tiles = tiles});
  }

 private:
  template <int Tiles, class Logit>
  static void multiply(E& executor, const kernel::head_product<Weight, Logit>& product) {
    kernel::multiply_strips<Weight, Logit, Tiles> body{product};
    body.product.teams = teams_at_once(executor, body);
    body.product.most = kernel::strips_of(product.head.rows) / body.product.teams + 1;
    executor.launch(body.product.teams, body);
  }

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  static std::size_t states(std::int32_t width) {
    return std::is_same_v<Weight, float>
               ? 0
               : size(kernel::planned_lists) *
                     static_cast<std::size_t>(kernel::detail::split_words(width));
  }

  workspace<E, std::uint32_t> states_;  ///< split for tensor cores
  workspace<E, std::uint32_t> wanted_;
  workspace<E, std::uint32_t> by_list_;
  workspace<E, kernel::strip_share> shares_;
};

}  // namespace hunch
