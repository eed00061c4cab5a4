// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/detail/token_set.hpp>
#include <hunch/distribution/detail/without.hpp>
#include <hunch/distribution/given_uniforms.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/interop/sglang_links.hpp>
#include <hunch/interop/sglang_tree.hpp>
#include <hunch/verifier/follow.hpp>
#include <hunch/verifier/greedy.hpp>

/// \file
/// Trees of first-child and next-sibling links, verified against written probabilities of the
/// target or against its argmax: the tensors of SGLang's `tree_speculative_sampling_target_only`
/// and `verify_tree_greedy`. How such trees are made: interop/sglang_tree.hpp. See docs/interop.md.

namespace hunch::interop::sglang {

/// The arguments of `tree_speculative_sampling_target_only`. Arrays as those of `linked_trees`, but
/// for a stride.
template <class Real = float>
struct target_only_arguments {
  linked_trees trees;
  std::int32_t vocab = 0;
  std::int64_t target_stride = 0;      ///< between rows of `target_probs`; 0: as `vocab`
  const Real* target_probs = nullptr;  ///< [batch, nodes, vocab] after the tokens of the nodes
  bool check_rows = false;  ///< whether the row at the last token is checked to be a law,
                            ///< as in `flashinfer::chain_arguments`

  float threshold_single = 1.0f;  ///< in [0, 1]; below 1 the rule is lossy
  float threshold_acc = 1.0f;     ///< likewise; below 1e-9 it counts as 1e-9

  random_keys keys;
  /// [batch, nodes] or null: uniforms in [0, 1) in place of `keys`; element c decides about the
  /// children of node c. If given, so is the next array.
  const float* uniform_samples = nullptr;
  const float* uniform_samples_for_final_sampling = nullptr;  ///< [batch] draws the last token

  constexpr bool lossless() const { return threshold_single >= 1.0f && threshold_acc >= 1.0f; }
};

/// Finds the uniform of a choice in the two arrays; `address::seed` is the row of the batch.
struct tree_uniforms {
  const float* samples = nullptr;
  const float* final_samples = nullptr;
  std::int32_t nodes = 0;

  HUNCH_HOST_DEVICE std::uint64_t operator()(const address& a) const {
    const auto row = static_cast<std::int64_t>(a.seed);
    return kernel::word_of(static_cast<double>(
        a.what == purpose::accept ? samples[row * nodes + a.node] : final_samples[row]));
  }
};

/// Draws the token after a node, asking first whether it is a child: one random word tells which
/// child or none, and only for none the row is read, without the children. The law is the target's,
/// as `verifier::point_mass` has it; accepted nodes cost as many elements as they have siblings.
///
/// With thresholds below 1 children get more than their share: child k ends at the cumulative
/// probability min(1, sum / threshold_acc), or at 1 if its own reaches `threshold_single`.
template <class View, class Random>
struct children_first {
  const View& view;
  const Random& random;
  double threshold_single = 1.0;
  double threshold_acc = 1.0;
  verdict& out;  ///< gets the status of a node whose children cannot be judged

  template <Team T, Law P>
  HUNCH_HOST_DEVICE token operator()(T& team, const P& p, std::int32_t c) const {
    kernel::token_set children(team);
    double sum = 0.0;
    double upto = 0.0;
    for (std::int32_t i = view.tree.next_child(c, c); i >= 0; i = view.tree.next_child(c, i)) {
      const token x = view.tree.tokens[i];
      const auto p_x = static_cast<double>(p.prob(x));
      const bool readable = p_x >= 0.0 && p_x <= 1.0 + mass_tolerance;
      if (!readable || children.count == kernel::max_siblings) {
        out.status = readable ? status::invalid_draft : status::invalid_logits;
        return no_token;
      }
      // A token that stands there twice has its probability once.
      sum += children.contains(x) ? 0.0 : p_x;
      const double grown = p_x >= threshold_single ? 1.0 : sum / threshold_acc;
      const double end = grown < upto ? upto : grown < 1.0 ? grown : 1.0;
      put_share(team, children.count, end - upto);
      children.add(team, x);
      upto = end;
    }
    if (children.count > 0) {
      // Its error is that of the row's sum, against a uniform in [0, 1).
      put_share(team, children.count, 1.0 - upto);
      const std::int64_t* const shares = team.scratch().list + kernel::max_siblings;
      const std::int64_t which =
          random.categorical(team, view.at(c, purpose::accept), children.count + 1,
                             [=](std::int64_t i) { return kernel::bit_cast<double>(shares[i]); });
      if (which >= 0 && which < children.count) { return children[which]; }
      const std::int64_t other = random.categorical(team, view.at(c, purpose::residual), p.size(),
                                                    kernel::weights_without{p, children});
      if (other >= 0) { return static_cast<token>(other); }
      out.empty_residual = true;  // the children hold all of p but for rounding
    }
    return static_cast<token>(random.categorical(team, view.at(c, purpose::bonus), p.size(),
                                                 [p](std::int64_t v) { return p.weight(v); }));
  }

 private:
  /// Notes the probability of child k, in the list after the children.
  template <Team T>
  HUNCH_HOST_DEVICE static void put_share(T& team, std::int32_t k, double share) {
    team.put(kernel::max_siblings + k, kernel::bit_cast<std::int64_t>(share));
  }
};

/// Verifies the tree of sequence `row`. One team per sequence.
template <class Real, RandomSource Random>
struct target_only_body {
  target_only_arguments<Real> args;
  Random random;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const tree_walk walk{args.trees, row};
    verdict out;
    out.path = walk.path();
    out.status = walk.check(team, args.vocab);
    if (out.status == status::ok) { verify(team, walk, out); }
    walk.write(team, out);
  }

 private:
  struct no_drafts {};

  template <Team T>
  HUNCH_HOST_DEVICE void verify(T& team, const tree_walk& walk, verdict& out) const {
    const bool given = args.uniform_samples != nullptr;
    std::int32_t steps_left = 0;
    using rows = written_rows<Real>;
    using view_type = verify_view<rows, no_drafts, linked_tree>;
    const view_type view{
        .tree = walk.tree(out, steps_left),
        .children = child_law::ranked,
        .target =
            rows{args.target_probs, args.vocab, distance_of_rows(args.target_stride, args.vocab)}
                .from(walk.at(0)),
        .drafts = {},
        .seed = given ? static_cast<std::uint64_t>(walk.row) : args.keys.seed_of(walk.row),
        .length = given ? 0u : args.keys.length_of(walk.row)};
    const auto acc = static_cast<double>(args.threshold_acc);
    const children_first<view_type, Random> choose{
        .view = view,
        .random = random,
        .threshold_single = static_cast<double>(args.threshold_single),
        .threshold_acc = acc > 1e-9 ? acc : 1e-9,
        .out = out};
    kernel::follow(team, view, out,
                   [&](const auto& p, std::int32_t c) { return choose(team, p, c); });
    if (steps_left < 0) { no_tree(out); }
    if (out.status != status::ok) { return; }
    if (out.next < 0) { out.status = status::invalid_logits; }
    if (!args.check_rows) { return; }
    team.sync();  // the path is there for all ranks
    const std::int32_t last = out.accepted > 0 ? out.path[out.accepted - 1] : 0;
    if (!is_law(team, view.target[last].values)) { out.status = status::invalid_logits; }
  }
};

/// Sampling over a tree against the target's probabilities alone: the token after a node is drawn
/// from the target; while it is a child of the node the walk descends, else it is the last token.
/// Children are asked in the order of their links, a sum of probabilities at a time.
///
/// Lossless for every tree that was fixed before the uniforms were drawn, if both thresholds are 1;
/// see `target_only_arguments::lossless`. Laws of the draft are neither needed nor used. (The rule
/// of `verifier::point_mass`; below 1 the thresholds are those of SGLang's kernel.)
///
/// A sequence with an error gets -1 as the prediction of its last accepted node, and its `status`:
/// `invalid_logits` where p of a child that was asked is no probability, the row at the last token
/// holds none, or, with `check_rows`, is no law; and `invalid_draft` for more than
/// `kernel::max_siblings` siblings, after the nodes that were accepted before. With no accepted
/// node but the root: `invalid_token` for a linked id outside [0, vocab); `invalid_draft` for a
/// link or a slot that leads out of its array, or links that run in a circle. The others are not
/// disturbed.
///
/// Launches one body per sequence and returns without waiting; allocates nothing. Per accepted node
/// one element for each child tested is read, at the last node a whole row.
template <Executor E, class Real>
void tree_speculative_sampling_target_only(E& executor, const target_only_arguments<Real>& args) {
  if (args.uniform_samples != nullptr) {
    using source = random_source<tree_uniforms>;
    const source random{
        {args.uniform_samples, args.uniform_samples_for_final_sampling, args.trees.nodes}};
    executor.launch(args.trees.batch, target_only_body<Real, source>{args, random});
  } else {
    const random_source<> random;
    executor.launch(args.trees.batch, target_only_body<Real, random_source<>>{args, random});
  }
}

/// The arguments of `verify_tree_greedy`. Arrays as those of `linked_trees`.
struct greedy_arguments {
  linked_trees trees;
  id_array target_predict;  ///< [slots] the target's argmax after the token of a slot
};

/// Verifies the tree of sequence `row`. One team per sequence.
struct greedy_body {
  greedy_arguments args;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const tree_walk walk{args.trees, row};
    verdict out;
    out.path = walk.path();
    out.status = walk.check(team, std::int64_t(1) << 31);
    if (out.status == status::ok) {
      std::int32_t steps_left = 0;
      const verify_view<predictions, no_drafts, linked_tree> view{
          .tree = walk.tree(out, steps_left),
          .children = child_law::ranked,
          .target = {walk, args.target_predict},
          .drafts = {}};
      verifier::greedy{}(team, view, random_source<>{}, out);
      if (steps_left < 0) { no_tree(out); }
    }
    walk.write(team, out);
  }

 private:
  struct no_drafts {};
  /// All that `verifier::greedy` reads of a law.
  struct prediction {
    token last_kept = no_token;
    hunch::status status = hunch::status::ok;
  };
  struct predictions {
    tree_walk walk;
    id_array target_predict;

    template <Team T>
    HUNCH_HOST_DEVICE prediction operator()(T&, std::int32_t c) const {
      const token x = target_predict[walk.trees.retrieve_index[walk.at(c)]];
      return {x, x >= 0 ? status::ok : status::invalid_token};
    }
  };
};

/// Greedy verification of trees by `verifier::greedy`: the walk descends while a child is the
/// target's argmax, and the argmax at its end is the last token. Lossless for greedy decoding.
/// (Stern, Shazeer, Uszkoreit 2018, arXiv:1811.03115)
///
/// Errors of ids, links and slots as those of `tree_speculative_sampling_target_only`, but that ids
/// and predictions may be as large as 2^31 - 1; a prediction on the path outside of [0, 2^31) is
/// `invalid_token`, after the nodes that were accepted before. Launches one body per sequence and
/// returns without waiting; allocates nothing.
template <Executor E>
void verify_tree_greedy(E& executor, const greedy_arguments& args) {
  executor.launch(args.trees.batch, greedy_body{args});
}

}  // namespace hunch::interop::sglang
