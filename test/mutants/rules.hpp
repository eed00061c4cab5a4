// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/sampler/penalties.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/forking_source.hpp"
#include "../support/interval_source.hpp"
#include "../support/tree_drafter.hpp"

/// \file
/// Wrong versions of the rules on trees and of block verification, of what becomes of errors, and
/// of stages that edit logits. Rules are written a second time, over laws that are written out.

namespace hunch::test {

template <class L>
weights target_law(const L& p) {
  weights out(static_cast<std::size_t>(p.size()));
  for (std::size_t v = 0; v < out.size(); ++v) { out[v] = p.prob(static_cast<std::int64_t>(v)); }
  return out;
}

template <class L>
weights draft_law(const L& q, const shortlist& list, std::size_t vocab) {
  weights out(vocab, 0.0);
  for (std::int32_t i = 0; i < q.size(); ++i) {
    out[static_cast<std::size_t>(list.token_at(i))] = q.prob(i);
  }
  return out;
}

/// (a p - q)+
inline weights residual_of(double a, const weights& p, const weights& q) {
  weights out(p.size());
  for (std::size_t v = 0; v < p.size(); ++v) { out[v] = std::max(a * p[v] - q[v], 0.0); }
  return out;
}

enum class sibling_defect {
  none,
  static_p,            ///< p does not change between siblings, then one residual is taken
  unnormalised_p,      ///< what a rejection leaves of p is not normalised before the next test
  unnormalised_q,      ///< q loses the rejected token and is not normalised again
  first_is_accepted,   ///< the first candidate is accepted whatever p says
  skips_duplicates,    ///< a token that was rejected before is not tested again
  bonus_row_by_depth,  ///< the bonus row is looked up by depth, not by node
};

/// Rejection sampling on trees with a defect.
template <sibling_defect Defect>
struct wrong_siblings : verifier::rejection {
  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    std::int32_t c = 0;
    for (;;) {
      const auto law = view.target(team, c);
      std::int32_t child = view.tree.next_child(c, c);
      if (child < 0) {
        const bool by_depth = Defect == sibling_defect::bonus_row_by_depth;
        const auto from = view.target(team, by_depth ? out.accepted : c);
        return kernel::emit(team, view.at(c, purpose::bonus), from, random, out);
      }
      weights p = target_law(law);
      weights q = draft_law(view.drafts.laws[c], view.drafts.lists[c], p.size());
      std::vector<token> rejected;
      for (; child >= 0; child = view.tree.next_child(c, child)) {
        const token t = view.tree.tokens[child];
        const auto x = static_cast<std::size_t>(t);
        const auto sibling = static_cast<std::int32_t>(rejected.size());
        if (Defect == sibling_defect::skips_duplicates &&
            std::ranges::find(rejected, t) != rejected.end()) {
          continue;
        }
        if ((Defect == sibling_defect::first_is_accepted && sibling == 0) ||
            random.bernoulli(view.at(c, purpose::accept, sibling), p[x], q[x])) {
          break;
        }
        rejected.push_back(t);
        if (Defect != sibling_defect::static_p) {
          p = residual_of(1.0, p, q);
          if (Defect != sibling_defect::unnormalised_p) { normalise(p); }
        }
        if (view.children == child_law::without_replacement) {
          q[x] = 0.0;
          if (Defect != sibling_defect::unnormalised_q) { normalise(q); }
        }
      }
      if (child >= 0) {
        kernel::accept(team, out, child);
        c = child;
        continue;
      }
      if (Defect == sibling_defect::static_p) { p = residual_of(1.0, p, q); }
      out.next = static_cast<token>(
          random.categorical(team, view.at(c, purpose::residual), law.size(),
                             [&](std::int64_t v) { return p[static_cast<std::size_t>(v)]; }));
      if (out.next < 0) { kernel::emit(team, view.at(c, purpose::bonus), law, random, out); }
      return;
    }
  }
};

static_assert(Verifier<wrong_siblings<sibling_defect::none>>);

/// Drafts in one way and says that it was another.
template <child_law Drawn, child_law Claimed>
struct mislabelled : tree_drafter<Drawn> {
  static constexpr child_law children = Claimed;
};

enum class block_defect {
  none,
  uncapped,            ///< the product of the ratios may exceed 1
  blind,               ///< a position is accepted with w, whatever comes after it
  first_refusal_ends,  ///< stops at the first refused position, as the chain rule does
  residual_of_one,     ///< draws from (p - q)+ and not from (w p - q)+
};

/// Block verification with a defect.
template <block_defect Defect>
struct wrong_block : verifier::block {
  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    const std::int32_t last = view.tree.count - 1;
    std::vector<double> w{1.0};
    std::vector<weights> p{target_law(view.target(team, 0))};
    std::vector<weights> q;
    for (std::int32_t c = 0; c < last; ++c) {
      const auto x = static_cast<std::size_t>(view.tree.tokens[c + 1]);
      q.push_back(draft_law(view.drafts.laws[c], view.drafts.lists[c], p[0].size()));
      const double next = w.back() * p.back()[x] / q.back()[x];
      w.push_back(Defect == block_defect::uncapped ? next : std::min(next, 1.0));
      p.push_back(target_law(view.target(team, c + 1)));
    }
    const auto at = [](std::int32_t c) { return static_cast<std::size_t>(c); };
    std::int32_t kept = 0;
    for (std::int32_t c = 1; c <= last; ++c) {
      const double after = c < last ? test::mass(residual_of(w[at(c)], p[at(c)], q[at(c)])) : 0.0;
      const bool is_last = c == last || Defect == block_defect::blind;
      const double accepted = is_last ? w[at(c)] : after;
      const double all = is_last ? 1.0 : after + (1.0 - w[at(c)]);
      if (!(all > 0.0) || random.bernoulli(view.at(c, purpose::accept), accepted, all)) {
        kept = c;
      } else if (Defect == block_defect::first_refusal_ends) {
        break;
      }
    }
    kernel::keep_path(team, view, kept, out);
    weights rest = p[at(kept)];
    if (kept < last) {
      const bool of_one = Defect == block_defect::residual_of_one;
      rest = residual_of(of_one ? 1.0 : w[at(kept)], p[at(kept)], q[at(kept)]);
      if (!(test::mass(rest) > 0.0)) { rest = p[at(kept)]; }
    }
    out.next = static_cast<token>(
        random.categorical(team, view.at(kept, kept < last ? purpose::residual : purpose::bonus),
                           static_cast<std::int64_t>(rest.size()),
                           [&](std::int64_t v) { return rest[at(static_cast<std::int32_t>(v))]; }));
  }
};

static_assert(Verifier<wrong_block<block_defect::none>>);

enum class error_defect {
  none,
  reads_ahead,  ///< a row that plain decoding never reads fails the request
  takes_back,   ///< an error takes back the tokens that were accepted before it
};

/// A rule that is wrong about rows without a law.
template <error_defect Defect, class V>
struct wrong_errors : V {
  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    for (std::int32_t c = 0; Defect == error_defect::reads_ahead && c < view.tree.count; ++c) {
      const auto p = view.target(team, c);
      if (p.status != status::ok) { return kernel::fail(out, p.status, c); }
    }
    V::operator()(team, view, random, out);
    if (Defect == error_defect::takes_back && out.status != status::ok) { out.accepted = 0; }
  }
};

/// Penalties that read one accepted token per step only.
struct stale_penalties : sampler::penalties {
  template <Team T, class Real>
  void edit(T& team, row_view<Real> row, const sampling_parameters& p, row_history history) const {
    history.node = std::min(history.node, 1);
    sampler::penalties::edit(team, row, p, history);
  }
};

/// A stage that is honoured only on the first token of a step.
template <LogitStage Stage>
struct first_row_only : Stage {
  template <Team T, class Real>
  void edit(T& team, row_view<Real> row, const sampling_parameters& p,
            const row_history& history) const {
    if (history.node == 0) { Stage::edit(team, row, p, history); }
  }
};

}  // namespace hunch::test
