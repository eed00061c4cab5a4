// SPDX-License-Identifier: Apache-2.0
#pragma once

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
        wanted_(executor, size(kernel::strips_of(max_rows))),
        strips_(executor, size(kernel::segments_of(max_rows) * kernel::segment_strips)),
        counts_(executor, size(kernel::segments_of(max_rows))) {}

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
    const std::int32_t segments = kernel::segments_of(head.rows);
    const kernel::head_plan plan{.wanted = wanted_.data(),
                                 .strips = strips_.data(),
                                 .counts = counts_.data(),
                                 .segments = segments};
    const head_rows<float> planned{.size = asked.size, .row = asked.row, .lists = asked.lists};
    for (std::int32_t first = 0; first < asked.size; first += kernel::planned_lists) {
      const kernel::prepare_head<Weight> prepare{
          .planning = {.asked = planned, .first = first, .rows = head.rows, .plan = plan},
          .width = head.width,
          .hidden = hidden,
          .stride = stride,
          .states = states_.data()};
      executor.launch(prepare.teams(), prepare);
      kernel::multiply_strips<Weight, Logit> multiply{.asked = asked,
                                                      .first = first,
                                                      .head = head,
                                                      .hidden = hidden,
                                                      .stride = stride,
                                                      .states = states_.data(),
                                                      .plan = plan,
                                                      .teams = 1};
      multiply.teams = teams_at_once(executor, multiply);
      executor.launch(multiply.teams, multiply);
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
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  static std::size_t states(std::int32_t width) {
    return std::is_same_v<Weight, float>
               ? 0
               : size(kernel::planned_lists) *
                     static_cast<std::size_t>(kernel::detail::split_words(width));
  }

  workspace<E, std::uint32_t> states_;  ///< split for tensor cores
  workspace<E, std::uint64_t> wanted_;
  workspace<E, std::int32_t> strips_;
  workspace<E, std::int32_t> counts_;
};

}  // namespace hunch
