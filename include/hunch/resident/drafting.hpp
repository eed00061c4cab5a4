// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/resident/routing.hpp>
#include <hunch/resident/sequences.hpp>
#include <hunch/resident/step.hpp>

/// \file
/// How drafters propose inside a resident step: only launches and calls of models, the same ones in
/// every step, and no look at what came out.

namespace hunch::resident {

/// The tables of a vocabulary layout where bodies reach them, as `vocab_layout` has them.
struct layout_tables {
  const token* row_token = nullptr;
  const std::int32_t* token_row = nullptr;
  std::int32_t vocab_size = 0;
  const std::int32_t* token_part = nullptr;

  /// \param shifts of the parts, or nullptr.
  HUNCH_HOST_DEVICE shortlist list(const row_range* ranges, std::int32_t count,
                                   const std::int32_t* shifts) const {
    std::int32_t size = 0;
    for (std::int32_t r = 0; r < count; ++r) { size += ranges[r].end - ranges[r].begin; }
    return {.ranges = ranges,
            .range_count = count,
            .size = size,
            .row_token = row_token,
            .token_row = token_row,
            .vocab_size = vocab_size,
            .token_part = token_part,
            .shift = shifts};
  }
};

/// The drafting of D in a resident loop. Specialised for the drafters that can:
///
/// 1. `drafting(drafter, selector, executor, max_batch)`; `keeping()` is what the end of a step
///    needs.
/// 2. `d.propose(slots, all, trees, tables, length, sampler, draw, executor)` plants the trees of
///    the slots [0, slots) and grows them by at most `length` levels.
/// 3. `d.commit(slots)` makes final what the end of the step kept, and drops the caches of what has
///    ended.
/// 4. `d.read(rows)` and `d.keep(kept)` read pieces of prompts that the target has read, between
///    steps.
template <class D, class Selector, class Real, class Executor>
class drafting {
  static_assert(sizeof(D) == 0,
                "hunch: a resident loop drafts with drafter::none, drafter::lookup, or "
                "drafter::autoregressive of a tree::chain and length::fixed: use hunch::decoder");
};

/// Makes the tree of slot `slot` a lone root, or empty.
template <class Real>
struct plant_root {
  sequences all;
  draft_trees<Real> trees;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    const sequence& s = all.of[slot];
    trees.count(slot) = 0;
    if (s.runs()) { trees.plant(slot, all.text(slot)[s.length - 1]); }
  }
};

template <class Selector, class Real, class Executor>
class drafting<drafter::none, Selector, Real, Executor> {
 public:
  drafting(drafter::none&, const Selector&, Executor&, std::int32_t) {}

  draft_keeping keeping() const { return {}; }

  template <class S, class Draw>
  void propose(std::int32_t slots, const sequences& all, const draft_trees<Real>& trees,
               const layout_tables&, std::int32_t, const S&, const Draw&, Executor& executor) {
    executor.launch(slots, plant_root<Real>{all, trees});
  }

  void commit(std::int32_t) noexcept {}
  void read(const rows&) {}
  void keep(const kept_rows&) noexcept {}
};

/// The arrays of a chain that is drafted level by level. A trivially copyable view.
template <class Real>
struct chain_arrays {
  row_arrays first;                ///< [max_batch, unread] committed tokens to be read
  row_arrays later;                ///< [max_batch] one drafted node each
  std::int32_t* head_row;          ///< [max_batch] hidden row whose logits are wanted; -1: none
  shortlist* lists;                ///< [max_batch] over which rows of the head
  row_view<Real>* logits;          ///< [max_batch] and where to
  kernel::draft_row<Real>* tasks;  ///< [max_batch]
  draft_progress* progress;        ///< [max_batch]
};

/// What the bodies of a chain share.
template <class Real, class Chooser>
struct chain_step {
  sequences all;
  draft_trees<Real> trees;
  layout_tables tables;
  chain_arrays<Real> of;
  Chooser chooser;
  std::int32_t length;  ///< draft at most so many tokens
  std::int32_t unread;  ///< committed tokens that the model may not have read

  /// Tokens that slot `slot` drafts in this step: the last token of a text is never drafted.
  HUNCH_HOST_DEVICE std::int32_t limit(const sequence& s) const {
    return s.remaining - 1 < length ? s.remaining - 1 : length;
  }

  /// Where the law and the child of node `node` go; and over which rows of the head, unless a
  /// router says so later.
  HUNCH_HOST_DEVICE void ask(std::int32_t slot, std::int32_t node, std::int32_t hidden_row) const {
    const sequence& s = all.of[slot];
    const draft_tree<Real> tree = trees.tree(slot);
    of.head_row[slot] = hidden_row;
    of.tasks[slot] = {.logits = {},
                      .list = {},
                      .parameters = s.parameters,
                      .history = {.list = tree.lists + node,
                                  .committed = all.text(slot),
                                  .length = s.length,
                                  .counts = all.counts(slot),
                                  .tree_tokens = tree.tokens,
                                  .tree_parent = tree.parent,
                                  .node = node},
                      .where = {.seed = s.seed,
                                .length = static_cast<std::uint32_t>(s.length),
                                .node = static_cast<std::uint32_t>(node),
                                .sibling = 0,
                                .what = purpose::draft},
                      .position = static_cast<std::uint32_t>(s.length + node),
                      .drawn_from = tree.laws + node,
                      .drawn_at = tree.drawn_at + node + 1,
                      .drawn = tree.tokens + node + 1};
    if constexpr (!needs_scores<Chooser>) {
      put_list(slot, node, chooser(tree.tokens[node], node, trees.ranges(slot, node)));
    }
  }

  /// The shortlist of node `node`, made of the first `count` of its ranges.
  HUNCH_HOST_DEVICE void put_list(std::int32_t slot, std::int32_t node, std::int32_t count) const {
    const std::int32_t* const shifts = needs_scores<Chooser> ? trees.shifts(slot, node) : nullptr;
    const shortlist list = tables.list(trees.ranges(slot, node), count, shifts);
    const row_view<Real> logits{trees.logits(slot, node), list.size};
    trees.tree(slot).lists[node] = list;
    of.lists[slot] = list;
    of.logits[slot] = logits;
    of.tasks[slot].list = list;
    of.tasks[slot].logits = logits;
  }
};

/// Chooses the shortlist of node `node` in slot `slot` by what the router has scored.
template <class Real, class Chooser>
struct choose_list {
  chain_step<Real, Chooser> step;
  std::int32_t node;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (step.of.head_row[slot] < 0) { return; }
    const std::int32_t count = step.chooser(team, slot, node, step.trees.ranges(slot, node),
                                            step.trees.shifts(slot, node));
    if (team.rank() == 0) { step.put_list(slot, node, count); }
  }
};

/// Plants the tree of slot `slot` and places the rows of the model's first pass: what it has not
/// read of the text, one token, two after a draft that was accepted whole, or what it reads again.
template <class Real, class Chooser>
struct begin_chain {
  chain_step<Real, Chooser> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    const sequence& s = step.all.of[slot];
    const std::int32_t first = step.unread * slot;
    for (std::int32_t i = 0; i < step.unread; ++i) { step.of.first.pad(first + i); }
    step.of.head_row[slot] = -1;
    step.of.progress[slot] = {};
    step.trees.count(slot) = 0;
    if (!s.runs()) { return; }
    const token* const text = step.all.text(slot);
    step.trees.plant(slot, text[s.length - 1]);
    const std::int32_t unread = s.length - s.draft_cached;
    if (step.limit(s) < 1) { return; }
    for (std::int32_t i = 0; i < unread; ++i) {
      step.of.first.set(first + i, {.slot = slot,
                                    .id = i,
                                    .parent = i == 0 ? end_of_cache : i - 1,
                                    .position = s.draft_cached + i,
                                    .t = text[s.draft_cached + i],
                                    .wanted = i + 1 == unread});
    }
    step.of.progress[slot].read = unread;
    step.ask(slot, 0, first + unread - 1);
  }
};

/// Draws node `node` + 1 of the chain of slot `slot` and places it as the row of the next pass, if
/// the chain goes on.
template <class Real, class Chooser, class S, class Draw>
struct grow_chain {
  chain_step<Real, Chooser> step;
  std::int32_t node;
  S sampler;
  Draw draw;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const bool asked = step.of.head_row[slot] >= 0;
    team.sync();  // every rank has seen whether a child is asked for
    if (team.rank() == 0) {
      step.of.later.pad(slot);
      step.of.head_row[slot] = -1;
    }
    if (!asked) { return; }
    kernel::draw_children<Real, S, Draw>{step.of.tasks, sampler, draw}(team, slot);
    team.sync();  // every rank has read its task, which `ask` writes again
    if (team.rank() != 0) { return; }
    const sequence& s = step.all.of[slot];
    const draft_tree<Real> tree = step.trees.tree(slot);
    const std::int32_t child = node + 1;
    if (tree.tokens[child] == no_token) { return; }  // a row without a law: draft no further
    step.trees.grow(slot, child, node);
    if (child >= step.limit(s)) { return; }
    const std::int32_t before = step.of.progress[slot].read - 1 + node;
    step.of.later.set(slot, {.slot = slot,
                             .id = before + 1,
                             .parent = before,
                             .position = s.length - 1 + child,
                             .t = tree.tokens[child],
                             .wanted = true});
    step.of.progress[slot].nodes = child;
    step.ask(slot, child, slot);
  }
};

template <class Model, class Tree, class Selector, class Real, class Executor>
class drafting<drafter::autoregressive<Model, Tree, length::fixed>, Selector, Real, Executor> {
  static_assert(Tree::is_chain && Tree::children == child_law::independent,
                "hunch: a resident loop drafts chains: give its drafter a tree::chain<N>");
  static_assert(!shares_target_cache<Model>,
                "hunch: a resident loop has no early-exit views of the target: use "
                "hunch::decoder");
  using model_type = std::remove_reference_t<Model>;
  using routing_type = routing<Selector, Executor>;
  using chooser = decltype(std::declval<const routing_type&>().chooser());

  static constexpr std::int32_t unread = rereads_accepted<Model> ? Tree::max_depth + 1 : 2;
  static constexpr std::int32_t stride = Tree::max_depth + 2;  ///< kept rows of a slot

 public:
  drafting(drafter::autoregressive<Model, Tree>& drafter, const Selector& selector,
           Executor& executor, std::int32_t max_batch)
      : drafter_(&drafter),
        routing_(selector, executor, max_batch),
        memory_(executor),
        first_(memory_, unread * max_batch),
        later_(memory_, max_batch),
        kept_(memory_, stride * max_batch, max_batch),
        head_row_(memory_, size(max_batch)),
        lists_(memory_, size(max_batch)),
        logits_(memory_, size(max_batch)),
        tasks_(memory_, size(max_batch)),
        progress_(memory_, size(max_batch)) {}

  draft_keeping keeping() const {
    return {progress_.data(), kept_.arrays(), stride, rereads_accepted<Model>};
  }

  template <class S, class Draw>
  void propose(std::int32_t slots, const sequences& all, const draft_trees<Real>& trees,
               const layout_tables& tables, std::int32_t length, const S& sampler, const Draw& draw,
               Executor& executor) {
    length = std::min(length, drafter_->policy().levels);
    const chain_step<Real, chooser> step{.all = all,
                                         .trees = trees,
                                         .tables = tables,
                                         .of = arrays(),
                                         .chooser = routing_.chooser(),
                                         .length = length,
                                         .unread = unread};
    executor.launch(slots, begin_chain<Real, chooser>{step});
    rows next = first_.arrays().view(unread * slots);
    for (std::int32_t node = 0; node < length; ++node) {
      auto hidden = forward(slots, step, node, next, executor);
      drafter_->model().head(
          hidden, head_rows<Real>{slots, head_row_.data(), lists_.data(), logits_.data()});
      executor.launch(slots, grow_chain<Real, chooser, S, Draw>{step, node, sampler, draw});
      next = later_.arrays().view(slots);
    }
  }

  void commit(std::int32_t slots) noexcept {
    drafter_->model().commit(kept_.arrays().view(stride * slots, slots));
  }
  void read(const rows& piece) { drafter_->model().forward(piece); }
  void keep(const kept_rows& kept) noexcept { drafter_->model().commit(kept); }

 private:
  using memory = resident_memory<Executor>;
  template <class T>
  using buffer = typename memory::template buffer<T>;

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

  /// Whether the router runs beside the pass that it is for.
  static constexpr bool routes_early() {
    if constexpr (needs_scores<chooser>) {
      static_assert(ResidentRoutedModel<model_type>,
                    "hunch: in a resident loop, a selector with a router asks the draft model for "
                    "contexts: context_width(), and contexts(rows) before a pass or contexts() of "
                    "what forward returns");
      return detail::has_early_contexts<model_type>;
    }
    return false;
  }

  /// The model's pass over `next`, and what chooses the shortlist of node `node` in each slot.
  auto forward(std::int32_t slots, const chain_step<Real, chooser>& step, std::int32_t node,
               const rows& next, Executor& executor) {
    if constexpr (routes_early()) {
      const context_rows contexts = drafter_->model().contexts(next);
      const side_stream<Executor> side(executor);  // after what writes the contexts
      route(slots, step, node, contexts, side.executor());
      return drafter_->model().forward(next);
    } else {
      auto hidden = drafter_->model().forward(next);
      if constexpr (needs_scores<chooser>) {
        route(slots, step, node, hidden.contexts(), executor);
      }
      return hidden;
    }
  }

  /// Launches what chooses the shortlist of node `node` in each slot.
  void route(std::int32_t slots, const chain_step<Real, chooser>& step, std::int32_t node,
             const context_rows& contexts, Executor& executor) {
    routing_.score(executor, slots, head_row_.data(), contexts);
    executor.launch(slots, choose_list<Real, chooser>{step, node});
  }

  chain_arrays<Real> arrays() const {
    return {.first = first_.arrays(),
            .later = later_.arrays(),
            .head_row = head_row_.data(),
            .lists = lists_.data(),
            .logits = logits_.data(),
            .tasks = tasks_.data(),
            .progress = progress_.data()};
  }

  drafter::autoregressive<Model, Tree>* drafter_;
  routing_type routing_;
  memory memory_;
  staged_rows<memory> first_;
  staged_rows<memory> later_;
  kept_list<memory> kept_;
  buffer<std::int32_t> head_row_;
  buffer<shortlist> lists_;
  buffer<row_view<Real>> logits_;
  buffer<kernel::draft_row<Real>> tasks_;
  buffer<draft_progress> progress_;
};

}  // namespace hunch::resident
