// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/prune_tree.hpp>
#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/detail/pruning.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/canonical.hpp>

namespace hunch::drafter {

/// The trees of another drafter, of which only the likely paths go through all of the target: its
/// first layers read the whole tree, say how probable each child is after its parent, and the
/// target's pass goes on after these layers with what is left. (The tree pruning of Speculative
/// Streaming: Bhendawade et al. 2024, arXiv:2402.11131; of any ranked drafter here.)
///
/// Children are ranked, not drawn, so that whatever is taken out, what is emitted has the target's
/// law: lossless with every lossless verifier that needs no draft law. For children that were drawn
/// that would not be so: they are refused. Waits for the executor once more than the other drafter,
/// and twice more in steps in which a tree has more than `keep` nodes.
///
/// \tparam D a `Drafter` with ranked children, a selector, and no cache of its own.
/// \tparam View models `DraftModel` and shares the target's cache; a reference where the caller
///         keeps it. Its head has the selector's order.
template <class D, class View>
class pruned {
  using inner_type = std::remove_reference_t<D>;
  using view_type = std::remove_reference_t<View>;
  static_assert(Drafter<inner_type>,
                "hunch: the first argument of drafter::pruned must model hunch::Drafter, such as "
                "drafter::streaming or drafter::heads");
  static_assert(inner_type::children == child_law::ranked && !is_chosen_drafter<inner_type>,
                "hunch: drafter::pruned takes nodes out of trees, which is exact for ranked "
                "children only: use tree::fixed or tree::dynamic");
  static_assert(inner_type::uses_selector && !reads_own_draft<inner_type>,
                "hunch: drafter::pruned needs a drafter that has shortlists and no cache of its "
                "own, such as drafter::streaming or drafter::heads");
  static_assert(shares_target_cache<view_type>,
                "hunch: the second argument of drafter::pruned must be a view of the target's "
                "first layers: a DraftModel with shares_target_cache");

 public:
  static constexpr std::int32_t max_nodes = inner_type::max_nodes;
  static constexpr std::int32_t max_depth = max_depth_of<inner_type>();
  static constexpr child_law children = inner_type::children;
  static constexpr bool is_chain = inner_type::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = inner_type::needs_hidden;
  static constexpr bool needs_clock = drafts_by_clock<inner_type>;
  static constexpr std::int32_t streams = streams_of<inner_type>();
  static constexpr std::int32_t law_rows = law_rows_of<inner_type>();
  static_assert(max_nodes <= team::list_capacity);

  /// \param keep nodes of a tree that stay at most, with its root.
  /// \throws std::invalid_argument if that is none.
  pruned(D&& drafter, View&& view, std::int32_t keep)
      : drafter_(std::forward<D>(drafter)), view_(std::forward<View>(view)), keep_(keep) {
    if (keep < 1) {
      throw std::invalid_argument(
          message({"hunch::drafter::pruned: ", keep, " nodes are to be kept, not even the root"}));
    }
  }

  inner_type& drafter() { return drafter_; }
  view_type& view() { return view_; }

  std::int32_t hidden_size() const requires(needs_hidden || streams > 0) {
    return drafter_.hidden_size();
  }

  template <class Real, class Executor>
  struct state {
    state(const pruned& of, Executor& executor, const drafter_setup& setup)
        : inner(of.drafter_, executor, setup),
          rows(executor, setup.max_batch * max_nodes),
          arrays(executor) {
      const std::int64_t nodes = std::int64_t{setup.max_batch} * max_nodes;
      made.max_nodes = max_nodes;
      made.stride = (setup.max_rows + 3) / 4 * 4;
      made.pads = !host_reads<Executor>;
      made.rows = rows.arrays();
      arrays.give(2, made.counts);
      arrays.give(setup.max_batch, made.first_row);
      arrays.give(nodes, made.inner, made.statuses, made.slot, made.node, made.row, made.lists,
                  made.logits, made.value, made.was, made.workspace);
      arrays.give(nodes * made.stride, made.all_logits);
    }

    typename inner_type::template state<Real, Executor> inner;
    staged_rows<Executor> rows;
    owned_arrays<Executor> arrays;
    pruning<Real> made;  ///< but for what varies from step to step
  };

  void check(const drafter_setup& setup) {
    drafter_.check(setup);
    drafter_setup of_view = setup;
    of_view.context_width = 0;  // shortlists are the drafter's
    check_model("hunch::drafter::pruned", "the view", view_, of_view);
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    drafter_.propose(s.inner, slots, contexts, drafts, selector, sampler, draw, executor);
    if (drafts.levels() == 0) { return; }
    using real = typename Drafts::real;
    const std::int32_t most = slots * max_nodes;
    pruning<real> step = s.made;
    step.keep = keep_;
    step.slots = slots;
    step.contexts = contexts;
    step.trees = drafts.view();
    executor.launch(slots, place_prunable<real>{step});
    const std::int32_t size = known_count(executor, step.counts, most);
    if (size == 0) { return; }
    auto hidden = view_.forward(step.rows.view(size));
    if constexpr (host_reads<Executor>) { take_statuses(hidden, size, step.statuses); }
    executor.launch(slots, ask_transitions<real>{step});
    const std::int32_t asked = known_count(executor, step.counts + 1, most);
    if (asked > 0) {
      view_.head(hidden, head_rows<real>{asked, step.row, step.lists, step.logits});
      executor.launch(asked, weigh_children<real, S>{step, sampler});
    }
    executor.launch(slots, prune_drafts<real>{step});
    drafts.follow_anew(executor);
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    drafter_.observe(s.inner, outcomes, evaluation, executor);
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    drafter_.release(s.inner, slot, executor);
  }

 private:
  D drafter_;
  View view_;
  std::int32_t keep_;
};

template <class D, class View>
pruned(D&&, View&&, std::int32_t) -> pruned<D, View>;

}  // namespace hunch::drafter
