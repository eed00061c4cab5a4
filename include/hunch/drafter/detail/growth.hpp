// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/draft/detail/copy_rows.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/drafter/detail/level_lists.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// What the nodes at one depth of a tree have in common.
enum class level_logits {
  own,     ///< each has its own row of logits
  common,  ///< one row for all: a head that looks ahead does not see what was drafted
};

/// Grows the draft trees of a step level by level: shortlists for the frontier, places for its
/// logits, children from their laws, and the nodes that become of them. What drafters with a law
/// have in common; where logits come from is theirs.
///
/// Between two levels the caller may take nodes out of the frontier, which is exact as long as it
/// does not depend on what was not drawn yet: a cache is full.
template <TreeShape Tree, LengthPolicy Policy, class Real, class Executor,
          level_logits Logits = level_logits::own>
class growth {
  static constexpr bool looks = !std::is_same_v<Policy, length::fixed>;
  static constexpr bool ranked = Tree::children == child_law::ranked;
  static constexpr bool dynamic = DynamicShape<Tree>;
  static constexpr bool common = Logits == level_logits::common;

 public:
  /// Rows of draft logits that one tree needs at the same time. Nobody asks for the laws of ranked
  /// children again, so that their rows are a level's.
  static constexpr std::int32_t law_rows = !ranked ? Tree::max_inner : common ? 1 : Tree::max_width;

  /// \throws std::invalid_argument if so many children cannot be ranked in such a vocabulary.
  growth(Executor& executor, const drafter_setup& setup)
      : best_stride_(checked_stride(setup)),
        lists_(executor, *setup.layout, count(setup, Tree::max_width)),
        copies_(executor, common && !ranked ? count(setup, Tree::max_width) : 0),
        drawn_(executor, ranked ? 0 : count(setup, Tree::max_width)),
        ranked_(executor, ranked ? count(setup, Tree::max_width) : 0),
        laws_(executor, ranked ? count(setup, Tree::max_width) : 0),
        best_(executor, ranked ? count(setup, std::int64_t{Tree::max_width} * best_stride_) : 0),
        child_(executor, count(setup, child_slots)),
        child_at_(executor, ranked ? 0 : count(setup, child_slots)),
        child_value_(executor, ranked || looks ? count(setup, child_slots) : 0),
        value_(executor, count(setup, Tree::max_nodes)),
        place_(count(setup, Tree::max_nodes)),
        staged_as_(count(setup, Tree::max_nodes)),
        lengths_(setup.max_batch),
        evidence_(executor, count(setup, evidence_slots)),
        probability_(executor, count(setup, evidence_slots)),
        entropy_(executor, Policy::needs_entropy ? count(setup, evidence_slots) : 0),
        nowhere_(executor, 1),
        goes_on_(count(setup, 1)),
        trees_(executor, dynamic ? count(setup, 1) : 0),
        node_of_(executor, dynamic ? count(setup, child_slots) : 0),
        grown_as_(executor, dynamic ? count(setup, Tree::max_nodes) : 0),
        kept_as_(executor, dynamic ? count(setup, Tree::max_nodes) : 0),
        order_(executor, dynamic ? count(setup, most_ordered()) : 0),
        level_(count(setup, 1)),
        was_staged_(index(Tree::max_nodes)),
        was_list_(index(Tree::max_nodes)) {
    frontier_.reserve(count(setup, Tree::max_width));
    next_.reserve(count(setup, Tree::max_width));
  }

  /// The nodes that are drafted from next, by sequence.
  std::vector<frontier_node>& frontier() { return frontier_; }
  /// Of these nodes: 0 for roots.
  std::int32_t depth() const { return depth_; }

  /// Begins a step. All trees are lone roots that nobody drafts from.
  void begin(const Policy& policy, std::int32_t size, const draft_context* contexts) {
    frontier_.clear();
    depth_ = 0;
    for (std::int32_t k = 0; k < size; ++k) { lengths_.begin(policy, k, contexts[k].slot, 0); }
    std::fill_n(level_.begin(), size, std::int32_t{-1});
  }

  /// Whether sequence k, which may draft, is to: if so, `add_root` follows.
  bool opens(const Policy& policy, std::int32_t k, const draft_context& c) {
    return lengths_.begin(policy, k, c.slot, std::min(c.max_depth, Tree::max_depth)) > 0;
  }

  /// Sequence k drafts. In ascending order of k.
  /// \param row of the pass, whose hidden state is that of the root.
  void add_root(std::int32_t k, std::int32_t row) {
    frontier_.push_back({k, 0, row});
    level_[index(k)] = 0;
    value_.data()[node_index(k, 0)] = 0.0f;
    add_node(k, 0, 0);
  }

  /// Notes the id under which a node's row is staged; `not_staged` if it is not.
  static constexpr std::int32_t not_staged = -1;
  void note_staged(const frontier_node& n, std::int32_t id) {
    staged_as_[node_index(n.sequence, n.node)] = id;
  }
  /// What was noted of a node of the growing tree k, or of the finished one.
  std::int32_t staged_as(std::int32_t k, std::int32_t node) const {
    return staged_as_[node_index(k, node)];
  }

  /// Drafts the children of the frontier, whose rows of a pass are in `hidden`: the selector's
  /// shortlists, the model's head over them, children of the laws. Those that are drafted from, if
  /// the policy says so, are the new frontier; their rows are the caller's to fill in. Waits for
  /// the executor.
  template <class Model, class Hidden, class Drafts, VocabSelector Selector, class S, class Draw>
  void draft_level(Model& model, Hidden& hidden, const Policy& policy,
                   const draft_context* contexts, Drafts& drafts, Selector& selector,
                   const S& sampler, const Draw& draw, Executor& executor) {
    if constexpr (RoutedSelector<Selector>) {
      static_assert(
          requires {
            { hidden.context(0) } -> std::convertible_to<const float*>;
          },
          "hunch: a selector with a router asks the draft model for contexts: "
          "context_width(), and context(row) of what forward returns");
    }
    const head_rows<Real> rows = choose_lists(drafts, selector, hidden);
    model.head(hidden, rows);
    if constexpr (AdvisingSelector<Selector, Real>) {
      executor.synchronize();  // the logits are there
      selector.advise(rows);
    }
    grow(policy, contexts, drafts, sampler, draw, executor);
  }

  /// Drafts all levels from one pass, and makes trees of them: what drafters do that look ahead.
  /// The logits of sequence k at level j are those of row first_row(k) + j of `hidden`.
  template <class Model, class Hidden, class FirstRow, class Drafts, VocabSelector Selector,
            class S, class Draw>
  void draft_ahead(Model& model, Hidden& hidden, const FirstRow& first_row, const Policy& policy,
                   std::int32_t size, const draft_context* contexts, Drafts& drafts,
                   Selector& selector, const S& sampler, const Draw& draw,
                   Executor& executor) requires(common) {
    while (!frontier_.empty()) {
      for (frontier_node& n : frontier_) { n.row = first_row(n.sequence) + depth_; }
      draft_level(model, hidden, policy, contexts, drafts, selector, sampler, draw, executor);
    }
    finish(size, contexts, drafts, executor);
  }

  /// What became of the step; noexcept, as `Drafter` asks.
  void observe(const Policy& policy, const draft_outcomes& outcomes) noexcept {
    lengths_.observe(policy, outcomes);
  }
  void release(std::int32_t slot) noexcept { lengths_.release(slot); }

  /// Makes trees of what was grown. Waits for the executor.
  template <class Drafts>
  void finish(std::int32_t size, const draft_context* contexts, Drafts& drafts,
              Executor& executor) {
    if constexpr (dynamic) {
      std::int32_t tasks = 0;
      for (std::int32_t k = 0; k < size; ++k) {
        if (level_[index(k)] >= 0) { trees_.data()[tasks++] = dynamic_view(k, drafts); }
      }
      if (tasks == 0) { return; }
      executor.launch(tasks, kernel::keep_best{trees_.data(), Tree::total - 1});
      executor.synchronize();
      for (std::int32_t k = 0; k < size; ++k) {
        if (level_[index(k)] >= 0) { adopt(k, contexts[k], drafts); }
      }
    }
  }

 private:
  /// Chooses the shortlists of the frontier. Returns which rows of the model's pass go through its
  /// head, over which of its rows, and where to.
  template <class Drafts, class Selector, class Hidden>
  head_rows<Real> choose_lists(Drafts& drafts, Selector& selector, Hidden& hidden) {
    lists_.clear();
    for_each_law([&](std::size_t f, std::int32_t row) {
      if (leads(f)) { lists_.template ask<Selector>(frontier_[f], row, drafts, hidden); }
    });
    const head_rows<Real> rows = lists_.choose(depth_, drafts, selector);
    for (std::size_t f = 0; f < frontier_.size(); ++f) {
      const auto lists = drafts.tree(frontier_[f].sequence).lists;
      if (!leads(f)) { lists[frontier_[f].node] = lists[frontier_[f - 1].node]; }
    }
    return rows;
  }

  /// Makes children of the logits of the frontier, and a new frontier.
  template <class Drafts, class S, class Draw>
  void grow(const Policy& policy, const draft_context* contexts, Drafts& drafts, const S& sampler,
            const Draw& draw, Executor& executor) {
    if constexpr (ranked) {
      rank(contexts, drafts, sampler, executor);
    } else {
      draw_all(contexts, drafts, sampler, draw, executor);
    }
    ++depth_;
    ask(policy, contexts, drafts, S::always_greedy, executor);
    next_.clear();
    if constexpr (dynamic) {
      expand(contexts, drafts, executor);
    } else {
      for (std::size_t f = 0; f < frontier_.size(); ++f) { link(contexts, drafts, f); }
    }
    frontier_.swap(next_);
  }

  /// Asks the policy of every sequence whether it goes on behind the level that was just drawn.
  template <class Drafts>
  void ask(const Policy& policy, const draft_context* contexts, Drafts& drafts, bool always_greedy,
           Executor& executor) {
    if constexpr (looks) { take_evidence(drafts, executor); }
    for_each_tree([&](std::int32_t k, std::size_t first, std::size_t end) {
      length_evidence evidence;
      if constexpr (looks) {
        evidence.rows = rows_of(k, first, end, drafts);
        if constexpr (dynamic) { evidence.max_rows = Tree::total; }
        evidence.drawn = !ranked && !always_greedy && contexts[k].parameters.temperature > 0.0f;
        find_best(k, first, end, evidence);
      }
      goes_on_[index(k)] = lengths_.drew(k) && lengths_.goes_on(policy, k, evidence) ? 1 : 0;
    });
  }

  /// Calls use(k, first, end) for every sequence with nodes [first, end) in the frontier.
  template <class Use>
  void for_each_tree(Use&& use) const {
    for (std::size_t first = 0, end = 0; first < frontier_.size(); first = end) {
      while (end < frontier_.size() && frontier_[end].sequence == frontier_[first].sequence) {
        ++end;
      }
      use(frontier_[first].sequence, first, end);
    }
  }

  /// The rows that the target will have of tree k, with the new children of nodes [first, end).
  template <class Drafts>
  std::int32_t rows_of(std::int32_t k, std::size_t first, std::size_t end, Drafts& drafts) const {
    std::int32_t rows = drafts.count(k);
    if constexpr (dynamic) { return std::min(Tree::total, 1 + Tree::max_children * rows); }
    for (std::size_t f = first; f < end; ++f) {
      const std::int32_t place = place_[node_index(k, frontier_[f].node)];
      for (std::int32_t i = 0; i < Tree::asked(place); ++i) {
        const bool there = child_.data()[child_index(f) + index(i)] != no_token;
        rows += there && Tree::child(place, i) >= 0 ? 1 : 0;
      }
    }
    return rows;
  }

  /// How sure the draft laws are of the children that were drawn; of ranked ones that is known,
  /// but for the entropy of the law.
  template <class Drafts>
  void take_evidence(Drafts& drafts, Executor& executor) {
    if (!has_evidence) { return; }
    std::int32_t laws = 0;
    for (std::size_t f = 0; f < frontier_.size(); ++f) {
      const frontier_node& n = frontier_[f];
      laws += leads(f) ? 1 : 0;
      const law<Real>* const of =
          ranked ? laws_.data() + laws - 1 : drafts.tree(n.sequence).laws + n.node;
      for (std::size_t i = 0; i < judged; ++i) {
        const std::size_t at = f * judged + i;
        evidence_.data()[at] = {
            of, ranked ? nowhere_.data() : child_at_.data() + child_index(f) + i,
            probability_.data() + at, Policy::needs_entropy ? entropy_.data() + at : nullptr};
      }
    }
    nowhere_.data()[0] = -1;
    executor.launch(static_cast<std::int32_t>(frontier_.size() * judged),
                    kernel::report_evidence<Real>{evidence_.data()});
    executor.synchronize();
  }

  /// Looks for the most probable new child of the nodes [first, end), of tree k.
  void find_best(std::int32_t k, std::size_t first, std::size_t end, length_evidence& evidence) {
    float best = -kernel::infinity<float>;
    evidence.probability = 0.0;
    for (std::size_t f = first; f < end; ++f) {
      const frontier_node& n = frontier_[f];
      const float above = value_.data()[node_index(k, n.node)];
      for (std::int32_t i = 0; i < Tree::asked(place_[node_index(k, n.node)]); ++i) {
        const std::size_t child = child_index(f) + index(i);
        const std::size_t at = f * judged + (ranked ? 0 : index(i));
        if (child_.data()[child] == no_token) { break; }
        if constexpr (!ranked) {
          child_value_.data()[child] =
              above + static_cast<float>(std::log2(probability_.data()[at]));
        }
        if (!(child_value_.data()[child] > best)) { continue; }
        best = child_value_.data()[child];
        evidence.probability = std::exp2(static_cast<double>(best - above));
        if constexpr (Policy::needs_entropy) { evidence.entropy = entropy_.data()[at]; }
      }
    }
    evidence.reach = std::exp2(static_cast<double>(best));
  }

  template <class T>
  using buffer = typename Executor::template buffer<T>;

  /// Places for children of one tree: of all levels where all compete at the end.
  static constexpr std::int64_t child_slots =
      std::int64_t{dynamic ? Tree::max_inner : Tree::max_width} * Tree::max_children;

  /// Children of a node that are judged by bodies for the policy.
  static constexpr std::size_t judged = ranked ? 1 : Tree::max_children;
  static constexpr bool has_evidence = looks && (!ranked || Policy::needs_entropy);
  static constexpr std::int64_t evidence_slots =
      has_evidence ? Tree::max_width * static_cast<std::int64_t>(judged) : 0;

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  static std::size_t count(const drafter_setup& setup, std::int64_t of_one) {
    return index(setup.max_batch * of_one);
  }
  /// Best elements of the tiles of a row, and of the row.
  static std::int32_t checked_stride(const drafter_setup& setup) {
    const auto tiles = static_cast<std::int32_t>(team::tiles_of(setup.vocab_size));
    if (ranked && tiles * Tree::max_children > team::list_capacity) {
      throw std::invalid_argument("hunch::drafter: a tree that ranks " +
                                  std::to_string(Tree::max_children) +
                                  " children of a node, and a vocabulary of " +
                                  std::to_string(setup.vocab_size) + ": too many for a team");
    }
    return (tiles + 1) * Tree::max_children;
  }
  static constexpr std::int32_t most_ordered() {
    if constexpr (dynamic) { return std::max(Tree::max_children, Tree::total - 1); }
    return 0;
  }
  static std::size_t node_index(std::int32_t k, std::int32_t node) {
    return index(k) * index(Tree::max_nodes) + index(node);
  }
  /// Where the children of node f of the frontier are found.
  std::size_t child_index(std::size_t f) const {
    const frontier_node& n = frontier_[f];
    return dynamic ? index(n.sequence) * index(child_slots) + index(n.node * Tree::max_children)
                   : f * index(Tree::max_children);
  }
  /// Whether node f of the frontier has a row of logits of its own.
  bool leads(std::size_t f) const {
    return !common || f == 0 || frontier_[f - 1].sequence != frontier_[f].sequence;
  }

  /// Calls use(f, row) for every node of the frontier, with its row among those of its tree.
  template <class Use>
  void for_each_law(Use&& use) const {
    std::int32_t row = 0;
    for (std::size_t f = 0; f < frontier_.size(); ++f) {
      const bool first = f == 0 || frontier_[f - 1].sequence != frontier_[f].sequence;
      row = first || common ? 0 : row + 1;
      use(f, ranked ? row : frontier_[f].node);
    }
  }

  void add_node(std::int32_t k, std::int32_t node, std::int32_t place) {
    place_[node_index(k, node)] = place;
    staged_as_[node_index(k, node)] = not_staged;
    if constexpr (dynamic) {
      const std::size_t first = index(k) * index(child_slots) + index(node * Tree::max_children);
      std::fill_n(child_.data() + first, Tree::max_children, no_token);
      std::fill_n(node_of_.data() + first, Tree::max_children, std::int32_t{-1});
    }
  }

  template <class Drafts, class S, class Draw>
  void draw_all(const draft_context* contexts, Drafts& drafts, const S& sampler, const Draw& draw,
                Executor& executor) {
    std::int32_t copies = 0;
    const Real* row_of_all = nullptr;
    for_each_law([&](std::size_t f, std::int32_t row) {
      const frontier_node& n = frontier_[f];
      const draft_context& c = contexts[n.sequence];
      const draft_tree<Real> tree = drafts.tree(n.sequence);
      const row_view<Real> logits{drafts.logits(n.sequence, row), tree.lists[n.node].size};
      if (leads(f)) {
        row_of_all = logits.data;
      } else {
        copies_.data()[copies++] = {row_of_all, logits};
      }
      drawn_.data()[f] = {logits,
                          tree.lists[n.node],
                          c.parameters,
                          drafts.history(n.sequence, c, n.node, tree.lists + n.node),
                          address{c.seed, static_cast<std::uint32_t>(c.length),
                                  static_cast<std::uint32_t>(n.node), 0, purpose::draft},
                          static_cast<std::uint32_t>(c.length + depth_),
                          tree.laws + n.node,
                          child_at_.data() + child_index(f),
                          child_.data() + child_index(f),
                          Tree::asked(place_[node_index(n.sequence, n.node)])};
    });
    if (copies > 0) { executor.launch(copies, kernel::copy_rows<Real>{copies_.data()}); }
    executor.launch(
        static_cast<std::int32_t>(frontier_.size()),
        kernel::draw_children<Real, S, Draw, Tree::max_children>{drawn_.data(), sampler, draw});
    executor.synchronize();
  }

  template <class Drafts, class S>
  void rank(const draft_context* contexts, Drafts& drafts, const S& sampler, Executor& executor) {
    std::int32_t asked = 0;
    for_each_law([&](std::size_t f, std::int32_t row) {
      if (!leads(f)) { return; }
      const frontier_node& n = frontier_[f];
      const draft_context& c = contexts[n.sequence];
      const shortlist* const list = drafts.tree(n.sequence).lists + n.node;
      ranked_.data()[asked] = {{drafts.logits(n.sequence, row), list->size},
                               *list,
                               c.parameters,
                               drafts.history(n.sequence, c, n.node, list),
                               value_.data()[node_index(n.sequence, n.node)],
                               most_asked(f),
                               best_.data() + index(asked) * index(best_stride_),
                               laws_.data() + asked,
                               child_.data() + child_index(f),
                               child_value_.data() + child_index(f)};
      ++asked;
    });
    executor.launch(asked, kernel::rank_children<Real, S>{ranked_.data(), sampler});
    executor.synchronize();
    for (std::size_t f = 0; f < frontier_.size(); ++f) {
      if (!leads(f)) { copy_children(f); }
    }
  }

  /// The most children that node f of the frontier, or one that shares its row, is asked for.
  std::int32_t most_asked(std::size_t f) const {
    std::int32_t most = 0;
    for (std::size_t g = f; g < frontier_.size() && (g == f || !leads(g)); ++g) {
      most =
          std::max(most, Tree::asked(place_[node_index(frontier_[g].sequence, frontier_[g].node)]));
    }
    return most;
  }

  /// Gives node f of the frontier the children of the one before it, with which it shares a row.
  void copy_children(std::size_t f) {
    const std::size_t from = child_index(f - 1);
    const std::size_t to = child_index(f);
    const float own = value_.data()[node_index(frontier_[f].sequence, frontier_[f].node)];
    const float more =
        own - value_.data()[node_index(frontier_[f - 1].sequence, frontier_[f - 1].node)];
    for (std::size_t i = 0; i < index(Tree::max_children); ++i) {
      child_.data()[to + i] = child_.data()[from + i];
      // Not above that of the node itself, not even by rounding: parents come before children.
      child_value_.data()[to + i] = std::min(child_value_.data()[from + i] + more, own);
    }
  }

  /// Makes nodes of the children of node f of the frontier that have a place in the shape.
  template <class Drafts>
  void link(const draft_context* contexts, Drafts& drafts, std::size_t f) {
    const frontier_node& n = frontier_[f];
    const draft_context& c = contexts[n.sequence];
    const draft_tree<Real> tree = drafts.tree(n.sequence);
    const std::int32_t place = place_[node_index(n.sequence, n.node)];
    for (std::int32_t i = 0; i < Tree::asked(place); ++i) {
      const std::size_t child = child_index(f) + index(i);
      const std::int32_t place_of_child = Tree::child(place, i);
      if (child_.data()[child] == no_token) { return; }  // a broken row, or nothing is left
      if (place_of_child < 0) { continue; }
      const std::int32_t node = drafts.count(n.sequence);
      tree.tokens[node] = child_.data()[child];
      if constexpr (!ranked) { tree.drawn_at[node] = child_at_.data()[child]; }
      if constexpr (ranked || looks) {
        value_.data()[node_index(n.sequence, node)] = child_value_.data()[child];
      }
      drafts.grow(n.sequence, c, node, n.node);
      add_node(n.sequence, node, place_of_child);
      if (goes_on(n.sequence, place_of_child)) { next_.push_back({n.sequence, node, -1}); }
    }
  }

  /// Whether a new node of tree k at a place is drafted from.
  bool goes_on(std::int32_t k, std::int32_t place) const {
    return goes_on_[index(k)] != 0 && Tree::asked(place) > 0;
  }

  template <class Drafts>
  kernel::dynamic_tree dynamic_view(std::int32_t k, Drafts& drafts) {
    const draft_tree<Real> tree = drafts.tree(k);
    const std::size_t child = index(k) * index(child_slots);
    return {Tree::max_children,
            level_[index(k)],
            &drafts.count(k),
            tree.tokens,
            tree.parent,
            value_.data() + node_index(k, 0),
            child_.data() + child,
            child_value_.data() + child,
            node_of_.data() + child,
            grown_as_.data() + node_index(k, 0),
            kept_as_.data() + node_index(k, 0),
            order_.data() + index(k) * index(most_ordered())};
  }

  /// The best of the new children of each tree are its next level.
  template <class Drafts>
  void expand(const draft_context* contexts, Drafts& drafts, Executor& executor) {
    std::int32_t tasks = 0;
    for_each_tree([&](std::int32_t k, std::size_t, std::size_t) {
      if (goes_on_[index(k)] == 0) { return; }
      trees_.data()[tasks++] = dynamic_view(k, drafts);
      level_[index(k)] = drafts.count(k);
    });
    if (tasks == 0) { return; }
    executor.launch(tasks, kernel::expand_dynamic{trees_.data(), Tree::max_width});
    executor.synchronize();
    for_each_tree([&](std::int32_t k, std::size_t, std::size_t) {
      if (goes_on_[index(k)] == 0) { return; }
      const std::int32_t end = drafts.count(k);
      for (std::int32_t node = level_[index(k)]; node < end; ++node) {
        drafts.grow(k, contexts[k], node, drafts.tree(k).parent[node]);
        add_node(k, node, depth_);
        next_.push_back({k, node, -1});
      }
    });
  }

  /// Makes the best nodes of tree k, which lie in place, a tree.
  template <class Drafts>
  void adopt(std::int32_t k, const draft_context& c, Drafts& drafts) {
    const std::int32_t kept = drafts.count(k);
    const draft_tree<Real> tree = drafts.tree(k);
    const std::size_t first = node_index(k, 0);
    std::copy_n(staged_as_.begin() + static_cast<std::ptrdiff_t>(first), Tree::max_nodes,
                was_staged_.begin());
    std::copy_n(tree.lists, Tree::max_nodes, was_list_.begin());
    drafts.plant(k, c);
    for (std::int32_t node = 0; node < kept; ++node) {
      const std::int32_t grown = grown_as_.data()[first + index(node)];
      staged_as_[first + index(node)] = grown < 0 ? not_staged : was_staged_[index(grown)];
      tree.lists[node] = grown < 0 ? shortlist{} : was_list_[index(grown)];
      if (node > 0) { drafts.grow(k, c, node, tree.parent[node]); }
    }
  }

  std::int32_t best_stride_;
  std::int32_t depth_ = 0;
  // Of the frontier, or of those of its nodes that have their own row.
  level_lists<Real, Executor> lists_;
  buffer<kernel::row_copy<Real>> copies_;
  buffer<kernel::draft_row<Real>> drawn_;
  buffer<kernel::ranked_row<Real>> ranked_;
  buffer<law<Real>> laws_;
  buffer<std::int64_t> best_;
  // Of children.
  buffer<token> child_;
  buffer<std::int32_t> child_at_;
  buffer<float> child_value_;
  // Of nodes.
  buffer<float> value_;
  std::vector<std::int32_t> place_;
  std::vector<std::int32_t> staged_as_;
  // Of sequences.
  length::slots<Policy> lengths_;
  buffer<kernel::evidence_task<Real>> evidence_;
  buffer<double> probability_;
  buffer<double> entropy_;
  buffer<std::int32_t> nowhere_;  ///< no position
  std::vector<char> goes_on_;
  // Of dynamic trees.
  buffer<kernel::dynamic_tree> trees_;
  buffer<std::int32_t> node_of_;
  buffer<std::int32_t> grown_as_;
  buffer<std::int32_t> kept_as_;
  buffer<std::int64_t> order_;
  std::vector<std::int32_t> level_;  ///< the first node of the newest level; -1: drafts nothing
  std::vector<std::int32_t> was_staged_;
  std::vector<shortlist> was_list_;
  std::vector<frontier_node> frontier_;
  std::vector<frontier_node> next_;
};

}  // namespace hunch::drafter
