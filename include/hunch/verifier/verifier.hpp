// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch {

/// The target's laws of one sequence, made before: element c is the law after node c.
template <Law L>
struct stored_laws {
  const L* laws = nullptr;  ///< [nodes]

  /// Of a rule that makes no laws: it has registers for what it reads of a residual's two rows.
  static constexpr int loads = 32;

  template <Team T>
  HUNCH_HOST_DEVICE L operator()(T&, std::int32_t c) const {
    return laws[c];
  }
  HUNCH_HOST_DEVICE static constexpr bool is_known(std::int32_t) { return true; }
  HUNCH_HOST_DEVICE L known(std::int32_t c) const { return laws[c]; }
};

/// The laws that the children of each node were drawn from, as they lie in a draft tree.
/// \tparam OneRange no list has more than one range: less is compiled.
template <Law L, bool OneRange = false>
struct stored_drafts {
  static constexpr bool is_one_range = OneRange;
  const L* laws = nullptr;           ///< [nodes]
  const shortlist* lists = nullptr;  ///< [nodes]
};

/// What a verifier decides about: the draft of one sequence and the target's laws on it.
/// \tparam Target gives the target's law after a node: target(team, node), collective. A rule asks
///         for the nodes that it needs, so that a law that nobody needs is never made. One whose
///         laws may have been made before can say so: target.known(node), by any rank, is the law
///         if target.is_known(node). Where rows are divided among ranks, one can say what the
///         others hold: target.told(child) is the logit that the law after its parent has of a
///         node's token.
/// \tparam Drafts gives laws[node] and lists[node] of what was drawn there. One whose lists never
///         have more than one range may say so, see `has_one_range`.
/// \tparam Tree has the members of `drafted_tokens` that the rule reads; another type where an
///         engine stores its trees in another form. One that is always a chain may say so, see
///         `is_chain_tree`.
/// \tparam Seed \tparam Length what converts to these numbers, for who finds them when they are
/// read.
template <class Target, class Drafts, class Tree = drafted_tokens, class Seed = std::uint64_t,
          class Length = std::uint32_t>
struct verify_view {
  Tree tree;
  child_law children = child_law::independent;
  Target target;
  Drafts drafts;
  Seed seed{};                ///< of the request
  Length length{};            ///< committed length at the start of the step
  double* scratch = nullptr;  ///< [tree.count] for rules that compare paths, such as
                              ///< `verifier::typical`; others do not use it

  /// The same view with another seed.
  HUNCH_HOST_DEVICE verify_view<Target, Drafts, Tree, std::uint64_t, Length> with_seed(
      std::uint64_t other) const {
    return {tree, children, target, drafts, other, length, scratch};
  }

  /// The address of a random choice at a node.
  HUNCH_HOST_DEVICE address at(std::int32_t node, purpose what, std::int32_t sibling = 0) const {
    return {.seed = seed,
            .length = length,
            .node = static_cast<std::uint32_t>(node),
            .sibling = static_cast<std::uint32_t>(sibling),
            .what = what};
  }
};

/// Whether no list of the drafts of a view has more than one range, by `static constexpr bool
/// is_one_range`.
template <class Drafts>
inline constexpr bool has_one_range = requires {
  requires std::remove_cvref_t<Drafts>::is_one_range;
};

/// Whether the trees of a view have width one, by `static constexpr bool is_chain`: then a rule
/// need not be compiled for siblings.
template <class Tree>
inline constexpr bool is_chain_tree = requires {
  requires std::remove_cvref_t<Tree>::is_chain;
};

/// A view of laws over logits that were all made before.
template <class Real = float>
using logits_view = verify_view<stored_laws<law<Real>>, stored_drafts<law<Real>>>;

/// What a verifier decided: the accepted path, and one more token or an error. An error takes back
/// nothing: the accepted tokens are those that plain decoding emits before it meets the same error.
struct verdict {
  std::int32_t* path = nullptr;  ///< [max_nodes] out: accepted nodes in order, without the root;
                                 ///< nullptr: only their number is wanted
  std::int32_t accepted = 0;     ///< nodes in `path`
  token next = no_token;         ///< the corrected, bonus or sampled token
  origin next_origin = origin::sampled;
  hunch::status status = hunch::status::ok;
  std::int32_t failed_node = -1;  ///< the node whose row has the error; of `invalid_draft` the
                                  ///< drafted one
  bool empty_residual = false;    ///< the residual was zero after rounding: drawn from p
};

/// Decides which drafted tokens are kept.
///
/// 1. `v(team, view, random, verdict)` fills the verdict; collective, allocation-free.
///    `verdict.path` is set by the caller and shared by the ranks: one of them writes it. The rest
///    of the verdict is each rank's own. `verdict.status` is an error of the row after the accepted
///    path, or of the drafts there, and of no other: a rule that reads more rows takes one without
///    a law for the end of the draft.
/// 2. `V::lossless`: the joint law of the emitted tokens and of the error after them, if there is
///    one, is that of plain decoding.
/// 3. `V::needs_draft_law`: it reads the law q that children were drawn from.
/// 4. `V::needs_greedy`: it is exact only where every target law is a point mass.
/// 5. `V::shares_noise`: it is at its best where drafts are drawn with the noise that it uses
///    itself; see `verifier::coupled`.
/// 6. `V::accepts(children, is_chain)`: whether it can verify such drafts.
///
/// A rule may say what it asks of a node of a chain that depends on no decision: `v.ahead(team,
/// view, random, node)`, collective, is 64 bits that it otherwise computes itself, see
/// `kernel::ahead_or`. Where rows are divided among ranks, those of all nodes are then computed
/// side by side, in the exchanges of one.
///
/// Not required: that every rule works on trees; a chain rule says so in `accepts`. One that is
/// chosen when the program runs, as `verifier::one_of`, has two functions more. `v.chosen()` gives
/// the `verifier_traits` of the one that was chosen, by which the decoder's constructor refuses
/// what does not fit. `v.visit(use)` calls use(rule) with it.
template <class V>
concept Verifier = std::copyable<V> &&
    requires(const V& v, team::serial& t, const logits_view<float>& view,
             const random_source<>& random, verdict& out) {
  v(t, view, random, out);
  {std::bool_constant<V::lossless>{}};
  {std::bool_constant<V::needs_draft_law>{}};
  {std::bool_constant<V::needs_greedy>{}};
  {std::bool_constant<V::shares_noise>{}};
  {std::bool_constant<V::accepts(child_law::ranked, true)>{}};
};

/// Points 3 to 6 of `Verifier`, of one object.
struct verifier_traits {
  bool needs_draft_law = false;
  bool needs_greedy = false;
  bool shares_noise = false;
  bool (*accepts)(child_law children, bool is_chain) = nullptr;

  template <class V>
  static constexpr verifier_traits of() {
    return {V::needs_draft_law, V::needs_greedy, V::shares_noise, &V::accepts};
  }
};

/// Whether the traits of a verifier are those of what was chosen when the program ran.
template <class V>
inline constexpr bool is_chosen_verifier = requires(const V& v) {
  { v.chosen() } -> std::same_as<verifier_traits>;
};

template <Verifier V>
verifier_traits traits_of(const V& v) {
  if constexpr (is_chosen_verifier<V>) {
    return v.chosen();
  } else {
    return verifier_traits::of<V>();
  }
}

/// use(rule) with a verifier, or with the one that was chosen when the program ran.
template <Verifier V, class Use>
void with_rule(const V& v, const Use& use) {
  if constexpr (is_chosen_verifier<V>) {
    v.visit(use);
  } else {
    use(v);
  }
}

namespace kernel {

HUNCH_HOST_DEVICE inline void fail(verdict& out, status why, std::int32_t node) {
  out.status = why;
  out.failed_node = node;
}

/// Whether the target of a view tells the logits of drafted tokens.
template <class View>
inline constexpr bool tells_logits = requires(const View& view) {
  view.target.told(0);
};

/// The weight that the target's law `p` after a node has for the token of its child. Collective.
template <Team T, class View, Law P>
HUNCH_HOST_DEVICE HUNCH_INLINE typename P::real drafted_weight(T& team, const View& view,
                                                               const P& p, std::int32_t child) {
  const token x = view.tree.tokens[child];
  if constexpr (!team::spans_ranks<T>) {
    return p.weight(x);
  } else if constexpr (tells_logits<View>) {
    return p.weight_of(view.target.told(child), x);
  } else {
    return team::on_holder(team, x, [&] { return p.weight(x); });
  }
}
/// Its probability.
template <Team T, class View, Law P>
HUNCH_HOST_DEVICE HUNCH_INLINE typename P::real drafted_prob(T& team, const View& view, const P& p,
                                                             std::int32_t child) {
  if constexpr (!team::spans_ranks<T>) {
    return p.prob(view.tree.tokens[child]);
  } else {
    return product(drafted_weight(team, view, p, child), p.norm);
  }
}

/// Whether what a rule V asks of the nodes of a chain may have been computed ahead; see `Verifier`.
template <class T, class View, class V, class Random>
inline constexpr bool looks_ahead =
    team::spans_ranks<T>&& is_chain_tree<decltype(View::tree)>&& requires(T& team, const V& v,
                                                                          const View& view,
                                                                          const Random& random) {
  view.target.ahead(0);
  { v.ahead(team, view, random, 0) } -> std::same_as<std::uint64_t>;
};

/// These bits of a node, or compute() where nobody has; both of the same type.
template <class T, class View, class V, class Random, class Compute>
HUNCH_HOST_DEVICE HUNCH_INLINE auto ahead_or(T&, const View& view, const V&, const Random&,
                                             std::int32_t c, const Compute& compute) {
  using value = decltype(compute());
  if constexpr (looks_ahead<T, View, V, Random>) {
    if (const std::uint64_t* const bits = view.target.ahead(c)) {
      value of;
      std::memcpy(&of, bits, sizeof of);
      return of;
    }
  }
  return compute();
}
/// The bits of such a value.
template <class Value>
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint64_t ahead_bits(const Value& value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// Appends a node to the accepted path, which the ranks share.
template <Team T>
HUNCH_HOST_DEVICE void accept(T& team, verdict& out, std::int32_t node) {
  if (team.rank() == 0 && out.path != nullptr) { out.path[out.accepted] = node; }
  ++out.accepted;
}

/// Makes the path from the root to node `last` the accepted one.
template <Team T, class View>
HUNCH_HOST_DEVICE void keep_path(T& team, const View& view, std::int32_t last, verdict& out) {
  out.accepted = view.tree.depth(last);
  if (team.rank() != 0 || out.path == nullptr) { return; }
  for (std::int32_t i = out.accepted - 1, node = last; i >= 0; --i, node = view.tree.parent[node]) {
    out.path[i] = node;
  }
}

/// Where the token after the accepted path comes from if no draft was refused.
HUNCH_HOST_DEVICE inline origin undrafted(const verdict& out) {
  return out.accepted > 0 ? origin::bonus : origin::sampled;
}

/// A token from law p, which becomes the next one of the verdict.
template <Team T, Law P, class Random>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void emit(T& team, const address& where, const P& p,
                                                   const Random& random, verdict& out) {
  out.next = static_cast<token>(random.categorical(team, where, p.size(), weights_of<P>{p}));
}

/// The token after node c where nothing is left of the residual after rounding, because p = q: a
/// draw from p, which is counted.
template <Team T, class View, Law P, class Random>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void emit_for_no_residual(T& team, const View& view,
                                                                   std::int32_t c, const P& p,
                                                                   const Random& random,
                                                                   verdict& out) {
  emit(team, view.at(c, purpose::bonus), p, random, out);
  out.empty_residual = true;
  out.next_origin = origin::corrected;
}

}  // namespace kernel
}  // namespace hunch
