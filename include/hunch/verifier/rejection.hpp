// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/distribution/residual.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Speculative sampling. On a chain: accept x ~ q while u * q(x) < p(x); at the first rejection
/// draw from norm((p - q)+) over the full vocabulary, after the last acceptance from p. (Leviathan,
/// Kalman, Matias 2023, arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318)
///
/// On a tree: the children of a node are tested in draw order, and each rejection replaces p by
/// norm((p - q)+) before the next test. Between independent children q stays as it is (SpecInfer:
/// Miao et al. 2023, arXiv:2305.09781); between children drawn without replacement it loses the
/// rejected token and is normalised again (recursive rejection: Jeon et al. 2024, arXiv:2402.14160;
/// Sequoia: Chen et al. 2024, arXiv:2402.12374). Which of them applies is the draft's `children`.
///
/// Lossless for any q that the tokens were drawn from. The comparison is strict, so that p(x) = 0
/// always rejects. Reads the target's rows along the accepted path, and at a node where something
/// was rejected p's and q's row once more for each rejection; nothing is written.
struct rejection {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = true;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law children, bool) { return children != child_law::ranked; }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           const Random& random,
                                                           verdict& out) const {
    const tests done = test_at_once(team, view, random, out);
    std::int32_t c = done.accepted;
    // Left from inside: a test at the end of the loop would carry what is known of the verdict
    // around it.
    for (;;) {
      const auto p = view.target(team, c);
      if (p.status != status::ok) { return kernel::fail(out, p.status, c); }
      std::int32_t child = view.tree.next_child(c, c);
      if (child < 0) {
        kernel::emit(team, view.at(c, purpose::bonus), p, random, out);
        out.next_origin = kernel::undrafted(out);
        return;
      }
      const auto q = view.drafts.laws[c];
      if (q.status != status::ok) { return kernel::fail(out, status::invalid_draft, child); }
      using real = typename decltype(p)::real;
      constexpr bool is_chain = is_chain_tree<decltype(view.tree)>;
      kernel::token_set removed(team);  // from q, where it does not replace what was drawn
      const bool replaces = view.children != child_law::without_replacement;
      double taken = 0.0;      // how many times q was taken from p
      double left = 1.0;       // what that left of p's mass
      double draftable = 1.0;  // what removed positions left of q's mass
      for (std::int32_t sibling = 0;; ++sibling) {
        const auto rest = [&](auto&& use) HUNCH_INLINED {
          return kernel::with_residual<has_one_range<decltype(view.drafts)>>(
              p, q, view.drafts.lists[c], real(1), static_cast<real>(taken), use);
        };
        if (child < 0) {
          out.next = static_cast<token>(rest([&](const auto& weight) {
            return random.categorical(team, view.at(c, purpose::residual), p.size(), weight);
          }));
          out.next_origin = origin::corrected;
          if (out.next < 0) { kernel::emit_for_no_residual(team, view, c, p, random, out); }
          return;
        }
        if (is_chain && done.refuses) {
          taken = 1.0;
          child = -1;
          continue;
        }
        const std::int32_t at = view.tree.drawn_at[child];
        const auto q_x = static_cast<double>(q.prob(at));
        const token drawn = replaces ? no_token : view.drafts.lists[c].token_at(at);
        if (!(q_x > 0.0) || removed.contains(drawn) || removed.count == kernel::max_siblings) {
          return kernel::fail(out, status::invalid_draft, child);
        }
        double p_x = 0.0;
        if (is_chain || sibling == 0) {
          p_x = static_cast<double>(kernel::drafted_prob(team, view, p, child));
        } else if constexpr (!is_chain) {
          if (replaces) {
            left = rest([&](const auto& weight) { return team.sum(p.size(), weight); });
          } else {
            // Of q what it has not lost, summed: 1 minus the lost would lose digits.
            const team::two_sums of_both = rest([&](const auto& weight) {
              return team.sum_both(p.size(), kernel::residual_and_remainder{weight, removed});
            });
            left = of_both.first;
            draftable = static_cast<double>(q.norm) * of_both.second;
          }
          if (!(left > 0.0)) {
            kernel::emit_for_no_residual(team, view, c, p, random, out);
            return;
          }
          const auto in_p = kernel::drafted_weight(team, view, p, child);
          p_x = rest([&](const auto& w) { return static_cast<double>(w.of(in_p, at)); });
        }
        if (random.bernoulli(view.at(c, purpose::accept, sibling), p_x * draftable, q_x * left)) {
          kernel::accept(team, out, child);
          c = child;
          break;
        }
        taken += left / draftable;
        // Where removed siblings leave so little of q that the multiple is no number any more.
        constexpr double most = kernel::largest<real> / real(4);
        taken = taken < most ? taken : most;
        if (!replaces) { removed.add(team, drawn); }
        child = is_chain ? -1 : view.tree.next_child(c, child);
      }
    }
  }

 private:
  /// What is known of a chain: how many drafts are accepted, and whether the next one is refused;
  /// else it is to be looked at.
  struct tests {
    std::int32_t accepted;
    bool refuses;
  };

  /// The tests of a chain do not depend on each other: by several threads those of laws that are
  /// known are made side by side, where one after the other would wait for memory several times
  /// each.
  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE static tests test_at_once(T& team, const View& view,
                                                                     const Random& random,
                                                                     verdict& out) {
    if constexpr (is_chain_tree<decltype(view.tree)> && !team::is_one_thread<T> &&
                  (!team::spans_ranks<T> || kernel::tells_logits<View>)&&requires {
                    view.target.known(0);
                  }) {
      const std::int32_t drafts = view.tree.count - 1;
      // Twice the node of the first test that does not accept, and 1 more if it refuses.
      const std::int32_t first = team.reduce(
          drafts, 2 * drafts,
          [&](std::int64_t i) {
            const auto c = static_cast<std::int32_t>(i);
            if (!view.target.is_known(c)) { return 2 * c; }
            const auto p = view.target.known(c);
            const auto q = view.drafts.laws[c];
            if (p.status != status::ok || q.status != status::ok) { return 2 * c; }
            const auto p_x = static_cast<double>(kernel::drafted_prob(team, view, p, c + 1));
            const auto q_x = static_cast<double>(q.prob(view.tree.drawn_at[c + 1]));
            if (!(q_x > 0.0)) { return 2 * c; }
            return random.bernoulli(view.at(c, purpose::accept), p_x, q_x) ? 2 * drafts : 2 * c + 1;
          },
          [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
      const std::int32_t accepted = first / 2;
      if (team.rank() == 0 && out.path != nullptr) {
        for (std::int32_t i = 0; i < accepted; ++i) { out.path[i] = i + 1; }
      }
      out.accepted = accepted;
      return {accepted, first % 2 != 0};
    }
    return {0, false};
  }
};

static_assert(Verifier<rejection>);

}  // namespace hunch::verifier
