// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/kernel/residual.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Speculative sampling on a chain: accept x ~ q while u * q(x) < p(x); at the first rejection
/// draw from norm((p - q)+) over the full vocabulary, after the last acceptance from p. Lossless
/// for any q that x was drawn from. (Leviathan, Kalman, Matias 2023, arXiv:2211.17192; Chen et al.
/// 2023, arXiv:2302.01318)
///
/// The comparison is strict, so that p(x) = 0 always rejects. Reads the target's row of the
/// rejected position once more for the residual, nothing is written.
struct rejection {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = true;
  static constexpr bool needs_greedy = false;
  static constexpr bool accepts(child_law children, bool is_chain) {
    return is_chain && children != child_law::ranked;
  }

  template <Team T, class Real, class Random>
  HUNCH_HOST_DEVICE void operator()(T& team, const verify_view<Real>& view, const Random& random,
                                    verdict& out) const {
    const draft_tree<Real>& tree = view.tree;
    std::int32_t c = 0;
    for (;;) {
      const law<Real> p = view.target[c];
      if (p.status != status::ok) {
        out.status = p.status;
        out.failed_node = c;
        return;
      }
      const std::int32_t child = tree.next_child(c, c);
      if (child < 0) {
        out.next_origin = out.accepted > 0 ? origin::bonus : origin::sampled;
        return kernel::emit_from_target(team, view, random, c, out);
      }
      const law<Real> q = tree.laws[c];
      const auto p_x = static_cast<double>(p.prob(tree.tokens[child]));
      const auto q_x = static_cast<double>(q.prob(tree.drawn_at[child]));
      if (!(q_x > 0.0)) {
        out.status = status::invalid_draft;
        out.failed_node = child;
        return;
      }
      if (random.bernoulli(view.at(c, purpose::accept), p_x, q_x)) {
        if (team.rank() == 0) { out.path[out.accepted] = child; }  // `path` is shared by the ranks
        ++out.accepted;
        c = child;
        continue;
      }
      out.next_origin = origin::corrected;
      const std::int64_t drawn =
          kernel::draw_residual(team, view.at(c, purpose::residual), p, q, tree.lists[c], random);
      if (drawn >= 0) {
        out.next = static_cast<token>(drawn);
        return;
      }
      out.empty_residual = true;  // p = q but for rounding
      return kernel::emit_from_target(team, view, random, c, out);
    }
  }
};

static_assert(Verifier<rejection>);

}  // namespace hunch::verifier
