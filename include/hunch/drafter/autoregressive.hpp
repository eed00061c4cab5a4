// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/detail/growth.hpp>
#include <hunch/drafter/detail/model_step.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/in_order.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// A smaller model that drafts token by token, or level by level of a tree: any separate, distilled
/// or quantised model (Leviathan et al. 2023, arXiv:2211.17192), an EAGLE head (Li et al. 2024,
/// arXiv:2401.15077, arXiv:2406.16858), or a view of the target's first layers that shares its
/// cache (LayerSkip: Elhoushi et al. 2024, arXiv:2404.16710). Children are drawn from the law that
/// the decoder's sampler makes of the model's logits over the selector's shortlist, so that every
/// lossless verifier is exact on them; or they are ranked by it, see the shape.
///
/// What was emitted but not yet read by the model (one token after a draft that was accepted whole;
/// all accepted ones for a model that `rereads_accepted`) is read first in the next step; a long
/// prompt is read in chunks, in step with the target. What was missed while nothing was drafted is
/// read, chunk after chunk, in the step that drafts again, so that whether it does, and with it the
/// text, depends on nothing but what is asked of that step. These chunks enter the cache at once:
/// they are of committed text, and whoever repeats the step need not read them again. All else
/// enters it in `observe`.
///
/// Waits for the executor where it asks how many there are: rows of a pass, and rows of logits of a
/// level; after each such chunk; and once in `observe`. Where the host does not read that, it waits
/// for nothing, and reads what the target reads, in step with it, whether it drafts or not.
///
/// \tparam Model models `DraftModel`; a reference where the caller keeps the model.
/// \tparam Tree a `TreeShape`, such as `tree::chain` or `tree::dynamic`.
/// \tparam Policy decides how deep a draft is.
template <class Model, class Tree, LengthPolicy Policy = length::fixed>
class autoregressive {
  static_assert(
      TreeShape<Tree>,
      "hunch: the second argument of drafter::autoregressive must model hunch::TreeShape, such as "
      "tree::chain<N>, tree::sampled<W...> or tree::dynamic<K, D, N>");
  static_assert(hunch::detail::is_draft_model<std::remove_reference_t<Model>>,
                "hunch: the model of drafter::autoregressive must model hunch::DraftModel: "
                "vocab_size(), head_order(), forward(rows), head(hidden, head_rows) and "
                "commit(kept_rows) noexcept");
  static_assert(Tree::is_chain || !has_one_state<Model>,
                "hunch: the draft model has one state for a sequence and drafts no branches: use a "
                "tree::chain");

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr std::int32_t max_depth = Tree::max_depth;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;
  static constexpr bool reads_own_draft = true;
  static constexpr bool needs_clock = length::needs_clock<Policy>;
  static constexpr std::int32_t law_rows = growth<Tree, Policy, float, executor::host>::law_rows;

  /// The decoder's constructor throws std::invalid_argument where model, selector and target do not
  /// fit: in their vocabularies, the order of the head or the width of a router's contexts; or if a
  /// tree ranks more children than can be ranked in such a vocabulary.
  explicit autoregressive(Model&& model, Tree = {}, Policy policy = {})
      : model_(std::forward<Model>(model)), policy_(policy) {}

  std::remove_reference_t<Model>& model() { return model_; }
  const Policy& policy() const { return policy_; }

  /// The rows of a step and, per slot, how far the model has read.
  template <class Real, class Executor>
  struct state {
    using real = Real;

    state(const autoregressive&, Executor& executor, const drafter_setup& setup)
        : added(most_added(setup)),
          rows(executor, most_rows(setup)),
          kept(executor, most_rows(setup) + setup.max_batch * max_nodes, setup.max_batch),
          trees(executor, setup),
          arrays(executor) {
      arrays.give(setup.max_batch, made.read, made.staged);
      arrays.give(3, made.counts);
      arrays.give(most_rows(setup), made.statuses);
      made.rows = rows.arrays();
      made.chunk = setup.chunk;
      made.keeps_up = !host_reads<Executor>;
      made.rereads = rereads_accepted<Model>;
      made.shares_cache = shares_target_cache<Model>;
      executor.launch(setup.max_batch, clear_slots<model_read>{made.read});
    }

    static std::int32_t most_rows(const drafter_setup& setup) {
      const std::int32_t first = host_reads<Executor>
                                     ? setup.max_batch * (setup.chunk + 1)
                                     : setup.max_batch * most_added(setup) + setup.chunks;
      return std::max(first, setup.max_batch * Tree::max_width);
    }

    /// Tokens of a text that the first pass of a step reads at most, of a model that has read all
    /// that the target had read before this step, but for prompts: what the last step added, and
    /// its root.
    static std::int32_t most_added(const drafter_setup& setup) {
      if (shares_target_cache<Model>) { return 1; }
      return 1 + std::max(rereads_accepted<Model> ? Tree::max_depth : 1, setup.merged_depth);
    }

    std::int32_t added = 0;        ///< `most_added`
    std::int32_t prompt_rows = 0;  ///< that the target reads in this step, at most
    std::int32_t read_before = 0;  ///< and in the last one that was observed
    staged_rows<Executor> rows;
    kept_list<Executor> kept;
    growth<Tree, Policy, Real, Executor> trees;
    owned_arrays<Executor> arrays;
    model_arrays made;  ///< but for what varies from step to step
  };

  void check(const drafter_setup& setup) {
    check_model("hunch::drafter::autoregressive", "the draft model", model_, setup);
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftModel<std::remove_reference_t<Model>, typename Drafts::real>,
                  "hunch: the draft model's head must write logits of the target's type");
    auto step = view(s, slots, contexts, drafts.view());
    using step_type = decltype(step);
    const std::int32_t levels = std::min(Tree::max_depth, drafts.levels());
    const auto stage = [&](const auto&... before) {
      if constexpr (chooses_before_pass<Selecting, Executor>) {
        if (levels > 0) {
          context_rows nobody_looks;
          s.trees.choose_lists(step.trees, nobody_looks, selector, executor, before...);
          return;
        }
      }
      launch_in_order(executor, slots, before...);
    };
    const plan_drafts<step_type> plan{step};
    if constexpr (host_reads<Executor>) {
      executor.launch(slots, plan);
      read_missed(s, step, executor);
      stage(stage_committed<step_type>{step});
    } else {
      s.prompt_rows = drafts.prompt_rows();
      step.capacity = first_rows(s, slots);
      stage(plan, stage_committed<step_type>{step});
    }
    for (;;) {
      const std::int32_t size = known_count(executor, step.counts, step.capacity);
      if (size == 0) { break; }
      if (levels == 0) {  // no more than to keep up with the target
        auto hidden = model_.forward(step.rows.view(size));
        drop_full(step, size, hidden, executor);
        break;
      }
      const bool is_last = step.trees.depth + 1 == levels;
      if (!draft_level(s, step, size, selector, sampler, draw, is_last, executor)) { break; }
      s.trees.end_level(step.trees, S::always_greedy, drafts, executor, [&](const auto&... ended) {
        if (is_last) { return s.trees.finish(step.trees, drafts, executor, ended...); }
        ++step.trees.depth;
        if constexpr (!host_reads<Executor>) { step.capacity = slots * Tree::max_width; }
        stage(ended..., stage_frontier<step_type>{step});
      });
      if (is_last) { return; }
    }
    s.trees.finish(step.trees, drafts, executor);
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E&, Executor& executor) noexcept {
    attempt([&] {
      const auto step = view(s, outcomes.slots);
      using step_type = std::remove_const_t<decltype(step)>;
      const std::int32_t most =
          host_reads<Executor> ? 0 : first_rows(s, outcomes.slots) + outcomes.slots * max_nodes;
      s.read_before = s.prompt_rows;
      executor.launch(outcomes.slots, keep_read<step_type>{step, s.kept.arrays(), outcomes, most});
      commit(s, executor, most, outcomes.slots);
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    attempt([&] {
      const auto step = view(s, slot + 1);
      using step_type = std::remove_const_t<decltype(step)>;
      executor.launch(1, forget_read<step_type>{step, s.kept.arrays(), slot});
      commit(s, executor, 0, 1);
    });
  }

 private:
  template <class State>
  auto view(const State& s, std::int32_t slots, const draft_context* contexts = nullptr,
            const draft_trees<typename State::real>& trees = {}) const {
    const auto grown = s.trees.view(policy_, slots, contexts, trees);
    return model_step<std::remove_const_t<decltype(grown)>>{s.made, grown};
  }

  /// Rows of the first pass of a step at most, see below. A model that reads accepted tokens again
  /// reads in a step what the target has read in the one before.
  template <class State>
  static std::int32_t first_rows(const State& s, std::int32_t slots) {
    const std::int32_t prompt_rows =
        rereads_accepted<Model> ? std::max(s.read_before, s.prompt_rows) : s.prompt_rows;
    return slots * s.added + prompt_rows;
  }

  /// Whether shortlists are chosen before the model's pass, in the launch that stages its rows:
  /// nobody looks at what the model knows of these, nor takes any of them back.
  template <class Selecting, class Executor>
  static constexpr bool chooses_before_pass =
      !host_reads<Executor> && !RoutedSelector<typename Selecting::selector_type>;

  /// Drafts a level: the model's pass over the first `size` rows, the selector's lists if they are
  /// not there, the head. Returns whether anybody asked for one. A router runs beside the pass
  /// where its contexts are known before, and nobody looks at the statuses of rows in between.
  template <class State, class Step, class Selecting, class S, class Draw, class Executor>
  bool draft_level(State& s, const Step& step, std::int32_t size, Selecting& selector,
                   const S& sampler, const Draw& draw, bool is_last, Executor& executor) {
    const rows next = step.rows.view(size);
    const auto draft = [&](std::int32_t asked, auto& hidden) {
      if (asked == 0) { return false; }
      // The target's pass is one of a view of the target.
      s.trees.draft_level(step.trees, asked, model_, hidden, selector, sampler, draw,
                          is_last && !shares_target_cache<Model>, executor);
      return true;
    };
    if constexpr (chooses_before_pass<Selecting, Executor>) {
      auto hidden = model_.forward(next);
      return draft(s.trees.asks(step.trees.slots), hidden);
    } else if constexpr (RoutedSelector<typename Selecting::selector_type> &&
                         hunch::detail::has_early_contexts<std::remove_reference_t<Model>>) {
      const context_rows contexts = model_.contexts(next);
      if constexpr (host_reads<Executor>) {
        auto hidden = model_.forward(next);
        drop_full(step, size, hidden, executor);
        return draft(s.trees.choose_lists(step.trees, contexts, selector, executor), hidden);
      } else {
        std::int32_t asked = 0;
        const auto pass = [&] {
          side_stream<Executor> side(executor);
          asked = s.trees.choose_lists(step.trees, contexts, selector, side.executor());
          return model_.forward(next);
        };
        auto hidden = pass();
        return draft(asked, hidden);
      }
    } else {
      auto hidden = model_.forward(next);
      drop_full(step, size, hidden, executor);
      return draft(s.trees.choose_lists(step.trees, hidden, selector, executor), hidden);
    }
  }

  /// Commits what is kept, and drops what is released: so many at most, where the host does not
  /// read how many.
  template <class State, class Executor>
  void commit(State& s, Executor& executor, std::int32_t most, std::int32_t most_released) {
    // A cache that is the target's is the target's to commit.
    if constexpr (!shares_target_cache<Model>) {
      const std::int32_t* const counts = s.made.counts;
      const std::int32_t size = known_count(executor, counts + 1, most);
      model_.commit(s.kept.arrays().view(size, known_count(executor, counts + 2, most_released)));
    }
  }

  /// Reads a chunk after the other of every sequence that drafts and has more than one to read
  /// before.
  template <class State, class Step, class Executor>
  void read_missed(State& s, const Step& step, Executor& executor) {
    for (;;) {
      executor.launch(step.trees.slots, stage_missed<Step>{step});
      const std::int32_t size = known_count(executor, step.counts, 0);
      if (size == 0) { return; }
      auto hidden = model_.forward(step.rows.view(size));
      drop_full(step, size, hidden, executor);
      executor.launch(step.trees.slots, keep_missed<Step>{step, s.kept.arrays()});
      commit(s, executor, 0, 0);
    }
  }

  /// Takes back rows for which the model's cache had no room.
  template <class Step, class Hidden, class Executor>
  static void drop_full([[maybe_unused]] const Step& step, [[maybe_unused]] std::int32_t size,
                        [[maybe_unused]] Hidden& hidden, [[maybe_unused]] Executor& executor) {
    if constexpr (host_reads<Executor>) {
      if (!take_statuses(hidden, size, step.statuses)) {
        executor.launch(step.trees.slots, drop_full_rows<Step>{step});
      }
    }
  }

  Model model_;
  Policy policy_;
};

template <class Model, class Tree, class Policy = length::fixed>
autoregressive(Model&&, Tree, Policy = {}) -> autoregressive<Model, Tree, Policy>;

}  // namespace hunch::drafter
