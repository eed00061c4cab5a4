// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/interop/request_sampling.hpp>
#include <hunch/interop/text_census.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/verify_rows.hpp>

/// \file
/// Ragged chains, verified on logits: the tensors of the rejection sampler of vLLM's GPU runner. No
/// probability is written out: a row becomes a `law`. See docs/interop.md.

namespace hunch::interop::vllm {

/// The arguments of `rejection_sample` on logits. Arrays are contiguous unless a stride says
/// otherwise, and lie in memory that the executor's bodies reach; none may overlap another. All of
/// them are read and written when the bodies run, by every replay of a captured graph; what is a
/// number here stays as it was at the capture. Sequence b has the rows cu_num_logits[b], ...,
/// cu_num_logits[b + 1] - 1: one more than it has drafts, and at most num_speculative_steps + 1.
template <class Real = float>
struct logits_arguments {
  std::int32_t num_reqs = 0;               ///< requests of the batch
  std::int32_t max_num_reqs = 0;           ///< states
  std::int32_t num_logits = 0;             ///< rows of the batch
  std::int32_t num_speculative_steps = 0;  ///< drafts of a request at most
  std::int32_t vocab = 0;
  std::int32_t draft_vocab = 0;  ///< of `draft_logits`; 0: as `vocab`. Tokens beyond it have q = 0
  std::int64_t target_stride = 0;  ///< between rows of `target_logits`; 0: as `vocab`
  std::int64_t draft_stride = 0;   ///< between rows of `draft_logits`; 0: as `draft_vocab`

  /// [num_logits, vocab] only read, unless there are penalties or masks: these are then applied in
  /// place, once for each call, at least to the rows that the rule reads.
  Real* target_logits = nullptr;
  /// [max_num_reqs, num_speculative_steps, draft_vocab] the logits that drafts were drawn by, at
  /// the request's state, in their order; or null: any drafts, for which no law is known.
  const Real* draft_logits = nullptr;
  /// [num_logits] the token that each row has read: the last emitted one, then the drafts. -1 ends
  /// the chain before it: nothing was drafted there.
  id_array draft_sampled;
  const std::int32_t* cu_num_logits = nullptr;  ///< [num_reqs + 1] the first is 0
  const std::int64_t* pos = nullptr;            ///< [num_logits] position of that token in the text
  const std::int32_t* idx_mapping = nullptr;    ///< [num_reqs] the state of a request
  const std::int64_t* seed = nullptr;           ///< [max_num_reqs]

  parameter_arrays sampling;     ///< by state
  text_census census;            ///< of the texts up to the last emitted token; for penalties
  allowed_arrays allowed;        ///< by row of logits
  bool target_is_scaled = true;  ///< whether the logits have been divided by the temperature
  bool draft_is_scaled = true;   ///< likewise

  /// Up to so many laws are made side by side before the rule is asked; beyond, each when the rule
  /// asks for it, and what a refusal makes needless is not read. -1: the library's number.
  std::int32_t eager_rows = -1;

  id_output sampled;  ///< [num_reqs, num_speculative_steps + 1] out: -1 after the last token
  std::int32_t* num_sampled = nullptr;  ///< [num_reqs] out: 1 or more, or those before an error
  hunch::status* status = nullptr;      ///< [num_reqs] out, may be null

  /// [workspace_bytes()] scratch for the time of the call, aligned as `law<Real>` is.
  void* workspace = nullptr;

  constexpr std::size_t workspace_bytes() const {
    const auto requests = static_cast<std::size_t>(num_reqs);
    const std::size_t paths = sampling.penalises()
                                  ? static_cast<std::size_t>(num_speculative_steps + 1) *
                                        static_cast<std::size_t>(2 * (num_speculative_steps + 1))
                                  : 0;
    return requests * (static_cast<std::size_t>(laws_of_request()) * sizeof(law<Real>) +
                       paths * sizeof(std::int32_t));
  }
  /// Laws of a request in the scratch: the target's, then the draft's.
  HUNCH_HOST_DEVICE constexpr std::int32_t laws_of_request() const {
    return num_speculative_steps + 1 + (draft_logits != nullptr ? num_speculative_steps : 0);
  }
  HUNCH_HOST_DEVICE law<Real>* laws_of(std::int32_t row) const {
    return static_cast<law<Real>*>(workspace) + static_cast<std::int64_t>(row) * laws_of_request();
  }
  /// Whether laws depend on more than the temperature.
  HUNCH_HOST_DEVICE constexpr bool has_stages() const {
    return !sampling.only_temperature() || allowed.words != nullptr;
  }
  HUNCH_HOST_DEVICE std::int32_t vocab_of_draft() const {
    return draft_logits != nullptr && draft_vocab > 0 ? draft_vocab : vocab;
  }
};

/// One request of a call.
struct request {
  bool is_inside = false;  ///< whether its rows and its state are in the arrays
  bool has_tokens = true;  ///< whether its drafts are in the vocabulary
  std::int32_t state = 0;
  std::int32_t begin = 0;   ///< its first row
  std::int32_t length = 0;  ///< drafts before the first that is -1
  id_array drafted;         ///< [length]

  template <class Real>
  HUNCH_HOST_DEVICE static request of(const logits_arguments<Real>& args, std::int32_t row) {
    request r;
    const std::int32_t end = args.cu_num_logits[row + 1];
    r.begin = args.cu_num_logits[row];
    r.state = args.idx_mapping[row];
    r.is_inside = r.begin >= 0 && r.begin < end && end <= args.num_logits &&
                  end - r.begin <= args.num_speculative_steps + 1 && r.state >= 0 &&
                  r.state < args.max_num_reqs;
    if (!r.is_inside) { return r; }
    r.drafted = args.draft_sampled.from(r.begin + 1);
    // By every rank for itself: the loads do not wait for each other, as ranks would.
    bool ended = false;
    for (std::int32_t i = 0; i < end - r.begin - 1; ++i) {
      const token t = r.drafted[i];
      ended |= t == no_token;
      r.length += ended ? 0 : 1;
      r.has_tokens &= ended || (t >= 0 && t < args.vocab);
    }
    return r;
  }
};

/// Makes law `index` % laws_of_request() of request `index` / laws_of_request(): the target's after
/// the root and each draft, then the draft's. One team per law. A row without a law gets one that
/// carries its error; what no rule reads is not made.
/// \tparam S its sampler.
template <class Real, class S>
struct request_laws {
  logits_arguments<Real> args;
  S sampler;
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;
  static constexpr int blocks = sizeof(Real) > sizeof(float) ? 1 : team::blocks_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t row = index / args.laws_of_request();
    const std::int32_t at = index % args.laws_of_request();
    const law<Real> l = law_at(team, row, at);
    if (team.rank() == 0) { args.laws_of(row)[at] = l; }
  }

  /// Law `at` of request `row`; without logits if no rule reads it. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> law_at(T& team, std::int32_t row,
                                                            std::int32_t at) const {
    law<Real> l;
    const request r = request::of(args, row);
    const bool is_draft = at > args.num_speculative_steps;
    const std::int32_t node = is_draft ? at - args.num_speculative_steps - 1 : at;
    if (!r.is_inside || !r.has_tokens || node >= r.length + (is_draft ? 0 : 1)) { return l; }
    sampling_parameters parameters = args.sampling.of(r.state);
    if (is_draft && parameters.temperature == 0.0f) { return l; }  // the greedy rule reads none
    row_history history;
    l.status = sampler.check(parameters);
    if (is_draft) {
      // Drafts are drawn by the logits and the temperature: every other stage is off.
      parameters = {.temperature = parameters.temperature};
      if (r.drafted[node] >= args.vocab_of_draft()) { l.status = status::invalid_draft; }
    } else if (!find_history(team, r, row, node, parameters, history)) {
      l.status = status::invalid_parameter;
    }
    if (l.status == status::ok) {
      const bool is_scaled = is_draft ? args.draft_is_scaled : args.target_is_scaled;
      if (is_scaled && parameters.temperature != 0.0f) { parameters.temperature = 1.0f; }
      l = sampler(team, is_draft ? draft_row(r, node) : target_row(r, node), parameters, history);
    }
    return l;
  }

 private:
  HUNCH_HOST_DEVICE row_view<Real> target_row(const request& r, std::int32_t node) const {
    return {
        args.target_logits + (r.begin + node) * distance_of_rows(args.target_stride, args.vocab),
        args.vocab};
  }
  HUNCH_HOST_DEVICE row_view<Real> draft_row(const request& r, std::int32_t node) const {
    const std::int64_t at = static_cast<std::int64_t>(r.state) * args.num_speculative_steps + node;
    // No stage edits it.
    return {const_cast<Real*>(args.draft_logits) +
                at * distance_of_rows(args.draft_stride, args.vocab_of_draft()),
            args.vocab_of_draft()};
  }

  /// What stages that edit a row of the target ask for. False where there is no such mask, or the
  /// texts were not counted.
  template <Team T>
  HUNCH_HOST_DEVICE bool find_history(T& team, const request& r, std::int32_t row,
                                      std::int32_t node, const sampling_parameters& parameters,
                                      row_history& history) const {
    if constexpr (S::needs_counts) {
      const sampling_parameters off;
      if (parameters.repetition_penalty != off.repetition_penalty ||
          parameters.presence_penalty != off.presence_penalty ||
          parameters.frequency_penalty != off.frequency_penalty) {
        if (!args.census.counts_for(r.state, args.vocab)) { return false; }
        history.counts = args.census.of(r.state, args.census.size[r.state]).view();
        // The chain up to this row as a tree, of this team alone.
        const std::int64_t nodes = args.num_speculative_steps + 1;
        std::int32_t* const tokens = reinterpret_cast<std::int32_t*>(args.laws_of(args.num_reqs)) +
                                     (row * nodes + node) * 2 * nodes;
        std::int32_t* const parents = tokens + nodes;
        team.for_each(node + 1, [=](std::int64_t i) {
          tokens[i] = i == 0 ? no_token : r.drafted[i - 1];
          parents[i] = static_cast<std::int32_t>(i) - 1;
        });
        history.tree_tokens = tokens;
        history.tree_parent = parents;
        history.node = node;
      }
    }
    return !S::needs_allowed || args.allowed.find(r.begin + node, args.vocab, history.allowed);
  }
};

/// The laws of request `row` from number `first` on, each made when it is first asked for, and
/// kept. Collective.
template <class Real, class S, class T>
struct laws_on_demand {
  const logits_arguments<Real>* args;
  T* team;
  std::int32_t row;
  std::int32_t first;

  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> operator[](std::int32_t node) const {
    law<Real>& kept = args->laws_of(row)[first + node];
    law<Real> l = kept;
    if (l.logits.data == nullptr) {
      l = request_laws<Real, S>{*args, {}}.law_at(*team, row, first + node);
      team->sync();  // every rank has seen that it was not made
      if (team->rank() == 0) { kept = l; }
      team->sync();
    }
    return l;
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> operator()(T&, std::int32_t node) const {
    return (*this)[node];
  }
};

/// Verifies the chain of request `row`. One team per request.
/// \tparam S the sampler that makes a law when the rule asks for it; void: by laws in the scratch,
///         which were all made before.
template <class Real, class S, class V, RandomSource Random, bool HasDraftLogits>
struct verify_request {
  logits_arguments<Real> args;
  V verifier;
  Random random;
  static constexpr bool reads_rows = true;
  /// One that makes laws by stages has few registers left.
  static constexpr int loads = std::is_same_v<S, sampled_logits> ? 4 : team::default_loads;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t row) const {
    verdict out;
    const request r = request::of(args, row);
    if constexpr (!std::is_void_v<S>) {
      law<Real>* const laws = args.laws_of(row);
      team.for_each(args.laws_of_request(), [=](std::int64_t i) { laws[i] = {}; });
    }
    if (!r.is_inside) {
      out.status = status::invalid_parameter;
    } else if (!r.has_tokens) {
      out.status = status::invalid_token;
    } else if (args.sampling.temperature_of(r.state) == 0.0f) {
      verify(team, row, r, verifier::greedy{}, out);
    } else {
      verify(team, row, r, verifier, out);
    }
    const std::int32_t capacity = args.num_speculative_steps + 1;
    write_chain(team, r.drafted, out, args.sampled.from(static_cast<std::int64_t>(row) * capacity),
                capacity);
    if (team.rank() == 0) {
      args.num_sampled[row] = out.accepted + (out.status == status::ok ? 1 : 0);
    }
    report(team, args.status, row, out.status);
  }

 private:
  template <Team T>
  HUNCH_HOST_DEVICE auto target_laws(T& team, std::int32_t row) const {
    if constexpr (std::is_void_v<S>) {
      (void)team;
      return stored_laws<law<Real>>{args.laws_of(row)};
    } else {
      return laws_on_demand<Real, S, T>{&args, &team, row, 0};
    }
  }
  template <Team T>
  HUNCH_HOST_DEVICE auto draft_laws(T& team, std::int32_t row, const request& r) const {
    if constexpr (!HasDraftLogits) {
      (void)team;
      (void)row;
      return point_rows<real_of<Real>>{r.drafted, args.vocab};
    } else if constexpr (std::is_void_v<S>) {
      (void)team;
      (void)r;
      return const_cast<const law<Real>*>(args.laws_of(row) + args.num_speculative_steps + 1);
    } else {
      (void)r;
      return laws_on_demand<Real, S, T>{&args, &team, row, args.num_speculative_steps + 1};
    }
  }

  template <Team T, class Rule>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void verify(T& team, std::int32_t row, const request& r,
                                                       const Rule& rule, verdict& out) const {
    const auto target = target_laws(team, row);
    const auto drawn_from = draft_laws(team, row, r);
    using target_type = std::remove_const_t<decltype(target)>;
    using drafts_type = drafts_of<std::remove_const_t<decltype(drawn_from)>>;
    const verify_view<target_type, drafts_type, drafted_chain> view{
        .tree = drafted_chain(r.drafted, r.length),
        .children = child_law::independent,
        .target = target,
        .drafts = {drawn_from, first_tokens(args.vocab_of_draft())},
        .seed = static_cast<std::uint64_t>(args.seed[r.state]),
        .length = static_cast<std::uint32_t>(args.pos[r.begin]) + 1u};
    rule(team, view, random, out);
  }
};

namespace detail {

/// Launches the bodies of a call whose laws are made by a sampler S.
template <class S, Executor E, class Real, class V, RandomSource Random, bool HasDraftLogits>
void sample_requests(E& executor, const logits_arguments<Real>& args,
                     std::bool_constant<HasDraftLogits>, V verifier, Random random) {
  const std::int32_t laws = args.num_reqs * args.laws_of_request();
  if (makes_laws_ahead<host_reads<E>, true>(laws, args.eager_rows)) {
    executor.launch(laws, request_laws<Real, S>{args, {}});
    executor.launch(args.num_reqs,
                    verify_request<Real, void, V, Random, HasDraftLogits>{args, verifier, random});
  } else {
    executor.launch(args.num_reqs,
                    verify_request<Real, S, V, Random, HasDraftLogits>{args, verifier, random});
  }
}

}  // namespace detail

/// Rejection sampling of a ragged batch on logits: `V` where the temperature is positive,
/// `verifier::greedy` where it is 0. Each request emits its accepted drafts and one more token.
/// (Leviathan, Kalman, Matias 2023, arXiv:2211.17192; of blocks: Sun et al. 2024, arXiv:2403.10444)
///
/// The target's law of a row is what the library's stages make of it: penalties for the text and
/// the drafts before the row, the row's mask, the temperature unless the logits are scaled, min-p,
/// top-k, top-p. That of a draft is its logits at the temperature.
///
/// Lossless if V is, for any q that the drafts were drawn from, or, without q, for any drafts that
/// were fixed before. Random choices have the library's own addresses, with the request's seed and
/// pos + 1 of its first row, the committed length; so what a request gets depends neither on the
/// batch nor on its place in it, and V may look beyond the accepted tokens, as `verifier::block`
/// does. Both are read when the bodies run: a graph whose `pos` has moved on draws other words.
///
/// A request with an error gets the drafts that were accepted before it, and its `status`: plain
/// decoding writes these, too, and meets the same error. `invalid_parameter`, and no token, where
/// its rows or its state lead out of the arrays, a parameter is out of range, see
/// `sampling_parameters`, or it has penalties and its text was not counted; `invalid_token` for an
/// id outside [0, vocab) before the first -1. After the drafts before it: `invalid_draft` where q
/// of a drafted id is 0 or its row has no law; `invalid_logits` where a row of the target has none,
/// `empty_support` where a mask left none, `invalid_parameter` where there is no such mask. The
/// others are not disturbed. A request without rows, as a padded batch has, is `invalid_parameter`.
///
/// Launches a body for each law, where these are few, and then one for each request, and returns
/// without waiting; allocates nothing. Every row is read once for its law where nothing restricts
/// it, of many requests only those rows that the rule asks for; at a rejection p's and q's once
/// more.
/// \tparam V a verifier of chains that uses q: `verifier::rejection` or `verifier::block`.
/// \param random makes the choices.
template <Executor E, class Real, class V = verifier::rejection,
          RandomSource Random = random_source<>>
void rejection_sample(E& executor, const logits_arguments<Real>& args, V verifier = {},
                      Random random = {}) {
  static_assert(V::lossless && V::needs_draft_law && V::accepts(child_law::independent, true),
                "hunch: rejection_sample on logits verifies chains against draft laws: give it "
                "verifier::rejection or verifier::block");
  const auto sample = [&](auto has_draft_logits) {
    if (args.has_stages()) {
      detail::sample_requests<sampled_logits>(executor, args, has_draft_logits, verifier, random);
    } else {
      detail::sample_requests<scaled_logits>(executor, args, has_draft_logits, verifier, random);
    }
  };
  if (args.draft_logits != nullptr) {
    sample(std::true_type{});
  } else {
    sample(std::false_type{});
  }
}

}  // namespace hunch::interop::vllm
