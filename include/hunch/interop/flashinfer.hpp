// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/distribution/given_uniforms.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/verifier/rejection.hpp>

/// \file
/// Chains of one length, verified on written probabilities: the tensors of FlashInfer's
/// `chain_speculative_sampling`. See docs/interop.md.

namespace hunch::interop::flashinfer {

/// The arguments of `chain_speculative_sampling`. Arrays are contiguous unless a stride says
/// otherwise, and lie in memory that the executor's bodies reach; none may overlap another. All of
/// them are read and written when the bodies run, by every replay of a captured graph.
template <class Real = float>
struct chain_arguments {
  std::int32_t batch = 0;
  std::int32_t length = 0;  ///< drafted tokens of every sequence, 0 or more
  std::int32_t vocab = 0;

  std::int64_t draft_stride = 0;   ///< between rows of `draft_probs`; 0: as `vocab`
  std::int64_t target_stride = 0;  ///< between rows of `target_probs`; 0: as `vocab`

  const Real* draft_probs = nullptr;   ///< [batch, length, vocab]
  id_array draft_token_ids;            ///< [batch, length] drawn from these rows
  const Real* target_probs = nullptr;  ///< [batch, length + 1, vocab]
  /// Whether the two rows that the last token rests on are checked to be laws, with a sum of 1: it
  /// reads both once more. What a softmax makes of logits is one, or holds NaN everywhere,
  /// which is seen in any case.
  bool check_rows = false;

  id_output output_token_ids;  ///< [batch, length + 1] out: -1 after the last token
  /// [batch] in/out, may be null: increased by the number of positions that pass their own test,
  /// whatever comes before them (`output_accepted_token_num`). A measure of the draft.
  std::int32_t* accepted = nullptr;
  /// [batch] in/out, may be null: increased by the drafted tokens that are emitted, the last token
  /// not counted (`output_emitted_draft_token_num`).
  std::int32_t* emitted = nullptr;
  hunch::status* status = nullptr;  ///< [batch] out, may be null

  random_keys keys;
  /// [batch, length + 1] or null: uniforms in [0, 1) in place of `keys`. Element i tests position
  /// i; the last token after n emitted drafts is drawn with element min(n + 1, length).
  const float* uniform_samples = nullptr;
};

/// Finds the uniform of a choice; `address::seed` is the row of the batch.
struct chain_uniforms {
  std::int32_t length = 0;

  HUNCH_HOST_DEVICE std::int64_t operator()(const address& a) const {
    const auto node = static_cast<std::int32_t>(a.node);
    const bool last = a.what != purpose::accept && node < length;
    return static_cast<std::int64_t>(a.seed) * (length + 1) + (last ? node + 1 : node);
  }
};

/// Verifies the chain of sequence `row`. One team per sequence.
template <class Real, RandomSource Random>
struct chain_body {
  chain_arguments<Real> args;
  Random random;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const std::int64_t first = static_cast<std::int64_t>(row) * args.length;
    const id_array drafted = args.draft_token_ids.from(first);
    const drafted_chain chain(drafted, args.length);
    const written_rows<Real> target =
        written_rows<Real>{args.target_probs, args.vocab,
                           distance_of_rows(args.target_stride, args.vocab)}
            .from(first + row);
    const written_rows<Real> q = written_rows<Real>{args.draft_probs, args.vocab,
                                                    distance_of_rows(args.draft_stride, args.vocab)}
                                     .from(first);
    const drafts_of<written_rows<Real>> drafts{q, first_tokens(args.vocab)};
    const bool given = args.uniform_samples != nullptr;
    const verify_view<written_rows<Real>, drafts_of<written_rows<Real>>, drafted_chain> view{
        .tree = chain,
        .children = child_law::independent,
        .target = target,
        .drafts = drafts,
        .seed = given ? static_cast<std::uint64_t>(row) : args.keys.seed_of(row),
        .length = given ? 0u : args.keys.length_of(row)};
    verdict out;
    if (ids_below(team, drafted, args.length, args.vocab)) {
      verifier::rejection{}(team, view, random, out);
      check_verdict(team, target, drafts, chain, true, args.check_rows, out);
    } else {
      out.status = status::invalid_token;
    }
    write_chain(team, drafted, out, args.output_token_ids.from(first + row), args.length + 1);
    report(team, args.status, row, out.status);
    count(team, view, row, out);
  }

 private:
  /// The position after the accepted ones was tested and failed; those after it are still to be
  /// tested, but after an error.
  template <Team T, class View>
  HUNCH_HOST_DEVICE void count(T& team, const View& view, std::int32_t row,
                               const verdict& out) const {
    if (team.rank() != 0) { return; }
    if (args.emitted != nullptr) { args.emitted[row] += out.accepted; }
    if (args.accepted == nullptr) { return; }
    std::int32_t passed = out.accepted;
    const std::int32_t tested = out.status == status::ok ? args.length : 0;
    for (std::int32_t i = out.accepted + 1; i < tested; ++i) {
      const token x = view.tree.tokens[i + 1];
      const auto p_x = static_cast<double>(view.target[i].prob(x));
      const auto q_x = static_cast<double>(view.drafts.laws[i].prob(x));
      passed += random.bernoulli(view.at(i, purpose::accept), p_x, q_x) ? 1 : 0;
    }
    args.accepted[row] += passed;
  }
};

/// Speculative sampling of a batch of chains by `verifier::rejection`: each sequence emits its
/// accepted drafts and one more token, from norm((p - q)+) after a rejection and from p after none.
///
/// Lossless, for any q that the tokens were drawn from. (Leviathan, Kalman, Matias 2023,
/// arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318)
///
/// A sequence with an error gets the drafts that were accepted before it, which are counted, then
/// -1, and has its `status`: `invalid_token` for an id outside [0, vocab); `invalid_draft` where q
/// of a drafted id is 0 or a NaN; `invalid_logits` where p of a drafted id that was tested is no
/// probability, or p's row at the last token holds none. With `check_rows` also `invalid_draft`
/// where q's row at the rejection is no law, and `invalid_logits` where p's row at the last token
/// is none. The others are not disturbed. Rows that the rule does not read are not looked at.
///
/// Launches one body per sequence and returns without waiting; allocates nothing. Per accepted
/// position one element of p and of q is read, at the last one whole rows.
template <Executor E, class Real>
void chain_speculative_sampling(E& executor, const chain_arguments<Real>& args) {
  if (args.uniform_samples != nullptr) {
    using bits = given_uniforms<chain_uniforms>;
    const random_source<bits> random{bits{args.uniform_samples, {args.length}}};
    executor.launch(args.batch, chain_body<Real, random_source<bits>>{args, random});
  } else {
    const random_source<> random;
    executor.launch(args.batch, chain_body<Real, random_source<>>{args, random});
  }
}

}  // namespace hunch::interop::flashinfer
