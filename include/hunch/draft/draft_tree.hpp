// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/grammar.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/ask_for.hpp>

namespace hunch {

/// How the children of a draft node came about. It decides which verifiers are exact.
enum class child_law {
  ranked,               ///< chosen, not drawn (top-k, n-grams): a point mass, there is no law q
  independent,          ///< drawn from q, each independently; duplicates stay
  without_replacement,  ///< drawn from q one after the other, each without the ones before
};

/// The tokens of a draft and how they hang together: a tree in structure-of-arrays form. A
/// trivially copyable view.
///
/// Node 0 is the root, the last emitted token, which is not in the target's cache yet. A parent
/// comes before its children, and siblings are in draw order. A chain is a tree of width one.
///
/// Once drawn, a token is never dropped because of its value, reordered or merged: that would
/// change the law that it was drawn from.
/// \tparam Tokens, Indices arrays: pointers, or what finds its elements when they are read.
template <class Tokens, class Indices>
struct token_tree {
  std::int32_t count = 0;  ///< nodes, the root included
  Tokens tokens = {};      ///< [max_nodes]
  Indices parent = {};     ///< [max_nodes]; -1 for the root
  Indices drawn_at = {};   ///< [max_nodes] position of the token in its shortlist

  /// The next child of `node` after node `after` in draw order, or -1. Start with after = node.
  HUNCH_HOST_DEVICE std::int32_t next_child(std::int32_t node, std::int32_t after) const {
    for (std::int32_t i = after + 1; i < count; ++i) {
      if (parent[i] == node) { return i; }
    }
    return -1;
  }

  /// Nodes between `node` and the root, the root included: 0 for the root itself.
  HUNCH_HOST_DEVICE std::int32_t depth(std::int32_t node) const {
    std::int32_t depth = 0;
    for (std::int32_t up = parent[node]; up >= 0; up = parent[up]) { ++depth; }
    return depth;
  }
};

using drafted_tokens = token_tree<token*, std::int32_t*>;

/// The child of a node where no node has two: the next one, since a parent comes first.
HUNCH_HOST_DEVICE constexpr std::int32_t next_of_chain(std::int32_t count, std::int32_t node,
                                                       std::int32_t after) {
  return after == node && node + 1 < count ? node + 1 : -1;
}

/// The same where no node has two children.
struct chain_tokens : drafted_tokens {
  static constexpr bool is_chain = true;

  HUNCH_HOST_DEVICE std::int32_t next_child(std::int32_t node, std::int32_t after) const {
    return next_of_chain(count, node, after);
  }
};

/// The draft of one sequence: at most `max_nodes` nodes, a compile-time constant of the drafter,
/// and the laws that its tokens were drawn from.
template <class Real = float>
struct draft_tree : drafted_tokens {
  law<Real>* laws = nullptr;   ///< [max_nodes] the law of the children of each node
  shortlist* lists = nullptr;  ///< [max_nodes] what that law ranges over
};

/// What a drafter is given of the sequence in a slot.
struct draft_context {
  const token* committed = nullptr;  ///< [length]: prompt and emitted tokens; the last is the root
  std::int32_t length = 0;           ///< 0: the slot has no sequence, and its tree no nodes
  std::int32_t max_depth = 0;        ///< draft at most so many levels; 0: none
  std::uint64_t seed = 0;
  sampling_parameters parameters;
  token_counts counts;      ///< of the committed tokens, if the sampler needs them
  std::int32_t cached = 0;  ///< tokens that the target has read
  std::int32_t prefix = 0;  ///< tokens that it reads in this step, before the root
  bool idle = false;        ///< no step drafts until further notice: a drafter need not keep up
  bool later = false;  ///< another drafter drafts in this step, and this one may in the next: it
                       ///< reads a prompt when the target does
};

/// Sizes of the storage of a `draft_batch`.
struct draft_capacity {
  std::int32_t max_batch = 1;
  std::int32_t max_nodes = 1;
  std::int32_t max_ranges = 0;  ///< in a shortlist
  std::int32_t max_rows = 0;    ///< in a shortlist
  std::int32_t vocab_size = 0;
  bool grammars = false;       ///< whether sets of allowed tokens are kept
  std::int32_t max_parts = 0;  ///< of a layout, if shortlists come with shifts
  std::int32_t law_rows = 0;   ///< rows of draft logits of a tree that are there at the same time

  /// From one row of logits to the next: all of them can be read four elements at a time.
  HUNCH_HOST_DEVICE std::int32_t row_stride() const { return (max_rows + 3) / 4 * 4; }
};

/// The draft trees of one step, as bodies see them: a trivially copyable view of a `draft_batch`.
/// Arrays are [max_batch, max_nodes], `counts` is [max_batch]; what has several values for a node
/// is found by a function.
///
/// A tree ends before the first node that is no token. Whoever drew it broke the law that it names,
/// and nothing corrects that: it is an error if the text gets there.
template <class Real>
struct draft_trees {
  draft_capacity capacity;
  std::int32_t words = 0;  ///< of a set of allowed tokens
  std::int32_t* counts = nullptr;
  std::int32_t* refused =
      nullptr;  ///< [max_batch] where something hangs that is no token; -1: none
  std::int32_t* computed = nullptr;  ///< [max_batch] levels that took a pass of a drafter at most:
                                     ///< others were found in the text
  token* tokens = nullptr;
  std::int32_t* parents = nullptr;
  std::int32_t* drawn_at = nullptr;
  law<Real>* laws = nullptr;
  shortlist* lists = nullptr;
  row_range* all_ranges = nullptr;
  std::int32_t* all_shifts = nullptr;
  Real* all_logits = nullptr;
  std::uint32_t* all_allowed = nullptr;

  /// The tree of slot k.
  HUNCH_HOST_DEVICE draft_tree<Real> tree(std::int32_t k) const {
    const std::int64_t first = index(k, 0);
    return {{.count = counts[k],
             .tokens = tokens + first,
             .parent = parents + first,
             .drawn_at = drawn_at + first},
            laws + first,
            lists + first};
  }
  HUNCH_HOST_DEVICE std::int32_t& count(std::int32_t k) const { return counts[k]; }

  /// Room for the ranges of the shortlist of node `node` in slot k.
  HUNCH_HOST_DEVICE row_range* ranges(std::int32_t k, std::int32_t node) const {
    return all_ranges + index(k, node) * capacity.max_ranges;
  }
  /// Room for the shifts of that shortlist; nullptr where there are none.
  HUNCH_HOST_DEVICE std::int32_t* shifts(std::int32_t k, std::int32_t node) const {
    return capacity.max_parts == 0 ? nullptr : all_shifts + index(k, node) * capacity.max_parts;
  }
  /// Room for row `row` < law_rows of the draft logits of slot k. Where laws are stored, they
  /// are views of them.
  HUNCH_HOST_DEVICE Real* logits(std::int32_t k, std::int32_t row) const {
    return all_logits + (static_cast<std::int64_t>(k) * capacity.law_rows + row) *
                            static_cast<std::int64_t>(capacity.row_stride());
  }
  /// The tokens that may come after node `node` in slot k.
  HUNCH_HOST_DEVICE std::uint32_t* allowed(std::int32_t k, std::int32_t node) const {
    return all_allowed + index(k, node) * words;
  }

  /// Asks for the tokens of tree k and how they hang together, see `team::ask_nearby_of`.
  template <class T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t k) const {
    team::ask_nearby_of_each(team, k, 1, counts, refused, computed);
    team::ask_nearby_of_each(team, index(k, 0), capacity.max_nodes, tokens, parents, drawn_at);
  }

  /// Makes tree k a lone root.
  HUNCH_HOST_DEVICE void plant(std::int32_t k, token root) const {
    counts[k] = 1;
    refused[k] = -1;
    computed[k] = capacity.max_nodes;
    tokens[index(k, 0)] = root;
    parents[index(k, 0)] = -1;
  }
  /// Adds node `node` = count(k), whose token is in place, to tree k as a child of `parent`. What
  /// is no token of the vocabulary is not added, nor anything after it: the count stays. It is an
  /// error if the text gets to its parent.
  HUNCH_HOST_DEVICE void grow(std::int32_t k, std::int32_t node, std::int32_t parent) const {
    const token t = tokens[index(k, node)];
    if (refused[k] < 0 && (t < 0 || t >= capacity.vocab_size)) { refused[k] = parent; }
    parents[index(k, node)] = parent;
    if (refused[k] < 0) { counts[k] = node + 1; }
  }
  /// The same for a node that is a token.
  HUNCH_HOST_DEVICE void add(std::int32_t k, std::int32_t node, std::int32_t parent) const {
    counts[k] = node + 1;
    parents[index(k, node)] = parent;
  }

  /// Where the row after node `node` of tree k stands, for the sampler.
  /// \param list what a draft row ranges over; nullptr for the target's row.
  HUNCH_HOST_DEVICE row_history history(std::int32_t k, const draft_context& context,
                                        std::int32_t node, const shortlist* list) const {
    return {.list = list,
            .committed = context.committed,
            .length = context.length,
            .counts = context.counts,
            .tree_tokens = tokens + index(k, 0),
            .tree_parent = parents + index(k, 0),
            .node = node,
            .allowed = context.parameters.constrained ? allowed(k, node) : nullptr};
  }

 private:
  HUNCH_HOST_DEVICE std::int64_t index(std::int32_t k, std::int32_t node) const {
    return static_cast<std::int64_t>(k) * capacity.max_nodes + node;
  }
};

/// The draft trees of one step, one for each slot: storage made by the decoder and filled
/// by the drafter. The logits of draft rows are stored with the draft, because its laws are views
/// of them; so are the sets of tokens that a grammar allows after each node.
template <class Real, class Executor>
class draft_batch {
 public:
  using real = Real;

  draft_batch(Executor& executor, const draft_capacity& capacity)
      : owned_(executor),
        walks_(static_cast<std::size_t>(capacity.max_batch)),
        followed_(walks_.size()) {
    view_.capacity = capacity;
    view_.words = capacity.grammars ? allowed_words(capacity.vocab_size) : 0;
    const std::int64_t nodes = std::int64_t{capacity.max_batch} * capacity.max_nodes;
    owned_.give(capacity.max_batch, view_.counts, view_.refused, view_.computed);
    owned_.give(nodes, view_.tokens, view_.parents, view_.drawn_at, view_.laws, view_.lists);
    owned_.give(nodes * capacity.max_ranges, view_.all_ranges);
    owned_.give(nodes * capacity.max_parts, view_.all_shifts);
    owned_.give(std::int64_t{capacity.max_batch} * capacity.law_rows * capacity.row_stride(),
                view_.all_logits);
    owned_.give(nodes * view_.words, view_.all_allowed);
    if (host_reads<Executor> || view_.words == 0) { return; }
    const auto of_one = static_cast<std::size_t>(capacity.max_nodes);
    seen_tokens_.resize(of_one);
    seen_parents_.resize(of_one);
    seen_allowed_.resize(of_one * static_cast<std::size_t>(view_.words));
  }

  const draft_trees<Real>& view() const { return view_; }

  /// The tree of slot k in this step.
  draft_tree<Real> tree(std::int32_t k) const { return view_.tree(k); }
  std::int32_t& count(std::int32_t k) const { return view_.count(k); }
  row_range* ranges(std::int32_t k, std::int32_t node) const { return view_.ranges(k, node); }
  std::int32_t* shifts(std::int32_t k, std::int32_t node) const { return view_.shifts(k, node); }
  Real* logits(std::int32_t k, std::int32_t row) const { return view_.logits(k, row); }

  /// The grammar that the text of slot k follows; nullptr: none. It outlives the steps of the slot.
  void constrain(std::int32_t k, grammar_walk* grammar) {
    grammar_walk*& of = walks_[static_cast<std::size_t>(k)];
    constrained_ += (grammar != nullptr ? 1 : 0) - (of != nullptr ? 1 : 0);
    of = grammar;
  }

  /// Whether the text of any slot follows a grammar.
  bool is_constrained() const { return constrained_ > 0; }

  /// A step begins, whose trees have roots: says what grammars allow after these.
  /// \param prompt_rows that the target reads before roots, at most.
  /// \param levels that any sequence drafts, at most.
  void begin(Executor& executor, std::int32_t prompt_rows, std::int32_t levels) {
    prompt_rows_ = prompt_rows;
    levels_ = levels;
    follow_anew(executor);
  }
  /// What `begin` was told.
  std::int32_t prompt_rows() const { return prompt_rows_; }
  std::int32_t levels() const { return levels_; }

  /// Adds node `node` = count(k), whose token is in place, to tree k as a child of `parent`. For
  /// drafters on the host, where it reads the memory of the step.
  void grow(std::int32_t k, std::int32_t node, std::int32_t parent) {
    view_.grow(k, node, parent);
    if (walks_[static_cast<std::size_t>(k)] != nullptr) {
      follow_tree(k, tree(k), view_.allowed(k, 0));
    }
  }

  /// Where bodies have added nodes to trees: says what grammars allow after each. Waits for the
  /// executor if a sequence follows one.
  void follow(Executor& executor) {
    if (!is_constrained()) { return; }
    if constexpr (host_reads<Executor>) {
      executor.synchronize();
      for (std::int32_t k = 0; k < view_.capacity.max_batch; ++k) {
        if (walks_[static_cast<std::size_t>(k)] != nullptr) {
          follow_tree(k, tree(k), view_.allowed(k, 0));
        }
      }
    } else {
      follow_hidden(executor);
    }
  }
  /// The same where they have given nodes other numbers.
  void follow_anew(Executor& executor) {
    if (!is_constrained()) { return; }
    std::ranges::fill(followed_, 0);
    follow(executor);
  }

  row_history history(std::int32_t k, const draft_context& context, std::int32_t node,
                      const shortlist* list) const {
    return view_.history(k, context, node, list);
  }

 private:
  /// \param allowed [max_nodes, words] out, for the nodes that were added.
  void follow_tree(std::int32_t k, const drafted_tokens& tree, std::uint32_t* allowed) {
    grammar_walk& walk = *walks_[static_cast<std::size_t>(k)];
    std::int32_t& followed = followed_[static_cast<std::size_t>(k)];
    for (; followed < tree.count; ++followed) {
      if (followed == 0) {
        walk.plant(allowed);
        continue;
      }
      walk.grow(followed, tree.parent[followed], tree.tokens[followed],
                allowed + static_cast<std::ptrdiff_t>(followed) * view_.words);
    }
  }

  /// By copies of trees that the host reads.
  void follow_hidden(Executor& executor) {
    const draft_trees<Real>& all = view_;
    for (std::int32_t k = 0; k < view_.capacity.max_batch; ++k) {
      if (walks_[static_cast<std::size_t>(k)] == nullptr) { continue; }
      const std::int32_t before = followed_[static_cast<std::size_t>(k)];
      const auto first = static_cast<std::ptrdiff_t>(k) * view_.capacity.max_nodes;
      std::int32_t count = 0;
      read_buffer(executor, &count, all.counts + k, 1);
      if (count <= before) { continue; }
      read_buffer(executor, seen_tokens_.data(), all.tokens + first,
                  static_cast<std::size_t>(count));
      read_buffer(executor, seen_parents_.data(), all.parents + first,
                  static_cast<std::size_t>(count));
      follow_tree(k,
                  {.count = count, .tokens = seen_tokens_.data(), .parent = seen_parents_.data()},
                  seen_allowed_.data());
      write_buffer(
          executor, all.allowed(k, before),
          seen_allowed_.data() + static_cast<std::ptrdiff_t>(before) * view_.words,
          static_cast<std::size_t>(count - before) * static_cast<std::size_t>(view_.words));
    }
  }

  owned_arrays<Executor> owned_;
  draft_trees<Real> view_;
  std::vector<grammar_walk*> walks_;    ///< [max_batch]
  std::vector<std::int32_t> followed_;  ///< [max_batch] nodes that grammars know of
  std::int32_t constrained_ = 0;        ///< slots with a grammar
  // Of one tree, where the host does not read the executor's memory: [max_nodes].
  std::vector<token> seen_tokens_;
  std::vector<std::int32_t> seen_parents_;
  std::vector<std::uint32_t> seen_allowed_;
  std::int32_t prompt_rows_ = 0;
  std::int32_t levels_ = 0;
};

}  // namespace hunch
