// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/config.hpp>
#include <hunch/law.hpp>
#include <hunch/rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/types.hpp>

namespace hunch {

/// How the children of a draft node came about. It decides which verifiers are exact.
enum class child_law {
  ranked,               ///< chosen, not drawn (top-k, n-grams): a point mass, there is no law q
  independent,          ///< drawn from q, each independently; duplicates stay
  without_replacement,  ///< drawn from q one after the other, each without the ones before
};

/// The draft of one sequence: a tree in structure-of-arrays form, at most `max_nodes` nodes, a
/// compile-time constant of the drafter. A trivially copyable view.
///
/// Node 0 is the root, the last emitted token, which is not in the target's cache yet. A parent
/// comes before its children, and siblings are in draw order. A chain is a tree of width one.
///
/// Once drawn, a token is never dropped because of its value, reordered or merged: that would
/// change the law that it was drawn from.
template <class Real = float>
struct draft_tree {
  std::int32_t count = 0;            ///< nodes, the root included
  token* tokens = nullptr;           ///< [max_nodes]
  std::int32_t* parent = nullptr;    ///< [max_nodes]; -1 for the root
  std::int32_t* drawn_at = nullptr;  ///< [max_nodes] position of the token in its shortlist
  law<Real>* laws = nullptr;         ///< [max_nodes] the law of the children of each node
  shortlist* lists = nullptr;        ///< [max_nodes] what that law ranges over

  /// The next child of `node` after node `after` in draw order, or -1. Start with after = node.
  HUNCH_HOST_DEVICE std::int32_t next_child(std::int32_t node, std::int32_t after) const {
    for (std::int32_t i = after + 1; i < count; ++i) {
      if (parent[i] == node) { return i; }
    }
    return -1;
  }
};

/// What a drafter is told about one sequence.
struct draft_context {
  std::int32_t slot = 0;             ///< of the sequence in the models
  const token* committed = nullptr;  ///< [length]: prompt and emitted tokens; the last is the root
  std::int32_t length = 0;
  std::int32_t max_depth = 0;  ///< draft at most so many levels; 0: none
  std::uint64_t seed = 0;
  sampling_parameters parameters;
};

/// The draft trees of one step: storage for `max_batch` sequences, made by the decoder and filled
/// by the drafter. The logits of draft rows are stored with the draft, because its laws are views
/// of them.
template <class Real, class Executor>
class draft_batch {
 public:
  using real = Real;

  draft_batch(Executor& executor, std::int32_t max_batch, std::int32_t max_nodes,
              std::int32_t max_ranges, std::int32_t max_rows)
      : max_nodes_(max_nodes),
        max_ranges_(max_ranges),
        max_rows_(max_rows),
        count_(executor, static_cast<std::size_t>(max_batch)),
        tokens_(executor, nodes(max_batch)),
        parent_(executor, nodes(max_batch)),
        drawn_at_(executor, nodes(max_batch)),
        laws_(executor, nodes(max_batch)),
        lists_(executor, nodes(max_batch)),
        ranges_(executor, nodes(max_batch) * static_cast<std::size_t>(max_ranges)),
        // The children of the deepest node are never drawn, so max_nodes - 1 laws per sequence.
        logits_(executor, static_cast<std::size_t>(max_batch) *
                              static_cast<std::size_t>(max_nodes - 1) *
                              static_cast<std::size_t>(max_rows)) {}

  /// The tree of sequence k of this step.
  draft_tree<Real> tree(std::int32_t k) const {
    const std::int64_t first = static_cast<std::int64_t>(k) * max_nodes_;
    return {count_.data()[k],         tokens_.data() + first, parent_.data() + first,
            drawn_at_.data() + first, laws_.data() + first,   lists_.data() + first};
  }

  std::int32_t& count(std::int32_t k) const { return count_.data()[k]; }
  std::int32_t max_nodes() const { return max_nodes_; }

  /// Room for the ranges of the shortlist of node `node` of sequence k.
  row_range* ranges(std::int32_t k, std::int32_t node) const {
    return ranges_.data() + (static_cast<std::int64_t>(k) * max_nodes_ + node) *
                                static_cast<std::int64_t>(max_ranges_);
  }
  /// Room for the draft logits of node `node` < max_nodes - 1 of sequence k.
  Real* logits(std::int32_t k, std::int32_t node) const {
    return logits_.data() + (static_cast<std::int64_t>(k) * (max_nodes_ - 1) + node) *
                                static_cast<std::int64_t>(max_rows_);
  }

  /// Makes tree k a lone root.
  void plant(std::int32_t k, token root) const {
    draft_tree<Real> t = tree(k);
    count(k) = 1;
    t.tokens[0] = root;
    t.parent[0] = -1;
  }

 private:
  std::size_t nodes(std::int32_t max_batch) const {
    return static_cast<std::size_t>(max_batch) * static_cast<std::size_t>(max_nodes_);
  }

  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::int32_t max_nodes_;
  std::int32_t max_ranges_;
  std::int32_t max_rows_;
  buffer<std::int32_t> count_;
  buffer<token> tokens_;
  buffer<std::int32_t> parent_;
  buffer<std::int32_t> drawn_at_;
  buffer<law<Real>> laws_;
  buffer<shortlist> lists_;
  buffer<row_range> ranges_;
  buffer<Real> logits_;
};

}  // namespace hunch
