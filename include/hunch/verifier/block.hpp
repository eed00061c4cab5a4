// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/distribution/residual.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Block verification of one chain: the draft is judged as a whole, so that it keeps at least as
/// many tokens in expectation as `rejection` on every pair of laws. Lossless. (Sun et al. 2024,
/// arXiv:2403.10444)
///
/// With w the capped product of the ratios p / q along the draft, position i is accepted with
/// probability Z / (Z + 1 - w), Z = sum (w p - q)+ of the next position, and the longest accepted
/// prefix wins; then the residual is norm((w p - q)+). The decision about a position looks at the
/// draft after it, and so the row of every drafted token is read up to one of probability 0, after
/// which none is accepted.
///
/// A row without a law, of the target or of the draft, ends the draft in front of it, whatever was
/// drafted there; it is an error if the text gets that far. This leaves the law as it is: where the
/// draft ends is known once the tokens before are drawn (a stopping time of the draft), and the
/// rule is exact for a draft of any length that is decided so.
struct block {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = true;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law children, bool is_chain) {
    return is_chain && children != child_law::ranked;
  }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           const Random& random,
                                                           verdict& out) const {
    double w = 1.0;
    double w_kept = 1.0;    // w after the longest accepted prefix
    std::int32_t kept = 0;  // its last node
    std::int32_t c = 0;
    for (;;) {
      // The row after the last token of a draft takes no part in this.
      const std::int32_t child = view.tree.next_child(c, c);
      if (child < 0 || !(w > 0.0)) { break; }
      const auto p = view.target(team, c);
      if (p.status != status::ok) { break; }
      const auto& q = view.drafts.laws[c];
      const auto q_x =
          q.status == status::ok ? static_cast<double>(q.prob(view.tree.drawn_at[child])) : 0.0;
      if (!(q_x > 0.0)) { break; }
      if (c > 0) {
        const double residual = kernel::ahead_or(team, view, *this, random, c,
                                                 [&] { return mass(team, view, p, c, w); });
        const double all = residual + (1.0 - w);
        // 0 / 0 is w = 1 and p = q: nothing left to correct.
        if (!(all > 0.0) || random.bernoulli(view.at(c, purpose::accept), residual, all)) {
          kept = c;
          w_kept = w;
        }
      }
      w = capped(w * (static_cast<double>(kernel::drafted_prob(team, view, p, child)) / q_x));
      c = child;
    }
    if (c > 0 && random.bernoulli(view.at(c, purpose::accept), w, 1.0)) { kept = c; }
    kernel::keep_path(team, view, kept, out);
    finish(team, view, random, kept, kept == c, w_kept, out);
  }

  /// The residual of node c, if the rule gets there.
  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE std::uint64_t ahead(T& team, const View& view, const Random&,
                                        std::int32_t c) const {
    double w = 1.0;
    for (std::int32_t above = 0; above < c; ++above) {  // of a chain
      const auto p = view.target(team, above);
      const auto& q = view.drafts.laws[above];
      if (p.status != status::ok || q.status != status::ok) { return 0; }
      const auto q_x = static_cast<double>(q.prob(view.tree.drawn_at[above + 1]));
      if (!(q_x > 0.0)) { return 0; }
      w = capped(w * (static_cast<double>(kernel::drafted_prob(team, view, p, above + 1)) / q_x));
      if (!(w > 0.0)) { return 0; }
    }
    const auto p = view.target(team, c);
    const bool reads = c > 0 && view.tree.next_child(c, c) >= 0 && p.status == status::ok &&
                       view.drafts.laws[c].status == status::ok;
    return reads ? kernel::ahead_bits(mass(team, view, p, c, w)) : 0;
  }

 private:
  HUNCH_HOST_DEVICE static double capped(double ratio) { return ratio < 1.0 ? ratio : 1.0; }

  /// What is left of w times p.
  template <Team T, class View, class P>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE static double mass(T& team, const View& view, const P& p,
                                                              std::int32_t c, double w) {
    return rest(p, view, c, w, [&](const auto& weight) { return team.sum(p.size(), weight); });
  }

  template <class P, class View, class Use>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE static auto rest(const P& p, const View& view,
                                                            std::int32_t c, double w, Use&& use) {
    using real = typename P::real;
    return kernel::with_residual<has_one_range<decltype(view.drafts)>>(
        p, view.drafts.laws[c], view.drafts.lists[c], static_cast<real>(w), real(1), use);
  }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE static void finish(T& team, const View& view,
                                                              const Random& random, std::int32_t c,
                                                              bool whole, double w, verdict& out) {
    const auto p = view.target(team, c);
    if (p.status != status::ok) { return kernel::fail(out, p.status, c); }
    if (whole) {
      const std::int32_t unread = view.tree.next_child(c, c);
      if (unread >= 0) { return kernel::fail(out, status::invalid_draft, unread); }
      out.next_origin = kernel::undrafted(out);
      return kernel::emit(team, view.at(c, purpose::bonus), p, random, out);
    }
    out.next_origin = origin::corrected;
    out.next = static_cast<token>(rest(p, view, c, w, [&](const auto& weight) {
      return random.categorical(team, view.at(c, purpose::residual), p.size(), weight);
    }));
    if (out.next < 0) { kernel::emit_for_no_residual(team, view, c, p, random, out); }
  }
};

static_assert(Verifier<block>);

}  // namespace hunch::verifier
