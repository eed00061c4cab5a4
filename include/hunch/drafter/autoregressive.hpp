// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/detail/growth.hpp>
#include <hunch/drafter/drafter.hpp>
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
/// Waits for the executor once per level, after the draws; once more where a length policy looks at
/// the laws, a selector advises or a dynamic tree grows; and after each such chunk.
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
  static_assert(DraftModel<std::remove_reference_t<Model>> ||
                    DraftModel<std::remove_reference_t<Model>, double>,
                "hunch: the model of drafter::autoregressive must model hunch::DraftModel: "
                "vocab_size(), head_order(), forward(rows), head(hidden, head_rows) and "
                "commit(kept_rows) noexcept");

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;
  static constexpr bool reads_own_draft = true;
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
    state(Executor& executor, const drafter_setup& setup)
        : chunk(setup.chunk),
          rows(executor, setup.max_batch * std::max(setup.chunk, Tree::max_width)),
          kept(executor, setup.max_batch * (setup.chunk + max_nodes), setup.max_batch),
          trees(executor, setup),
          slots(static_cast<std::size_t>(setup.max_batch)),
          staged(static_cast<std::size_t>(setup.max_batch)) {}

    struct slot_state {
      std::int32_t cached = 0;  ///< tokens in the model's cache
      bool full = false;        ///< its cache had no room: this sequence drafts no more
    };
    /// What was staged for a slot in this step: committed tokens, the root at last if it
    /// drafts, and then nodes of its tree.
    struct staged_tokens {
      bool drafts = false;
      std::int32_t known = 0;      ///< committed tokens that the model may read
      std::int32_t first_row = 0;  ///< in the last pass over committed tokens
      std::int32_t read = 0;       ///< committed tokens, at the ids 0 .. read - 1
      std::int32_t ids = 0;        ///< with the nodes
      bool full = false;
    };

    std::int32_t chunk;
    staged_rows<Executor> rows;
    kept_list<Executor> kept;
    growth<Tree, Policy, Real, Executor> trees;
    std::vector<slot_state> slots;
    std::vector<staged_tokens> staged;
  };

  void check(const drafter_setup& setup) {
    check_model("hunch::drafter::autoregressive", "the draft model", model_, setup);
  }

  template <class State, class Drafts, VocabSelector Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftModel<std::remove_reference_t<Model>, typename Drafts::real>,
                  "hunch: the draft model's head must write logits of the target's type");
    s.trees.begin(policy_, slots);
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      s.staged[static_cast<std::size_t>(slot)] = plan(s, slot, contexts[slot]);
    }
    while (stage_missed(s, slots, contexts)) { read_missed(s, slots, executor); }
    stage_committed(s, slots, contexts);
    while (s.rows.size() > 0) {
      auto hidden = model_.forward(s.rows.view());
      drop_full(s, slots, hidden);
      if (s.trees.frontier().empty()) { break; }
      s.trees.draft_level(model_, hidden, policy_, contexts, drafts, selector, sampler, draw,
                          executor);
      stage_frontier(s, contexts, drafts);
    }
    s.trees.finish(slots, contexts, drafts, executor);
  }

  template <class State, class E>
  void observe(State& s, const draft_outcomes& outcomes, E&) noexcept {
    s.kept.clear();
    for (std::int32_t k = 0; k < outcomes.size; ++k) {
      const draft_outcome& outcome = outcomes.of[k];
      auto& slot = s.slots[static_cast<std::size_t>(outcome.slot)];
      if (outcome.finished) {
        s.kept.release(outcome.slot);
        slot = {};
        continue;
      }
      const auto& staged = s.staged[static_cast<std::size_t>(outcome.slot)];
      for (std::int32_t i = 0; i < staged.read; ++i) {
        s.kept.keep({.slot = outcome.slot, .id = i});
      }
      std::int32_t nodes = 0;
      for (; !rereads_accepted<Model> && staged.read > 0 && nodes < outcome.kept; ++nodes) {
        const std::int32_t id = s.trees.staged_as(outcome.slot, outcome.path[nodes]);
        if (id < 0) { break; }
        s.kept.keep({.slot = outcome.slot, .id = id});
      }
      slot.cached += staged.read + nodes;
      slot.full = slot.full || staged.full;
    }
    s.trees.observe(policy_, outcomes);
    commit(s);
  }

  template <class State>
  void release(State& s, std::int32_t slot) noexcept {
    s.kept.clear();
    s.kept.release(slot);
    s.slots[static_cast<std::size_t>(slot)] = {};
    s.trees.release(policy_, slot);
    commit(s);
  }

 private:
  template <class State>
  void commit(State& s) noexcept {
    // A cache that is the target's is the target's to commit.
    if constexpr (!shares_target_cache<Model>) { model_.commit(s.kept.view()); }
  }

  /// What a slot is to do in this step, before anything is staged. A sequence drafts if the model
  /// may read up to its root.
  template <class State>
  typename State::staged_tokens plan(State& s, std::int32_t slot, const draft_context& c) const {
    auto& read = s.slots[static_cast<std::size_t>(slot)];
    if (shares_target_cache<Model>) { read = {c.cached, false}; }
    typename State::staged_tokens staged;
    // A model that depends on what the target made of a token reads after it.
    staged.known = rereads_accepted<Model> ? std::min(c.length, c.cached + 1) : c.length;
    // In the target's cache nobody else reads anything.
    const bool reaches = !shares_target_cache<Model> || staged.known - read.cached <= s.chunk;
    staged.drafts = !read.full && c.max_depth > 0 && staged.known == c.length && reaches &&
                    s.trees.opens(policy_, slot, c);
    return staged;
  }

  /// Stages the first `count` committed tokens of a slot that the model has not read.
  template <class State>
  void stage_tokens(State& s, std::int32_t slot, const draft_context& c, std::int32_t count) const {
    const std::int32_t cached = s.slots[static_cast<std::size_t>(slot)].cached;
    auto& staged = s.staged[static_cast<std::size_t>(slot)];
    staged.first_row = s.rows.size();
    staged.read = count;
    staged.ids = count;
    for (std::int32_t i = 0; i < count; ++i) {
      const bool is_root = staged.drafts && cached + i == c.length - 1;
      s.rows.push({.slot = slot,
                   .id = i,
                   .parent = i == 0 ? end_of_cache : i - 1,
                   .position = cached + i,
                   .t = c.committed[cached + i],
                   .wanted = is_root});
    }
  }

  /// Stages a chunk of every sequence that drafts and has more than a chunk to read before; returns
  /// whether there is one.
  template <class State>
  bool stage_missed(State& s, std::int32_t slots, const draft_context* contexts) const {
    s.rows.clear();
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      const auto& staged = s.staged[static_cast<std::size_t>(slot)];
      const bool lags = staged.drafts && !staged.full && unread(s, slot) > s.chunk;
      stage_tokens(s, slot, contexts[slot], lags ? s.chunk : 0);
    }
    return s.rows.size() > 0;
  }

  template <class State>
  static std::int32_t unread(const State& s, std::int32_t slot) {
    const auto at = static_cast<std::size_t>(slot);
    return s.staged[at].known - s.slots[at].cached;
  }

  /// Reads what `stage_missed` has staged.
  template <class State, class Executor>
  void read_missed(State& s, std::int32_t slots, Executor& executor) {
    auto hidden = model_.forward(s.rows.view());
    drop_full(s, slots, hidden);
    s.kept.clear();
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      const std::int32_t read = s.staged[static_cast<std::size_t>(slot)].read;
      for (std::int32_t i = 0; i < read; ++i) { s.kept.keep({.slot = slot, .id = i}); }
      s.slots[static_cast<std::size_t>(slot)].cached += read;
    }
    commit(s);
    executor.synchronize();  // the lists of rows are written again
  }

  /// The committed tokens that the model has not read, of those that draft all. Without drafting,
  /// only whole chunks are worth a pass, and only if a draft is to be expected: of a prompt that
  /// the target has not read to its end either. What nobody drafts from is never read.
  template <class State>
  void stage_committed(State& s, std::int32_t slots, const draft_context* contexts) const {
    s.rows.clear();
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      const draft_context& c = contexts[slot];
      auto& staged = s.staged[static_cast<std::size_t>(slot)];
      const std::int32_t left = unread(s, slot);
      const bool full = staged.full || s.slots[static_cast<std::size_t>(slot)].full;
      const bool in_pieces =
          !c.idle && c.cached + 1 < c.length && left >= s.chunk && !shares_target_cache<Model>;
      const bool reads = !full && (staged.drafts || in_pieces);
      stage_tokens(s, slot, c, reads ? std::min(left, s.chunk) : 0);
      if (reads && staged.drafts) {
        s.trees.add_root(slot, s.rows.size() - 1);
        s.trees.set_staged(s.trees.frontier().back(), staged.read - 1);
      }
    }
  }

  /// Takes back rows for which the model's cache had no room. Which rows fit does not depend on
  /// what was drawn, so nothing is biased: the draft is only shorter. The first passes have
  /// committed tokens of any sequence, the later ones the nodes that are drafted from.
  template <class State, class Hidden>
  static void drop_full(State& s, std::int32_t slots, Hidden& hidden) {
    for (std::int32_t slot = 0; s.trees.depth() == 0 && slot < slots; ++slot) {
      auto& staged = s.staged[static_cast<std::size_t>(slot)];
      std::int32_t fitted = 0;
      while (fitted < staged.read && hidden.status(staged.first_row + fitted) == status::ok) {
        ++fitted;
      }
      staged.full = staged.full || fitted < staged.read;
      staged.read = fitted;
    }
    std::erase_if(s.trees.frontier(), [&](const frontier_node& n) {
      auto& staged = s.staged[static_cast<std::size_t>(n.tree)];
      staged.full = staged.full || hidden.status(n.row) != status::ok;
      if (hidden.status(n.row) == status::ok) { return false; }
      s.trees.set_staged(n, s.trees.not_staged);
      return true;
    });
  }

  /// The rows of the next pass: the nodes that are drafted from.
  template <class State, class Drafts>
  static void stage_frontier(State& s, const draft_context* contexts, Drafts& drafts) {
    s.rows.clear();
    std::erase_if(s.trees.frontier(), [&](const frontier_node& n) {
      return s.staged[static_cast<std::size_t>(n.tree)].full;
    });
    for (frontier_node& n : s.trees.frontier()) {
      const draft_context& c = contexts[n.tree];
      const auto tree = drafts.tree(n.tree);
      const std::int32_t id = s.staged[static_cast<std::size_t>(n.tree)].ids++;
      n.row = s.rows.push({.slot = n.tree,
                           .id = id,
                           .parent = s.trees.staged_as(n.tree, tree.parent[n.node]),
                           .position = c.length - 1 + s.trees.depth(),
                           .t = tree.tokens[n.node],
                           .wanted = true});
      s.trees.set_staged(n, id);
    }
  }

  Model model_;
  Policy policy_;
};

template <class Model, class Tree>
autoregressive(Model&&, Tree) -> autoregressive<Model, Tree>;
template <class Model, class Tree, class Policy>
autoregressive(Model&&, Tree, Policy) -> autoregressive<Model, Tree, Policy>;

}  // namespace hunch::drafter
