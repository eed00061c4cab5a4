// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch {

namespace detail {

/// Seconds between the phases of a step.
class stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - start_;
    start_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace detail

/// How deep a draft went, and how deep it was put to the test.
struct draft_extent {
  std::int32_t levels = 0;
  std::int32_t tested = 0;  ///< levels below accepted nodes: those that were accepted, and one more
                            ///< if the last of these had a child
  std::int32_t computed = 0;  ///< levels that took a pass of a drafter, see `draft_trees`
};

/// Counters of a decoder, by the field's usual names. A "step" here is a sequence step: one
/// verification of one sequence. Steps that only read a piece of a prompt are not counted.
/// \tparam MaxNodes capacity of the drafter's trees.
template <std::int32_t MaxNodes>
struct statistics {
  std::int64_t steps = 0;
  std::int64_t drafted = 0;          ///< nodes proposed, roots excluded
  std::int64_t accepted = 0;         ///< of these, on the accepted path
  std::int64_t tested = 0;           ///< levels of drafts, see `draft_extent`
  std::int64_t emitted = 0;          ///< tokens given out, after cuts at stops
  std::int64_t target_passes = 0;    ///< calls of the target model
  std::int64_t target_rows = 0;      ///< rows in these calls
  std::int64_t shortlists = 0;       ///< draft rows that drafted nodes come from
  std::int64_t shortlist_rows = 0;   ///< head rows in their shortlists
  std::int64_t empty_residuals = 0;  ///< rejections whose residual was zero: drawn from p
  double draft_seconds = 0.0;
  double target_seconds = 0.0;
  double verify_seconds = 0.0;              ///< and commits, so that the three are all of a step
  std::int64_t proposed_at[MaxNodes] = {};  ///< steps that drafted depth i + 1
  std::int64_t accepted_at[MaxNodes] = {};  ///< steps that accepted depth i + 1
  std::int64_t histogram[MaxNodes] = {};    ///< steps by accepted nodes

  /// Counts one verification of one sequence. Returns how deep its draft went.
  /// \param lists shortlists of the nodes that were drafted from, or nullptr.
  HUNCH_HOST_DEVICE draft_extent count(const drafted_tokens& tree, const shortlist* lists,
                                       const verdict& v, std::int32_t emitted_tokens) {
    std::int32_t deepest = 0;
    for (std::int32_t node = 1; node < tree.count; ++node) {
      const std::int32_t depth = tree.depth(node);
      deepest = depth > deepest ? depth : deepest;
      const std::int32_t parent = tree.parent[node];
      if (lists != nullptr && lists[parent].size > 0 && tree.next_child(parent, parent) == node) {
        ++shortlists;
        shortlist_rows += lists[parent].size;
      }
    }
    empty_residuals += v.empty_residual ? 1 : 0;
    const std::int32_t last = v.accepted == 0 ? 0 : v.path[v.accepted - 1];
    const draft_extent extent{deepest, v.accepted + (tree.next_child(last, last) >= 0 ? 1 : 0)};
    count(tree.count - 1, extent, v.accepted, emitted_tokens);
    return extent;
  }

  /// Counts a verification of `nodes` drafts.
  HUNCH_HOST_DEVICE void count(std::int32_t nodes, draft_extent extent, std::int32_t accepted_nodes,
                               std::int32_t emitted_tokens) {
    ++steps;
    drafted += nodes;
    accepted += accepted_nodes;
    tested += extent.tested;
    emitted += emitted_tokens;
    for (std::int32_t i = 0; i < extent.levels; ++i) { ++proposed_at[i]; }
    for (std::int32_t i = 0; i < accepted_nodes; ++i) { ++accepted_at[i]; }
    ++histogram[accepted_nodes];
  }

  /// Counts a pass of the target.
  HUNCH_HOST_DEVICE void count_pass(std::int32_t rows) {
    ++target_passes;
    target_rows += rows;
  }

  /// Adds the counters of another run of the same steps, of other sequences, or of smaller drafts.
  template <std::int32_t Nodes>
  requires(Nodes <= MaxNodes) statistics& operator+=(const statistics<Nodes>& o) {
    steps += o.steps;
    drafted += o.drafted;
    accepted += o.accepted;
    tested += o.tested;
    emitted += o.emitted;
    target_passes += o.target_passes;
    target_rows += o.target_rows;
    shortlists += o.shortlists;
    shortlist_rows += o.shortlist_rows;
    empty_residuals += o.empty_residuals;
    draft_seconds += o.draft_seconds;
    target_seconds += o.target_seconds;
    verify_seconds += o.verify_seconds;
    for (std::int32_t i = 0; i < Nodes; ++i) {
      proposed_at[i] += o.proposed_at[i];
      accepted_at[i] += o.accepted_at[i];
      histogram[i] += o.histogram[i];
    }
    return *this;
  }

  /// Tokens per step: 1 + accepted / steps. (The last step of a request that ends with an error has
  /// one less, and so may one that ends with a stop.)
  double mean_acceptance_length() const { return steps == 0 ? 0.0 : 1.0 + ratio(accepted, steps); }
  double draft_acceptance_rate() const { return ratio(accepted, drafted); }
  double average_shortlist_rows() const { return ratio(shortlist_rows, shortlists); }

  /// The share of steps that proposed a token at depth i + 1 and accepted it.
  double acceptance_at(std::int32_t i) const { return ratio(accepted_at[i], proposed_at[i]); }

  /// The probability that a draft token is accepted, given that the ones before it were: the alpha
  /// of the i.i.d. model, estimated from accepted tokens and the drafts that were put to the test.
  double acceptance_probability() const { return ratio(accepted, tested); }

 private:
  static double ratio(std::int64_t a, std::int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  }
};

}  // namespace hunch
