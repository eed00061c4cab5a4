// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// An addition to the logit of one token; -inf bans it.
struct logit_bias {
  token t = no_token;
  float value = 0.0f;

  friend constexpr bool operator==(const logit_bias&, const logit_bias&) = default;
};

/// The values of the sampling stages for one request. The defaults change nothing: a field away
/// from its default needs a stage in the sampler, or the request is refused.
struct sampling_parameters {
  float temperature = 1.0f;          ///< >= 0; 0 is exact greedy decoding
  std::int32_t top_k = 0;            ///< 0: off
  float top_p = 1.0f;                ///< in (0, 1]; 1: off
  float min_p = 0.0f;                ///< in [0, 1]; 0: off
  float repetition_penalty = 1.0f;   ///< > 0; 1: off
  float presence_penalty = 0.0f;     ///< any finite value; 0: off
  float frequency_penalty = 0.0f;    ///< any finite value; 0: off
  const logit_bias* bias = nullptr;  ///< [bias_count], each token once; the caller keeps it
  std::int32_t bias_count = 0;
  bool constrained = false;  ///< every row comes with the set of tokens that a grammar allows

  friend constexpr bool operator==(const sampling_parameters&,
                                   const sampling_parameters&) = default;
};

/// The same edits of logits, without temperature and cuts: for laws that are only ranked.
HUNCH_HOST_DEVICE inline sampling_parameters uncut(sampling_parameters p) {
  constexpr sampling_parameters off{};
  p.temperature = off.temperature;
  p.top_k = off.top_k;
  p.top_p = off.top_p;
  p.min_p = off.min_p;
  return p;
}

/// The tokens that occur in a sequence, each once: a view of `token_census`.
struct token_counts {
  std::int32_t size = 0;
  const token* tokens = nullptr;          ///< [size]
  const std::int32_t* emitted = nullptr;  ///< [size] how often after the prompt
  const std::int32_t* index = nullptr;    ///< [vocab_size] where a token stands in `tokens`, or -1
};

/// Where a row stands, for stages that depend on it: the tokens before it, which are the committed
/// tokens of the sequence and then the row's ancestors in the draft tree from the root's child down
/// to itself; which tokens the row's elements are; and which of them may come next.
struct row_history {
  const shortlist* list = nullptr;   ///< of a draft row; nullptr: element i is token i
  const token* committed = nullptr;  ///< [length], the last is the root
  std::int32_t length = 0;
  token_counts counts = {};                   ///< of the committed tokens, if the sampler asks
  const token* tree_tokens = nullptr;         ///< [nodes] of the draft tree
  const std::int32_t* tree_parent = nullptr;  ///< [nodes]; node 0 is the root
  std::int32_t node = 0;                      ///< of this row
  const std::uint32_t* allowed = nullptr;     ///< bit t % 32 of word t / 32; nullptr: all tokens

  /// The element of the row that is token t, or -1.
  HUNCH_HOST_DEVICE std::int32_t position_of(token t) const {
    return list == nullptr ? t : list->position_of(t);
  }
  HUNCH_HOST_DEVICE token token_at(std::int32_t position) const {
    return list == nullptr ? position : list->token_at(position);
  }
};

/// Turns a row of logits into the law that tokens are drawn from. The same sampler makes the laws
/// of draft rows, verified rows and bonus rows.
///
/// 1. `s(team, row, parameters, history)` is the row's `law`, its norm set or its status an error;
///    collective, allocation-free, callable on every team. It may edit the row; it is called once
///    for each row.
/// 2. `s.check(parameters)` is `status::ok`, or `invalid_parameter` if a value is out of range or
///    belongs to a stage that this sampler does not have. Called when a request is added.
/// 3. `S::always_greedy`: every law is a point mass, whatever the parameters.
/// 4. `S::needs_counts`: it reads `history.counts`, which costs the decoder memory of the size of
///    the vocabulary per sequence.
/// 5. `S::needs_allowed`: it obeys `history.allowed`.
///
/// Not required: that the row is the whole vocabulary; draft rows are shortlists.
template <class S>
concept Sampler = std::copyable<S> && requires(const S& s, team::serial& t, row_view<float> row,
                                               const sampling_parameters& p, const row_history& h) {
  { s(t, row, p, h) } -> std::same_as<law<float>>;
  { s.check(p) } -> std::same_as<status>;
  {std::bool_constant<S::always_greedy>{}};
  {std::bool_constant<S::needs_counts>{}};
  {std::bool_constant<S::needs_allowed>{}};
};

}  // namespace hunch
