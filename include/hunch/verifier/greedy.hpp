// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Greedy match: descend while a child is the target's most probable token, then emit that token.
/// The emitted text is the greedy text of the target, whatever the draft. Lossless; works on every
/// draft; needs laws that are point masses, so a sampler that is always greedy. No randomness, and
/// of each law only one scalar is read. (Stern, Shazeer, Uszkoreit 2018, arXiv:1811.03115)
struct greedy {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = true;
  static constexpr bool accepts(child_law, bool) { return true; }

  template <Team T, class Real, class Random>
  HUNCH_HOST_DEVICE void operator()(T& team, const verify_view<Real>& view, const Random&,
                                    verdict& out) const {
    const draft_tree<Real>& tree = view.tree;
    std::int32_t c = 0;
    for (;;) {
      const law<Real>& p = view.target[c];
      if (p.status != status::ok) {
        out.status = p.status;
        out.failed_node = c;
        return;
      }
      const token best = p.last_kept;
      const std::int32_t first = tree.next_child(c, c);
      std::int32_t child = first;
      while (child >= 0 && tree.tokens[child] != best) { child = tree.next_child(c, child); }
      if (child < 0) {
        out.next = best;
        out.next_origin = first >= 0         ? origin::corrected
                          : out.accepted > 0 ? origin::bonus
                                             : origin::sampled;
        return;
      }
      if (team.rank() == 0) { out.path[out.accepted] = child; }  // `path` is shared by the ranks
      ++out.accepted;
      c = child;
    }
  }
};

static_assert(Verifier<greedy>);

}  // namespace hunch::verifier
