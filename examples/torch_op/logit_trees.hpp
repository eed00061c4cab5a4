// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/interop/engine_arrays.hpp>
#include <hunch/interop/request_sampling.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/verify_rows.hpp>

/// \file
/// Trees of parents, verified on logits. The rules are the library's; this is a view of tensors.

namespace hunch_torch {

/// A batch of draft trees and the logits that judge them.
/// \tparam Logit float, or a type of 16 bits.
template <class Logit>
struct logit_trees {
  std::int32_t batch = 0;
  std::int32_t nodes = 0;  ///< of a tree, the root included
  std::int32_t vocab = 0;
  std::int32_t draft_vocab = 0;
  std::int64_t target_stride = 0;        ///< between rows of `target_logits`
  std::int64_t draft_stride = 0;         ///< between rows of `draft_logits`
  const Logit* target_logits = nullptr;  ///< [batch, nodes, vocab] after each node
  const Logit* draft_logits = nullptr;   ///< [batch, nodes, draft_vocab] that the children of each
                                         ///< node were drawn by; null: there is no law
  hunch::interop::id_array tokens;       ///< [batch, nodes]
  hunch::interop::id_array parents;      ///< [batch, nodes] -1 for the root, and where no node is
  hunch::child_law children = hunch::child_law::independent;
  bool draft_is_scaled = false;
  const std::uint64_t* seeds = nullptr;    ///< [batch]
  const std::uint32_t* lengths = nullptr;  ///< [batch]
  hunch::interop::parameter_arrays sampling;

  std::int64_t* emitted = nullptr;     ///< [batch, nodes] out
  std::int64_t* path = nullptr;        ///< [batch, nodes - 1] out
  std::int32_t* num_tokens = nullptr;  ///< [batch] out
  hunch::status* status = nullptr;     ///< [batch] out

  hunch::law<Logit>* laws = nullptr;  ///< [batch, 2, nodes] scratch: the target's, the draft's
  std::int32_t* walked = nullptr;     ///< [batch, nodes] scratch
};

/// The rows of one tree, as `sampled_laws` asks for them.
template <class Logit>
struct rows_of_tree {
  const Logit* first = nullptr;
  std::int64_t stride = 0;
  std::int32_t size = 0;
  hunch::sampling_parameters parameters;

  HUNCH_HOST_DEVICE hunch::target_row<Logit> operator[](std::int32_t node) const {
    // No stage of these samplers edits a row.
    return {{const_cast<Logit*>(first) + node * stride, size}, parameters, {}};
  }
};

template <class Logit, class S>
using laws_of_tree = hunch::sampled_laws<Logit, S, rows_of_tree<Logit>>;

/// The laws that children were drawn from, each made when a rule asks for it. Collective.
template <class Logit, class T>
struct draft_laws {
  laws_of_tree<Logit, hunch::interop::scaled_logits> laws;
  hunch::token_tree<hunch::interop::id_array, hunch::interop::id_array> tree;
  T* team;

  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE hunch::law<Logit> operator[](std::int32_t c) const {
    hunch::law<Logit> l = laws(*team, c);
    // A token that the drafter's vocabulary does not have was not drawn from it.
    for (std::int32_t i = tree.next_child(c, c); i >= 0; i = tree.next_child(c, i)) {
      if (tree.tokens[i] >= laws.rows.size) { l.status = hunch::status::invalid_draft; }
    }
    return l;
  }
};

/// Verifies the tree of sequence `row`. One team per sequence.
/// \tparam S makes the target's laws. \tparam HasLaw whether children were drawn from known laws.
template <class Logit, class S, bool HasLaw>
struct verify_logit_tree {
  logit_trees<Logit> args;
  static constexpr bool reads_rows = true;
  static constexpr int loads = 4;  // laws are made by stages, which leave few registers

  template <hunch::Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t row) const {
    const std::int64_t first = static_cast<std::int64_t>(row) * args.nodes;
    hunch::verdict out;
    out.path = args.walked + first;
    hunch::law<Logit>* const laws = args.laws + 2 * first;
    team.for_each(2 * std::int64_t{args.nodes}, [=](std::int64_t i) { laws[i] = {}; });
    const hunch::sampling_parameters parameters = args.sampling.of(row);
    out.status = check(team, first);
    if (out.status == hunch::status::ok) { out.status = S{}.check(parameters); }
    if (out.status == hunch::status::ok) {
      if (parameters.temperature == 0.0f) {
        verify(team, row, parameters, hunch::verifier::greedy{}, no_drafts{}, out);
      } else if constexpr (HasLaw) {
        const hunch::sampling_parameters of_draft{
            .temperature = args.draft_is_scaled ? 1.0f : parameters.temperature};
        const rows_of_tree<Logit> rows{args.draft_logits + first * args.draft_stride,
                                       args.draft_stride, args.draft_vocab, of_draft};
        const hunch::interop::drafts_of<draft_laws<Logit, T>> drafts{
            {{rows, laws + args.nodes, {}}, tree(first), &team},
            hunch::interop::first_tokens(args.draft_vocab)};
        verify(team, row, parameters, hunch::verifier::rejection{}, drafts, out);
      } else {
        verify(team, row, parameters, hunch::verifier::point_mass{}, no_drafts{}, out);
      }
    }
    write(team, row, out);
  }

 private:
  using tree_type = hunch::token_tree<hunch::interop::id_array, hunch::interop::id_array>;
  struct no_drafts {};

  HUNCH_HOST_DEVICE tree_type tree(std::int64_t first) const {
    const hunch::interop::id_array tokens = args.tokens.from(first);
    return {.count = args.nodes,
            .tokens = tokens,
            .parent = args.parents.from(first),
            .drawn_at = tokens};
  }

  /// Whether parents come first, and what hangs on something is a token.
  template <hunch::Team T>
  HUNCH_HOST_DEVICE hunch::status check(T& team, std::int64_t first) const {
    enum : std::int32_t { fine, bad_token, bad_parent };
    const tree_type nodes = tree(first);
    const std::int32_t vocab = args.vocab;
    const std::int32_t worst = team.reduce(
        args.nodes, std::int32_t(fine),
        [=](std::int64_t i) -> std::int32_t {
          const auto node = static_cast<std::int32_t>(i);
          const std::int32_t parent = nodes.parent[node];
          if (parent < -1 || parent >= node) {
            return node > 0 || parent != -1 ? bad_parent : fine;
          }
          if (parent == -1) { return fine; }
          const hunch::token t = nodes.tokens[node];
          return t < 0 || t >= vocab ? bad_token : fine;
        },
        [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
    return worst == bad_parent  ? hunch::status::invalid_draft
           : worst == bad_token ? hunch::status::invalid_token
                                : hunch::status::ok;
  }

  template <hunch::Team T, class Rule, class Drafts>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void verify(T& team, std::int32_t row,
                                                       const hunch::sampling_parameters& parameters,
                                                       const Rule& rule, const Drafts& drafts,
                                                       hunch::verdict& out) const {
    const std::int64_t first = static_cast<std::int64_t>(row) * args.nodes;
    const rows_of_tree<Logit> rows{args.target_logits + first * args.target_stride,
                                   args.target_stride, args.vocab, parameters};
    const hunch::verify_view<laws_of_tree<Logit, S>, Drafts, tree_type> view{
        .tree = tree(first),
        .children = args.children,
        .target = {rows, args.laws + 2 * first, {}},
        .drafts = drafts,
        .seed = args.seeds[row],
        .length = args.lengths[row]};
    rule(team, view, hunch::random_source<>{}, out);
  }

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void write(T& team, std::int32_t row, const hunch::verdict& out) const {
    team.sync();  // the path is there for all ranks
    const logit_trees<Logit> to = args;
    const std::int64_t first = static_cast<std::int64_t>(row) * args.nodes;
    const bool valid = out.status == hunch::status::ok;
    const std::int32_t accepted = out.accepted;
    const hunch::token next = valid ? out.next : hunch::no_token;
    team.for_each(args.nodes, [=](std::int64_t i) {
      const std::int32_t node = i < accepted ? to.walked[first + i] : -1;
      to.emitted[first + i] = node >= 0       ? to.tokens[first + node]
                              : i == accepted ? next
                                              : hunch::no_token;
      if (i + 1 < to.nodes) { to.path[first - row + i] = node; }
    });
    if (team.rank() == 0) {
      args.num_tokens[row] = accepted + (valid ? 1 : 0);
      args.status[row] = out.status;
    }
  }
};

/// Verifies the trees of a batch: by `verifier::rejection` where laws of the draft are given, else
/// by `verifier::point_mass`; by `verifier::greedy` where the temperature is 0. Launches one body
/// per sequence and returns without waiting. Reads the target's rows along the accepted path.
template <hunch::Executor E, class Logit>
void verify_logit_trees(E& executor, const logit_trees<Logit>& args) {
  const auto launch = [&]<class S, bool HasLaw>(verify_logit_tree<Logit, S, HasLaw> body) {
    executor.launch(args.batch, body);
  };
  const auto by_sampler = [&]<class S>(S) {
    if (args.draft_logits != nullptr) {
      launch(verify_logit_tree<Logit, S, true>{args});
    } else {
      launch(verify_logit_tree<Logit, S, false>{args});
    }
  };
  if (args.sampling.only_temperature()) {
    by_sampler(hunch::interop::scaled_logits{});
  } else {
    by_sampler(hunch::interop::sampled_logits{});
  }
}

}  // namespace hunch_torch
