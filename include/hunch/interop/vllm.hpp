// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/distribution/given_uniforms.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>

/// \file
/// Ragged chains, verified on written probabilities: the tensors of vLLM V1's rejection sampler.
/// The form that takes logits is in interop/vllm_logits.hpp. See docs/interop.md.

namespace hunch::interop::vllm {

/// The arguments of `rejection_sample`. Arrays are contiguous unless a stride says otherwise, and
/// lie in memory that the executor's bodies reach; none may overlap another. All of them are read
/// and written when the bodies run, by every replay of a captured graph. The drafts of all
/// sequences lie one after the other, T = num_tokens of them.
template <class Real = float>
struct rejection_arguments {
  std::int32_t batch = 0;
  std::int32_t num_tokens = 0;    ///< T
  std::int32_t max_spec_len = 0;  ///< the most drafts of a sequence
  std::int32_t vocab = 0;
  std::int64_t draft_stride = 0;   ///< between rows of `draft_probs`; 0: as `vocab`
  std::int64_t target_stride = 0;  ///< between rows of `target_probs`; 0: as `vocab`

  id_array draft_token_ids;                           ///< [T]
  const std::int32_t* cu_num_draft_tokens = nullptr;  ///< [batch] inclusive sums
  const Real* draft_probs = nullptr;   ///< [T, vocab] the rows that the drafts were drawn from; or
                                       ///< null: any drafts, for which no law is known
  const Real* target_probs = nullptr;  ///< [T, vocab]; logits will do where `is_greedy`
  id_array bonus_token_ids;  ///< [batch, 1] emitted after a chain that was accepted whole: drawn
                             ///< from the target's law
  const std::uint8_t* is_greedy = nullptr;  ///< [batch], 1: greedy decoding; null: none is
  bool check_rows = false;  ///< whether p's and q's row at a rejection are checked to be laws, as
                            ///< in `flashinfer::chain_arguments`

  id_output output_token_ids;       ///< [batch, max_spec_len + 1] out: -1 after the last
  hunch::status* status = nullptr;  ///< [batch] out, may be null

  random_keys keys;
  /// [T] or null: uniforms in [0, 1) in place of `keys`; element t tests draft t. If given, so is
  /// the next array.
  const float* uniform_probs = nullptr;
  const float* recovery_uniforms = nullptr;  ///< [batch] draws the token in place of a rejected one
};

/// Finds the uniform of a choice in the two arrays; `address::seed` is the row of the batch.
struct ragged_uniforms {
  const float* tests = nullptr;
  const float* recoveries = nullptr;
  const std::int32_t* ends = nullptr;

  HUNCH_HOST_DEVICE std::uint64_t operator()(const address& a) const {
    const auto row = static_cast<std::int64_t>(a.seed);
    const float* const u = a.what == purpose::accept
                               ? tests + (row == 0 ? 0 : ends[row - 1]) + a.node
                               : recoveries + row;
    return kernel::word_of(static_cast<double>(*u));
  }
};

/// Verifies the chain of sequence `row`. One team per sequence.
/// \tparam HasDraftProbs whether the rows that the drafts were drawn from are given.
template <class Real, RandomSource Random, bool HasDraftProbs>
struct rejection_body {
  rejection_arguments<Real> args;
  Random random;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t row) const {
    const std::int32_t begin = row == 0 ? 0 : args.cu_num_draft_tokens[row - 1];
    const std::int32_t end = args.cu_num_draft_tokens[row];
    const bool inside =
        begin >= 0 && begin <= end && end <= args.num_tokens && end - begin <= args.max_spec_len;
    const id_array drafted = args.draft_token_ids.from(inside ? begin : 0);
    const std::int32_t length = inside ? end - begin : 0;
    verdict out;
    if (!inside) {
      out.status = status::invalid_parameter;
    } else if (!ids_below(team, drafted, length, args.vocab)) {
      out.status = status::invalid_token;
    } else if (args.is_greedy != nullptr && args.is_greedy[row] != 0) {
      follow_argmax(team, row, begin, drafted_chain(drafted, length), out);
    } else {
      test(team, row, begin, drafted_chain(drafted, length), out);
    }
    const bool whole = out.status == status::ok && out.accepted == length;
    if (whole && (out.next < 0 || out.next >= args.vocab)) { out.status = status::invalid_token; }
    write_chain(
        team, drafted, out,
        args.output_token_ids.from(static_cast<std::int64_t>(row) * (args.max_spec_len + 1)),
        args.max_spec_len + 1);
    report(team, args.status, row, out.status);
  }

 private:
  /// The target's laws. After the whole chain the next token is not to be drawn: the law there has
  /// no elements.
  struct rows_and_bonus {
    written_rows<Real> rows;
    std::int32_t length = 0;

    template <Team T>
    HUNCH_HOST_DEVICE probabilities<Real> operator()(T&, std::int32_t c) const {
      return c < length ? rows[c] : probabilities<Real>{};
    }
  };
  /// The same for greedy decoding, where of a law only the argmax is needed.
  struct argmax_and_bonus {
    written_rows<Real> rows;
    std::int32_t length = 0;
    token bonus = no_token;

    template <Team T>
    HUNCH_HOST_DEVICE law<Real> operator()(T& team, std::int32_t c) const {
      if (c == length) {
        law<Real> known;
        known.last_kept = bonus;
        return known;
      }
      // Samplers may edit rows; this one only looks for the maximum.
      return sampler::greedy{}(team,
                               row_view<Real>{const_cast<Real*>(rows[c].values.data), rows.vocab},
                               sampling_parameters{}, row_history{});
    }
  };
  struct no_drafts {};

  HUNCH_HOST_DEVICE written_rows<Real> target_rows(std::int32_t begin) const {
    return written_rows<Real>{args.target_probs, args.vocab,
                              distance_of_rows(args.target_stride, args.vocab)}
        .from(begin);
  }
  HUNCH_HOST_DEVICE auto draft_rows(std::int32_t begin, const drafted_chain& chain) const {
    if constexpr (HasDraftProbs) {
      (void)chain;
      return written_rows<Real>{args.draft_probs, args.vocab,
                                distance_of_rows(args.draft_stride, args.vocab)}
          .from(begin);
    } else {
      (void)begin;
      return point_rows<Real>{chain.tokens.drafted, args.vocab};
    }
  }

  template <Team T>
  HUNCH_HOST_DEVICE void follow_argmax(T& team, std::int32_t row, std::int32_t begin,
                                       const drafted_chain& chain, verdict& out) const {
    const argmax_and_bonus target{target_rows(begin), chain.count - 1, args.bonus_token_ids[row]};
    const verify_view<argmax_and_bonus, no_drafts, drafted_chain> view{
        .tree = chain, .children = child_law::ranked, .target = target, .drafts = {}};
    verifier::greedy{}(team, view, random, out);
  }

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void test(T& team, std::int32_t row, std::int32_t begin,
                                                     const drafted_chain& chain,
                                                     verdict& out) const {
    const bool given = args.uniform_probs != nullptr;
    const rows_and_bonus target{target_rows(begin), chain.count - 1};
    const auto laws = draft_rows(begin, chain);
    using drafts_type = drafts_of<std::remove_const_t<decltype(laws)>>;
    const drafts_type drafts{laws, first_tokens(args.vocab)};
    const verify_view<rows_and_bonus, drafts_type, drafted_chain> view{
        .tree = chain,
        .children = child_law::independent,
        .target = target,
        .drafts = drafts,
        .seed = given ? static_cast<std::uint64_t>(row) : args.keys.seed_of(row),
        .length = given ? 0u : args.keys.length_of(row)};
    verifier::rejection{}(team, view, random, out);
    const bool whole = out.accepted + 1 == chain.count;
    check_verdict(team, target.rows, drafts, chain, !whole, args.check_rows, out);
    if (whole) { out.next = args.bonus_token_ids[row]; }
  }
};

/// Rejection sampling of a ragged batch by `verifier::rejection`, or by `verifier::greedy` where
/// `is_greedy`: each sequence emits its accepted drafts and one more token, from norm((p - q)+)
/// after a rejection, the given bonus token after none. Where no draft law is given, a draft x is
/// accepted with probability p(x), and a rejected one is replaced by a draw from p without x.
///
/// Lossless, for any q that the drafts were drawn from, or, without q, for any drafts that were
/// fixed before; given that the bonus tokens are draws from the target's law. (Leviathan, Kalman,
/// Matias 2023, arXiv:2211.17192)
///
/// A sequence with an error gets the drafts that were accepted before it, then -1, and has its
/// `status`: `invalid_parameter` where its range of drafts leads out of the arrays; `invalid_token`
/// for an id outside [0, vocab), or such a bonus token where it is due; `invalid_draft` where q of
/// a drafted id is 0 or a NaN; `invalid_logits` where p of a drafted id that was tested is no
/// probability, p's row at the rejection holds none, or a greedy row has a NaN. With `check_rows`
/// also `invalid_draft` where q's row at the rejection is no law, and `invalid_logits` where p's is
/// none. The others are not disturbed. Rows that the rule does not read are not looked at.
///
/// Launches one body per sequence and returns without waiting; allocates nothing. Per accepted
/// position one element of p and of q is read, at a rejection whole rows.
template <Executor E, class Real>
void rejection_sample(E& executor, const rejection_arguments<Real>& args) {
  const auto launch = [&](const auto& random) {
    using source = std::remove_cvref_t<decltype(random)>;
    if (args.draft_probs != nullptr) {
      executor.launch(args.batch, rejection_body<Real, source, true>{args, random});
    } else {
      executor.launch(args.batch, rejection_body<Real, source, false>{args, random});
    }
  };
  if (args.uniform_probs != nullptr) {
    launch(random_source<ragged_uniforms>{
        {args.uniform_probs, args.recovery_uniforms, args.cu_num_draft_tokens}});
  } else {
    launch(random_source<>{});
  }
}

}  // namespace hunch::interop::vllm
