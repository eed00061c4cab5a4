// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/draft_tree.hpp>
#include <hunch/law.hpp>
#include <hunch/random.hpp>
#include <hunch/types.hpp>

namespace hunch {

/// What a verifier decides about: the draft of one sequence and the target's laws on it.
template <class Real = float>
struct verify_view {
  draft_tree<Real> tree;
  const law<Real>* target = nullptr;  ///< [tree.count] the target's law after each node
  std::uint64_t seed = 0;             ///< of the request
  std::uint32_t length = 0;           ///< committed length at the start of the step

  /// The address of a random choice at a node.
  HUNCH_HOST_DEVICE address at(std::int32_t node, purpose what, std::int32_t sibling = 0) const {
    return {seed, length, static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(sibling),
            what};
  }
};

/// What a verifier decided: the accepted path and one more token.
struct verdict {
  std::int32_t* path = nullptr;  ///< [max_nodes] out: accepted nodes in order, without the root
  std::int32_t accepted = 0;     ///< nodes in `path`
  token next = no_token;         ///< the corrected, bonus or sampled token
  origin next_origin = origin::sampled;
  hunch::status status = hunch::status::ok;
  std::int32_t failed_node = -1;  ///< the node whose row has the error
  bool empty_residual = false;    ///< the residual was zero after rounding: drawn from p
};

/// Decides which drafted tokens are kept.
///
/// 1. `v(team, view, random, verdict)` fills the verdict; collective, allocation-free. Errors of
///    rows that it needs go into `verdict.status`. `verdict.path` is set by the caller and shared
///    by the ranks: one of them writes it. The rest of the verdict is each rank's own.
/// 2. `V::lossless`: the joint law of the emitted tokens is that of plain decoding.
/// 3. `V::needs_draft_law`: it reads the law q that children were drawn from.
/// 4. `V::needs_greedy`: it is exact only where every target law is a point mass.
/// 5. `V::accepts(children, is_chain)`: whether it can verify such drafts.
///
/// Not required: that every rule works on trees; a chain rule says so in `accepts`.
template <class V>
concept Verifier = std::copyable<V> &&
    requires(const V& v, team::serial& t, const verify_view<float>& view,
             const random_source<>& random, verdict& out) {
  v(t, view, random, out);
  {std::bool_constant<V::lossless>{}};
  {std::bool_constant<V::needs_draft_law>{}};
  {std::bool_constant<V::needs_greedy>{}};
  {std::bool_constant<V::accepts(child_law::ranked, true)>{}};
};

namespace kernel {

/// Draws the token after node c from the target's own law.
template <Team T, class Real, class Random>
HUNCH_HOST_DEVICE void emit_from_target(T& team, const verify_view<Real>& view,
                                        const Random& random, std::int32_t c, verdict& out) {
  const law<Real> p = view.target[c];
  out.next = static_cast<token>(random.categorical(team, view.at(c, purpose::bonus), p.logits.size,
                                                   [=](std::int64_t i) { return p.weight(i); }));
}

}  // namespace kernel
}  // namespace hunch
