// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::drafter {

/// What a length policy is to know of a level that was just drafted.
template <class Tree, LengthPolicy Policy, class Real, class Executor, class Frontier>
class level_evidence {
  static constexpr bool ranked = Frontier::ranked;
  /// Children of a node that are judged by bodies.
  static constexpr std::size_t judged = ranked ? 1 : Tree::max_children;
  /// Whether there is anything for bodies: the probabilities of ranked children are known.
  static constexpr bool by_bodies = !ranked || Policy::needs_entropy;

 public:
  /// Whether the policy asks.
  static constexpr bool wanted = !std::is_same_v<Policy, length::fixed>;

  level_evidence(Executor& executor, const drafter_setup& setup)
      : tasks_(executor, slots(setup)),
        probability_(executor, slots(setup)),
        entropy_(executor, Policy::needs_entropy ? slots(setup) : 0),
        nowhere_(executor, 1) {}

  /// How sure the draft laws are of the children that were drawn; of ranked ones that is known,
  /// but for the entropy of the law. Waits for the executor.
  template <class Level, class Drafts>
  void take(const Frontier& of, const Level& level, Drafts& drafts, Executor& executor) {
    if constexpr (wanted && by_bodies) {
      std::int32_t laws = 0;
      for (std::size_t f = 0; f < of.size(); ++f) {
        laws += of.leads(f) ? 1 : 0;
        const law<Real>* const drawn_from = level.law_of(laws - 1, of.nodes[f], drafts);
        for (std::size_t i = 0; i < judged; ++i) {
          const std::size_t at = f * judged + i;
          tasks_.data()[at] = {
              .drawn_from = drawn_from,
              .drawn_at = ranked ? nowhere_.data() : of.child_at() + of.child_index(f) + i,
              .probability = probability_.data() + at,
              .entropy = Policy::needs_entropy ? entropy_.data() + at : nullptr};
        }
      }
      nowhere_.data()[0] = -1;
      executor.launch(static_cast<std::int32_t>(of.size() * judged),
                      kernel::report_evidence<Real>{tasks_.data()});
      executor.synchronize();
    }
  }

  /// The evidence of tree k, whose nodes of the frontier are [first, end). Sets the values of drawn
  /// children.
  template <class Drafts>
  length_evidence of_tree(Frontier& of, std::int32_t k, std::size_t first, std::size_t end,
                          Drafts& drafts) const {
    length_evidence evidence;
    if constexpr (wanted) {
      evidence.rows = rows_of(of, k, first, end, drafts);
      if constexpr (Frontier::dynamic) { evidence.max_rows = Tree::total; }
      find_best(of, first, end, evidence);
    }
    return evidence;
  }

 private:
  static std::size_t slots(const drafter_setup& setup) {
    return wanted && by_bodies
               ? Frontier::count(setup, Tree::max_width * static_cast<std::int64_t>(judged))
               : 0;
  }

  /// The rows that the target will have of tree k, with the new children.
  template <class Drafts>
  static std::int32_t rows_of(const Frontier& of, std::int32_t k, std::size_t first,
                              std::size_t end, Drafts& drafts) {
    std::int32_t rows = drafts.count(k);
    if constexpr (Frontier::dynamic) {
      return std::min(Tree::total, 1 + Tree::max_children * rows);
    }
    for (std::size_t f = first; f < end; ++f) {
      const std::int32_t place = of.place(of.node_index(of.nodes[f]));
      for (std::int32_t i = 0; i < Tree::asked(place); ++i) {
        const bool there = of.child()[of.child_index(f) + Frontier::index(i)] != no_token;
        rows += there && Tree::child(place, i) >= 0 ? 1 : 0;
      }
    }
    return rows;
  }

  /// Looks for the most probable new child of the nodes [first, end).
  void find_best(Frontier& of, std::size_t first, std::size_t end,
                 length_evidence& evidence) const {
    float best = -kernel::infinity<float>;
    evidence.probability = 0.0;
    for (std::size_t f = first; f < end; ++f) {
      const float above = of.value()[of.node_index(of.nodes[f])];
      for (std::int32_t i = 0; i < of.asked(f); ++i) {
        const std::size_t child = of.child_index(f) + Frontier::index(i);
        const std::size_t at = f * judged + (ranked ? 0 : Frontier::index(i));
        if (of.child()[child] == no_token) { break; }
        if constexpr (!ranked) {
          of.child_value()[child] = above + log2_of(probability_.data()[at]);
        }
        if (!(of.child_value()[child] > best)) { continue; }
        best = of.child_value()[child];
        evidence.probability = static_cast<double>(kernel::exp2_product(best - above, 1.0f));
        if constexpr (Policy::needs_entropy) { evidence.entropy = entropy_.data()[at]; }
      }
    }
    evidence.reach = static_cast<double>(kernel::exp2_product(best, 1.0f));
  }

  static float log2_of(double probability) {
    constexpr double per_nat = 1.4426950408889634074;
    return probability > 0.0 ? static_cast<float>(kernel::log_of(probability) * per_nat)
                             : -kernel::infinity<float>;
  }

  template <class T>
  using buffer = typename Executor::template buffer<T>;

  buffer<kernel::evidence_task<Real>> tasks_;
  buffer<double> probability_;
  buffer<double> entropy_;
  buffer<std::int32_t> nowhere_;  ///< no position
};

}  // namespace hunch::drafter
