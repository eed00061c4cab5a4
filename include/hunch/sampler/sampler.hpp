// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/law.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// The values of the sampling stages for one request. The defaults change nothing: a field away
/// from its default needs a stage in the sampler, or the request is refused.
struct sampling_parameters {
  float temperature = 1.0f;  ///< >= 0; 0 is exact greedy decoding
  std::int32_t top_k = 0;    ///< 0: off
  float top_p = 1.0f;        ///< in (0, 1]; 1: off
};

/// Where a row stands, for stages that depend on it: the tokens before it, which are the committed
/// tokens of the sequence and then the row's ancestors in the draft tree from the root's child down
/// to itself; and which tokens the row's elements are.
struct row_history {
  const shortlist* list = nullptr;   ///< of a draft row; nullptr: element i is token i
  const token* committed = nullptr;  ///< [length], the last is the root
  std::int32_t length = 0;
  const token* tree_tokens = nullptr;         ///< [nodes] of the draft tree
  const std::int32_t* tree_parent = nullptr;  ///< [nodes]; node 0 is the root
  std::int32_t node = 0;                      ///< of this row
};

/// Turns a row of logits into the law that tokens are drawn from. The same sampler makes the laws
/// of draft rows, verified rows and bonus rows.
///
/// 1. `s(team, row, parameters, history)` is the row's `law`, its norm set or its status an error;
///    collective, allocation-free, callable on every team.
/// 2. `s.check(parameters)` is `status::ok`, or `invalid_parameter` if a value is out of range or
///    belongs to a stage that this sampler does not have. Called when a request is added.
/// 3. `S::always_greedy`: every law is a point mass, whatever the parameters.
///
/// Not required: that the row is the whole vocabulary; draft rows are shortlists.
template <class S>
concept Sampler = std::copyable<S> && requires(const S& s, team::serial& t, row_view<float> row,
                                               const sampling_parameters& p, const row_history& h) {
  { s(t, row, p, h) } -> std::same_as<law<float>>;
  { s.check(p) } -> std::same_as<status>;
  {std::bool_constant<S::always_greedy>{}};
};

}  // namespace hunch
