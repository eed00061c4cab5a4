// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <hunch/distribution/restrict.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/verifier/verifier.hpp>
#include "../support/forking_source.hpp"
#include "../support/toy_model.hpp"

/// \file
/// Wrong versions, each a defect that widely used systems have had. The tests must tell every one
/// of them from the right version; `none` is the right version, so that it is the mutation that is
/// seen and nothing else.

namespace hunch::test {

enum class rule_defect {
  none,
  always_accept,
  softmaxed_residual,    ///< the residual goes through a softmax instead of being normalised
  residual_is_p,         ///< a rejection draws from p again
  clamped_residual,      ///< at least 1e-5 for every token
  untruncated_q,         ///< drafts came from a truncated law, q is taken without the cut
  q_at_temperature_one,  ///< drafts came from another temperature
  unnormalised_q,        ///< q over the shortlist is not divided by its mass there
  scalar_residual,       ///< q of the rejected token is taken from every token
  bonus_from_the_row_before,
};

/// Chain rejection sampling with a defect.
template <rule_defect Defect>
struct wrong_rejection {
  static constexpr bool lossless = true;  // what its author believed
  static constexpr bool needs_draft_law = true;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law, bool is_chain) { return is_chain; }

  template <Team T, class Real>
  static law<Real> draft_law(T& team, law<Real> q) {
    if constexpr (Defect == rule_defect::untruncated_q) {
      q.threshold = -std::numeric_limits<Real>::infinity();
      q.last_kept = std::numeric_limits<std::int32_t>::max();
      kernel::normalise(team, q);
    } else if constexpr (Defect == rule_defect::q_at_temperature_one) {
      q.scale = Real(1.4426950408889634074);
      kernel::normalise(team, q);
    } else if constexpr (Defect == rule_defect::unnormalised_q) {
      q.norm *= Real(0.7);
    }
    return q;
  }

  static double residual(double p, double q, double q_x) {
    if (Defect == rule_defect::scalar_residual) { q = q_x; }
    const double rest = p > q ? p - q : 0.0;
    switch (Defect) {
      case rule_defect::softmaxed_residual:
        return std::exp(rest);
      case rule_defect::residual_is_p:
        return p;
      case rule_defect::clamped_residual:
        return rest > 1e-5 ? rest : 1e-5;
      default:
        return rest;
    }
  }

  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    const auto& tree = view.tree;
    std::int32_t c = 0;
    for (;;) {
      const auto p = view.target(team, c);
      const std::int32_t child = tree.next_child(c, c);
      if (child < 0) {
        const bool late = Defect == rule_defect::bonus_from_the_row_before && c > 0;
        const auto from = view.target(team, late ? c - 1 : c);
        return kernel::emit(team, view.at(c, purpose::bonus), from, random, out);
      }
      const auto q = draft_law(team, view.drafts.laws[c]);
      const double p_x = p.prob(tree.tokens[child]);
      const double q_x = q.prob(tree.drawn_at[child]);
      if (Defect == rule_defect::always_accept ||
          random.bernoulli(view.at(c, purpose::accept), p_x, q_x)) {
        out.path[out.accepted++] = child;
        c = child;
        continue;
      }
      const shortlist list = view.drafts.lists[c];
      out.next = static_cast<token>(random.categorical(
          team, view.at(c, purpose::residual), p.logits.size, [=](std::int64_t v) {
            const std::int32_t at = list.position_of(static_cast<token>(v));
            return residual(p.prob(v), at >= 0 ? q.prob(at) : 0.0, q_x);
          }));
      return;
    }
  }
};

static_assert(Verifier<wrong_rejection<rule_defect::none>>);

enum class source_defect {
  none,
  argmax_drafts,  ///< the draft is the most probable token, yet it is verified as if drawn from q
  shared_noise,   ///< draft and residual use the same random word
};

template <source_defect Defect>
struct wrong_source {
  forking_source inner;

  bool bernoulli(const address& a, double num, double den) const {
    return inner.bernoulli(a, num, den);
  }

  template <Team T, class Weight>
  std::int64_t categorical(T& team, address a, std::int64_t n, Weight&& weight) const {
    if (Defect == source_defect::argmax_drafts && a.what == purpose::draft) {
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < n; ++i) { best = weight(i) > weight(best) ? i : best; }
      return best;
    }
    if (Defect == source_defect::shared_noise && a.what == purpose::residual) {
      a.what = purpose::draft;
    }
    return inner.categorical(team, a, n, weight);
  }
};

/// A stop rule that throws away the token that triggered it.
template <class Inner>
struct dropping_drafter {
  static constexpr std::int32_t max_nodes = Inner::max_nodes;
  static constexpr child_law children = Inner::children;
  static constexpr bool is_chain = Inner::is_chain;
  static constexpr bool uses_selector = Inner::uses_selector;
  static constexpr bool needs_hidden = Inner::needs_hidden;
  template <class Real, class Executor>
  struct state : Inner::template state<Real, Executor> {
    state(const dropping_drafter& of, Executor& executor, const drafter_setup& setup)
        : Inner::template state<Real, Executor>(of.inner, executor, setup) {}
  };

  Inner inner;
  double least;  ///< drafts of lower probability are dropped

  void check(const drafter_setup& setup) { inner.check(setup); }

  template <class State, class Drafts, class... Rest>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Rest&&... rest) {
    inner.propose(s, slots, contexts, drafts, rest...);
    for (std::int32_t k = 0; k < slots; ++k) {
      const auto tree = drafts.tree(k);
      const std::int32_t last = tree.count - 1;
      if (last > 0 && tree.laws[last - 1].prob(tree.drawn_at[last]) < least) {
        drafts.count(k) = last;
      }
    }
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    inner.observe(s, outcomes, evaluation, executor);
  }
  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    inner.release(s, slot, executor);
  }
};

enum class cache_defect {
  none,
  forgets_the_last_row,  ///< rolls back one row too far
  keeps_a_rejected_row,  ///< rolls back one row too few
};

/// A target whose cache is wrong after a step, and that does not look at positions.
template <cache_defect Defect>
class wrong_cache_target : public toy_target<> {
 public:
  explicit wrong_cache_target(toy_world world) : toy_target<>(world) { cache().trusting = true; }

  void commit(const kept_rows& kept) noexcept {
    kept_rows wrong = kept;
    if (Defect == cache_defect::forgets_the_last_row && kept.size > 1) { --wrong.size; }
    if (Defect == cache_defect::keeps_a_rejected_row && kept.size > 0 && kept.size < 16) {
      const std::int32_t next = kept.id[kept.size - 1] + 1;
      if (next < static_cast<std::int32_t>(cache().staged(kept.slot[0]))) {
        std::int32_t sequences[16];
        std::int32_t ids[16];
        for (std::int32_t i = 0; i < kept.size; ++i) {
          sequences[i] = kept.slot[i];
          ids[i] = kept.id[i];
        }
        sequences[kept.size] = kept.slot[0];
        ids[kept.size] = next;
        wrong = {kept.size + 1, sequences, ids, kept.release_count, kept.released};
        return cache().commit(wrong);
      }
    }
    cache().commit(wrong);
  }
};

}  // namespace hunch::test
