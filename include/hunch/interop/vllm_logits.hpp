// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>

/// \file
/// Ragged chains, verified on logits: the tensors of the rejection sampler of vLLM's GPU runner. No
/// probability is written out: a row that is read becomes a `law`. See docs/interop.md.

namespace hunch::interop::vllm {

/// The arguments of `rejection_sample` on logits. Arrays are contiguous unless a stride says
/// otherwise, and lie in memory that the executor's bodies reach; none may overlap another. Logits
/// are only read. Sequence b has the rows cu_num_logits[b], ..., cu_num_logits[b + 1] - 1: one more
/// than it has drafts, and at most num_speculative_steps + 1.
template <class Real = float>
struct logits_arguments {
  std::int32_t num_reqs = 0;               ///< requests of the batch
  std::int32_t max_num_reqs = 0;           ///< states
  std::int32_t num_logits = 0;             ///< rows of the batch
  std::int32_t num_speculative_steps = 0;  ///< drafts of a request at most
  std::int32_t vocab = 0;
  std::int32_t draft_vocab = 0;  ///< of `draft_logits`; 0: as `vocab`. Tokens beyond it have q = 0
  std::int64_t target_stride = 0;  ///< between rows of `target_logits`; 0: as `vocab`

  const Real* target_logits = nullptr;  ///< [num_logits, vocab]
  /// [max_num_reqs, num_speculative_steps, draft_vocab] the logits that drafts were drawn by, at
  /// the request's state, in their order; or null: any drafts, for which no law is known.
  const Real* draft_logits = nullptr;
  /// [num_logits] the token that each row has read: the last emitted one, then the drafts. -1 ends
  /// the chain before it: nothing was drafted there.
  const std::int32_t* draft_sampled = nullptr;
  const std::int32_t* cu_num_logits = nullptr;  ///< [num_reqs + 1] the first is 0
  const std::int64_t* pos = nullptr;            ///< [num_logits] position of that token in the text
  const std::int32_t* idx_mapping = nullptr;    ///< [num_reqs] the state of a request
  const float* temperature = nullptr;           ///< [max_num_reqs] 0: greedy decoding
  const std::int64_t* seed = nullptr;           ///< [max_num_reqs]
  bool target_is_scaled = true;  ///< whether the logits have been divided by the temperature
  bool draft_is_scaled = true;   ///< likewise

  std::int64_t* sampled = nullptr;      ///< [num_reqs, num_speculative_steps + 1] out: -1 after the
                                        ///< last token
  std::int32_t* num_sampled = nullptr;  ///< [num_reqs] out: 1 or more, or those before an error
  hunch::status* status = nullptr;      ///< [num_reqs] out, may be null
};

/// The law of a row of logits at a temperature. Collective.
template <Team T, class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> law_at(T& team, row_view<const Real> row,
                                                          float temperature) {
  sampling_parameters parameters;
  parameters.temperature = temperature;
  // Samplers may edit rows; this one has no stage that does.
  return sampler::pipeline<sampler::temperature>{}(
      team, row_view<Real>{const_cast<Real*>(row.data), row.size}, parameters, row_history{});
}

/// Verifies the chain of request `row`. One team per request.
template <class Real, class V, RandomSource Random, bool HasDraftLogits>
struct logits_body {
  logits_arguments<Real> args;
  V verifier;
  Random random;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t row) const {
    verdict out;
    const request r = request_of(team, row, out);
    if (out.status == status::ok) {
      if (args.temperature[r.state] == 0.0f) {
        verify(team, r, verifier::greedy{}, out);
      } else {
        verify(team, r, verifier, out);
      }
    }
    const std::int32_t capacity = args.num_speculative_steps + 1;
    write_chain(team, r.drafted, out, args.sampled + static_cast<std::int64_t>(row) * capacity,
                capacity);
    if (team.rank() == 0) {
      args.num_sampled[row] = out.accepted + (out.status == status::ok ? 1 : 0);
    }
    report(team, args.status, row, out.status);
  }

 private:
  struct request {
    std::int32_t state = 0;
    std::int32_t begin = 0;                 ///< its first row
    const std::int32_t* drafted = nullptr;  ///< [length]
    std::int32_t length = 0;
  };

  template <Team T>
  HUNCH_HOST_DEVICE request request_of(T& team, std::int32_t row, verdict& out) const {
    request r;
    const std::int32_t end = args.cu_num_logits[row + 1];
    r.state = args.idx_mapping[row];
    r.begin = args.cu_num_logits[row];
    const bool inside = r.begin >= 0 && r.begin < end && end <= args.num_logits &&
                        end - r.begin <= args.num_speculative_steps + 1 && r.state >= 0 &&
                        r.state < args.max_num_reqs;
    using keys = kernel::order<float>;
    constexpr std::int32_t none = keys::highest;
    // Finite and not negative; a NaN is neither.
    if (!inside || !(args.temperature[r.state] >= 0.0f &&
                     keys::of(args.temperature[r.state]) < keys::plus_infinity)) {
      out.status = status::invalid_parameter;
      return r;
    }
    const std::int32_t* const drafted = args.draft_sampled + r.begin + 1;
    r.drafted = drafted;
    r.length = team.reduce(
        end - r.begin - 1, end - r.begin - 1,
        [=](std::int64_t i) {
          return drafted[i] == no_token ? static_cast<std::int32_t>(i) : none;
        },
        [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
    if (!ids_below(team, drafted, r.length, args.vocab)) { out.status = status::invalid_token; }
    return r;
  }

  /// The laws of rows of logits, each made when it is first read.
  struct lazy_rows {
    const Real* rows;
    std::int32_t vocab;
    std::int64_t stride;
    float temperature;

    template <Team T>
    HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> operator()(T& team, std::int32_t c) const {
      return law_at(team, row_view<const Real>{rows + c * stride, vocab}, temperature);
    }
  };
  /// The same as an array that belongs to a team.
  template <class T>
  struct lazy_laws {
    T* team;
    lazy_rows rows;

    HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> operator[](std::int32_t c) const {
      return rows(*team, c);
    }
  };

  HUNCH_HOST_DEVICE std::int32_t draft_vocab() const {
    return HasDraftLogits && args.draft_vocab > 0 ? args.draft_vocab : args.vocab;
  }

  template <Team T>
  HUNCH_HOST_DEVICE auto draft_laws(T& team, const request& r, float temperature) const {
    if constexpr (HasDraftLogits) {
      const std::int64_t size = draft_vocab();
      return lazy_laws<T>{&team,
                          {.rows = args.draft_logits + static_cast<std::int64_t>(r.state) *
                                                           args.num_speculative_steps * size,
                           .vocab = draft_vocab(),
                           .stride = size,
                           .temperature = temperature}};
    } else {
      (void)team;
      (void)temperature;
      return point_rows<real_of<Real>>{r.drafted, args.vocab};
    }
  }

  template <Team T, class Rule>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void verify(T& team, const request& r, const Rule& rule,
                                                       verdict& out) const {
    const float t = args.temperature[r.state];
    const std::int64_t stride = args.target_stride > 0 ? args.target_stride : args.vocab;
    const lazy_rows target{.rows = args.target_logits + r.begin * stride,
                           .vocab = args.vocab,
                           .stride = stride,
                           .temperature = t == 0.0f || !args.target_is_scaled ? t : 1.0f};
    const auto laws = draft_laws(team, r, args.draft_is_scaled ? 1.0f : t);
    using drafts_type = drafts_of<std::remove_const_t<decltype(laws)>>;
    const verify_view<lazy_rows, drafts_type, drafted_chain> view{
        .tree = drafted_chain(r.drafted, r.length),
        .children = child_law::independent,
        .target = target,
        .drafts = {laws, first_tokens(draft_vocab())},
        .seed = static_cast<std::uint64_t>(args.seed[r.state]),
        .length = static_cast<std::uint32_t>(args.pos[r.begin]) + 1u};
    rule(team, view, random, out);
  }
};

/// Rejection sampling of a ragged batch on logits: `V` where the temperature is positive,
/// `verifier::greedy` where it is 0. Each request emits its accepted drafts and one more token.
/// (Leviathan, Kalman, Matias 2023, arXiv:2211.17192; of blocks: Sun et al. 2024, arXiv:2403.10444)
///
/// Lossless if V is, for any q that the drafts were drawn from, or, without q, for any drafts that
/// were fixed before. Random choices have the library's own addresses, with the request's seed and
/// pos + 1 of its first row, the committed length; so what a request gets depends neither on the
/// batch nor on its place in it, and V may look beyond the accepted tokens, as `verifier::block`
/// does. The laws are those of the logits at hand: cuts and penalties are to be applied before.
///
/// A request with an error gets the drafts that were accepted before it, and its `status`: plain
/// decoding writes these, too, and meets the same error. `invalid_parameter`, and no token, where
/// its rows or its state lead out of the arrays, or its temperature is negative or not finite;
/// `invalid_token` for an id outside [0, vocab) before the first -1; `invalid_draft` where q of a
/// drafted id is 0 or its row has no law; `invalid_logits` where a row of the target that is read
/// has none. The others are not disturbed.
///
/// Launches one body per request and returns without waiting; allocates nothing. A row that is
/// needed is read for its maximum, for its norm, and where the last token is drawn.
/// \tparam V a verifier of chains that uses q: `verifier::rejection` or `verifier::block`.
template <Executor E, class Real, class V = verifier::rejection>
void rejection_sample(E& executor, const logits_arguments<Real>& args, V verifier = {}) {
  static_assert(V::lossless && V::needs_draft_law && V::accepts(child_law::independent, true),
                "hunch: rejection_sample on logits verifies chains against draft laws: give it "
                "verifier::rejection or verifier::block");
  const random_source<> random;
  if (args.draft_logits != nullptr) {
    executor.launch(args.num_reqs,
                    logits_body<Real, V, random_source<>, true>{args, verifier, random});
  } else {
    executor.launch(args.num_reqs,
                    logits_body<Real, V, random_source<>, false>{args, verifier, random});
  }
}

}  // namespace hunch::interop::vllm
