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

#include <hunch/concepts.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/kernel/draw_children.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/staged_rows.hpp>

namespace hunch::drafter {

/// A smaller model that drafts token by token: any separate, distilled or quantised model, or a
/// view of the target's first layers (Leviathan et al. 2023, arXiv:2211.17192). Each token is
/// drawn from the law that the decoder's sampler makes of the model's logits over the selector's
/// shortlist, so every lossless verifier is exact on it.
///
/// The model's cache advances only in `observe`. What was emitted but not yet read by the model
/// (one token after a draft that was accepted whole; all accepted ones for a model that
/// `rereads_accepted`) is read first in the next step; a long prompt is read in chunks, in step
/// with the target.
///
/// \tparam Model models `DraftModel`; a reference where the caller keeps the model.
template <class Model, class Tree>
class autoregressive {
  static_assert(DraftModel<std::remove_reference_t<Model>> ||
                    DraftModel<std::remove_reference_t<Model>, double>,
                "hunch: the model of drafter::autoregressive must model hunch::DraftModel: "
                "vocab_size(), head_fingerprint(), forward(rows), head(hidden, head_rows) and "
                "commit(kept_rows) noexcept");
  static_assert(Tree::is_chain,
                "hunch: drafter::autoregressive drafts chains: give it a tree::chain<N>");

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;

  explicit autoregressive(Model&& model, Tree = {}) : model_(std::forward<Model>(model)) {}

  std::remove_reference_t<Model>& model() { return model_; }

  /// The rows of a step and, per slot, how far the model has read.
  template <class Real, class Executor>
  struct state {
    state(Executor& executor, const drafter_setup& setup)
        : layout(setup.layout),
          chunk(setup.chunk),
          rows(executor, setup.max_batch * setup.chunk),
          kept(executor, setup.max_batch * (setup.chunk + max_nodes), setup.max_batch),
          tasks(executor, static_cast<std::size_t>(setup.max_batch)),
          head_row(executor, static_cast<std::size_t>(setup.max_batch)),
          head_list(executor, static_cast<std::size_t>(setup.max_batch)),
          head_logits(executor, static_cast<std::size_t>(setup.max_batch)),
          select_token(executor, static_cast<std::size_t>(setup.max_batch)),
          select_ranges(executor, static_cast<std::size_t>(setup.max_batch)),
          select_count(executor, static_cast<std::size_t>(setup.max_batch)),
          select_state(executor, static_cast<std::size_t>(setup.max_batch)),
          slots(static_cast<std::size_t>(setup.max_batch)),
          staged(static_cast<std::size_t>(setup.max_batch)) {
      frontier.reserve(static_cast<std::size_t>(setup.max_batch));
    }

    struct slot_state {
      std::int32_t cached = 0;  ///< tokens in the model's cache
      bool full = false;        ///< its cache had no room: this sequence drafts no more
    };
    /// What was staged for one sequence in this step: committed tokens, then drafted nodes 1, 2...
    struct staged_tokens {
      std::int32_t first_row = 0;  ///< in the current forward pass
      std::int32_t read = 0;       ///< committed tokens, staged ids 0 .. read - 1
      std::int32_t nodes = 0;      ///< drafted nodes that were read, node j at id read - 1 + j
      bool full = false;

      /// The row of the pass whose token is the node that drafts.
      std::int32_t last_row() const { return first_row + (nodes == 0 ? read - 1 : 0); }
    };

    const vocab_layout* layout;
    std::int32_t chunk;
    staged_rows<Executor> rows;
    kept_list<Executor> kept;
    typename Executor::template buffer<kernel::draft_row<Real>> tasks;
    typename Executor::template buffer<std::int32_t> head_row;
    typename Executor::template buffer<shortlist> head_list;
    typename Executor::template buffer<row_view<Real>> head_logits;
    typename Executor::template buffer<token> select_token;
    typename Executor::template buffer<row_range*> select_ranges;
    typename Executor::template buffer<std::int32_t> select_count;
    typename Executor::template buffer<const float*> select_state;
    std::vector<slot_state> slots;
    std::vector<staged_tokens> staged;   ///< per sequence of the step
    std::vector<std::int32_t> frontier;  ///< the sequences that are still drafting
  };

  void check(const drafter_setup& setup) {
    const auto own = static_cast<std::int32_t>(model_.vocab_size());
    if (own != setup.vocab_size) {
      throw std::invalid_argument(
          "hunch::drafter::autoregressive: the draft model has a vocabulary of " +
          std::to_string(own) + ", the target of " + std::to_string(setup.vocab_size));
    }
    if (setup.layout->vocab_size() != setup.vocab_size) {
      throw std::invalid_argument(
          "hunch::drafter::autoregressive: the selector's layout is for a vocabulary of " +
          std::to_string(setup.layout->vocab_size()) + ", the target's has " +
          std::to_string(setup.vocab_size));
    }
    if (model_.head_fingerprint() != setup.layout->fingerprint()) {
      throw std::invalid_argument(
          "hunch::drafter::autoregressive: the draft model's head is not stored in the order of "
          "the selector's layout");
    }
    std::int32_t context = 0;
    if constexpr (requires { model_.context_width(); }) { context = model_.context_width(); }
    if (setup.context_width != 0 && setup.context_width != context) {
      throw std::invalid_argument(
          "hunch::drafter::autoregressive: the selector's router reads contexts of " +
          std::to_string(setup.context_width) + " numbers, those of the draft model have " +
          std::to_string(context));
    }
  }

  template <class State, class Drafts, VocabSelector Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t size, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftModel<std::remove_reference_t<Model>, typename Drafts::real>,
                  "hunch: the draft model's head must write logits of the target's type");
    if constexpr (RoutedSelector<Selector>) {
      static_assert(RoutedModel<std::remove_reference_t<Model>>,
                    "hunch: a selector with a router asks the draft model for contexts: "
                    "context_width(), and context(row) of what forward returns");
    }
    stage_committed(s, size, contexts);
    for (std::int32_t depth = 0; s.rows.size() > 0; ++depth) {
      auto hidden = model_.forward(s.rows.view());
      drop_full(s, size, depth, hidden);
      if (s.frontier.empty()) { return; }
      choose_lists(s, depth, drafts, selector, hidden);
      const head_rows<typename Drafts::real> rows = place_logits(s, contexts, depth, drafts);
      model_.head(hidden, rows);
      if constexpr (AdvisingSelector<Selector, typename Drafts::real>) {
        executor.synchronize();  // the logits are there
        selector.advise(rows);
      }
      executor.launch(
          static_cast<std::int32_t>(s.frontier.size()),
          kernel::draw_children<typename Drafts::real, S, Draw>{s.tasks.data(), sampler, draw});
      executor.synchronize();
      stage_drawn(s, contexts, depth, drafts);
    }
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
      if (outcome.failed) { continue; }
      const auto& staged = s.staged[static_cast<std::size_t>(k)];
      for (std::int32_t i = 0; i < staged.read; ++i) { s.kept.keep(outcome.slot, i); }
      std::int32_t nodes = 0;
      while (!rereads_accepted<Model> && nodes < outcome.kept &&
             outcome.path[nodes] <= staged.nodes) {
        s.kept.keep(outcome.slot, staged.read - 1 + outcome.path[nodes]);
        ++nodes;
      }
      slot.cached += staged.read + nodes;
      slot.full = slot.full || staged.full;
    }
    model_.commit(s.kept.view());
  }

  template <class State>
  void release(State& s, std::int32_t slot) noexcept {
    s.kept.clear();
    s.kept.release(slot);
    s.slots[static_cast<std::size_t>(slot)] = {};
    model_.commit(s.kept.view());
  }

 private:
  /// The committed tokens that the model has not read, at most a chunk of them. A sequence drafts
  /// if they end with the root; without drafting, only whole chunks are worth a pass.
  template <class State>
  static void stage_committed(State& s, std::int32_t size, const draft_context* contexts) {
    s.rows.clear();
    s.frontier.clear();
    for (std::int32_t k = 0; k < size; ++k) {
      const draft_context& c = contexts[k];
      const auto& slot = s.slots[static_cast<std::size_t>(c.slot)];
      auto& staged = s.staged[static_cast<std::size_t>(k)];
      staged = {s.rows.size(), 0, 0, false};
      if (slot.full) { continue; }
      // A model that depends on what the target made of a token reads behind it.
      const std::int32_t known =
          rereads_accepted<Model> ? std::min(c.length, c.cached + 1) : c.length;
      const std::int32_t unread = known - slot.cached;
      const bool drafts = c.max_depth > 0 && known == c.length && unread <= s.chunk;
      staged.read = drafts || unread >= s.chunk ? std::min(unread, s.chunk) : 0;
      for (std::int32_t i = 0; i < staged.read; ++i) {
        s.rows.push(c.slot, i, i == 0 ? end_of_cache : i - 1, slot.cached + i,
                    c.committed[slot.cached + i], drafts && i == staged.read - 1);
      }
      if (drafts) { s.frontier.push_back(k); }
    }
  }

  /// Takes back rows for which the model's cache had no room. Which rows fit does not depend on
  /// what was drawn, so nothing is biased: the draft is only shorter. The first pass has committed
  /// tokens of any sequence, the later ones one drafted node per drafting sequence.
  template <class State, class Hidden>
  static void drop_full(State& s, std::int32_t size, std::int32_t depth, Hidden& hidden) {
    const auto check = [&](std::int32_t k, std::int32_t rows, std::int32_t& staged_rows) {
      auto& staged = s.staged[static_cast<std::size_t>(k)];
      std::int32_t fitted = 0;
      while (fitted < rows && hidden.status(staged.first_row + fitted) == status::ok) { ++fitted; }
      staged.full = fitted < rows;
      staged_rows -= rows - fitted;
    };
    if (depth == 0) {
      for (std::int32_t k = 0; k < size; ++k) {
        std::int32_t& read = s.staged[static_cast<std::size_t>(k)].read;
        check(k, read, read);
      }
    } else {
      for (const std::int32_t k : s.frontier) {
        check(k, 1, s.staged[static_cast<std::size_t>(k)].nodes);
      }
    }
    std::erase_if(s.frontier,
                  [&](std::int32_t k) { return s.staged[static_cast<std::size_t>(k)].full; });
  }

  template <class State, class Drafts, class Selector, class Hidden>
  static void choose_lists(State& s, std::int32_t depth, Drafts& drafts, Selector& selector,
                           [[maybe_unused]] Hidden& hidden) {
    const auto width = static_cast<std::int32_t>(s.frontier.size());
    for (std::int32_t f = 0; f < width; ++f) {
      const std::int32_t k = s.frontier[static_cast<std::size_t>(f)];
      s.head_row.data()[f] = s.staged[static_cast<std::size_t>(k)].last_row();
      s.select_token.data()[f] = drafts.tree(k).tokens[depth];
      s.select_ranges.data()[f] = drafts.ranges(k, depth);
      if constexpr (RoutedSelector<Selector>) {
        s.select_state.data()[f] = hidden.context(s.head_row.data()[f]);
      }
    }
    selector.select(selector_contexts{width, depth, s.select_token.data(), s.select_state.data()},
                    selector_lists{s.select_ranges.data(), s.select_count.data()});
  }

  /// Where the logits, the law and the child of node `depth` of each drafting sequence go.
  template <class State, class Drafts>
  static auto place_logits(State& s, const draft_context* contexts, std::int32_t depth,
                           Drafts& drafts) {
    using real = typename Drafts::real;
    const auto width = static_cast<std::int32_t>(s.frontier.size());
    for (std::int32_t f = 0; f < width; ++f) {
      const std::int32_t k = s.frontier[static_cast<std::size_t>(f)];
      const draft_context& c = contexts[k];
      const draft_tree<real> tree = drafts.tree(k);
      const shortlist list = s.layout->list(s.select_ranges.data()[f], s.select_count.data()[f],
                                            drafts.shifts(k, depth));
      const row_view<real> logits{drafts.logits(k, depth), list.size};
      tree.lists[depth] = list;
      s.head_list.data()[f] = list;
      s.head_logits.data()[f] = logits;
      s.tasks.data()[f] = {logits,
                           list,
                           c.parameters,
                           drafts.history(k, c, depth, tree.lists + depth),
                           address{c.seed, static_cast<std::uint32_t>(c.length),
                                   static_cast<std::uint32_t>(depth), 0, purpose::draft},
                           static_cast<std::uint32_t>(c.length + depth),
                           tree.laws + depth,
                           tree.drawn_at + depth + 1,
                           tree.tokens + depth + 1};
    }
    return head_rows<real>{width, s.head_row.data(), s.head_list.data(), s.head_logits.data()};
  }

  /// Links the drawn tokens into their trees; those that draft on are read next.
  template <class State, class Drafts>
  static void stage_drawn(State& s, const draft_context* contexts, std::int32_t depth,
                          Drafts& drafts) {
    s.rows.clear();
    const std::int32_t node = depth + 1;
    std::erase_if(s.frontier, [&](std::int32_t k) {
      const draft_context& c = contexts[k];
      const auto tree = drafts.tree(k);
      if (tree.tokens[node] == no_token) { return true; }  // a broken draft row: draft no further
      drafts.grow(k, c, node, depth);
      if (node >= std::min(c.max_depth, Tree::max_depth)) { return true; }
      auto& staged = s.staged[static_cast<std::size_t>(k)];
      const std::int32_t before = staged.read - 1 + staged.nodes;
      staged.nodes = node;
      staged.first_row =
          s.rows.push(c.slot, before + 1, before, c.length - 1 + node, tree.tokens[node], true);
      return false;
    });
  }

  Model model_;
};

template <class Model, class Tree>
autoregressive(Model&&, Tree) -> autoregressive<Model, Tree>;

}  // namespace hunch::drafter
