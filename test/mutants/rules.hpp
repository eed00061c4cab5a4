// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include <hunch/sampler/penalties.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/forking_source.hpp"
#include "../support/tree_drafter.hpp"

/// \file
/// Wrong versions of the rules on trees and of block verification, of random addresses and of
/// stages that edit logits. Rules are written a second time, over laws that are written out.

namespace hunch::test {

/// A law over all tokens, written out.
using weights = std::vector<double>;

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

inline double mass(const weights& w) { return std::accumulate(w.begin(), w.end(), 0.0); }

inline void normalise(weights& w) {
  const double sum = mass(w);
  for (double& x : w) { x = sum > 0.0 ? x / sum : 0.0; }
}

/// (a p - q)+
inline weights excess_of(double a, const weights& p, const weights& q) {
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
          p = excess_of(1.0, p, q);
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
      if (Defect == sibling_defect::static_p) { p = excess_of(1.0, p, q); }
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
  blind,               ///< a position is accepted with w, whatever comes behind it
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
      const double behind = c < last ? mass(excess_of(w[at(c)], p[at(c)], q[at(c)])) : 0.0;
      const bool is_last = c == last || Defect == block_defect::blind;
      const double accepted = is_last ? w[at(c)] : behind;
      const double all = is_last ? 1.0 : behind + (1.0 - w[at(c)]);
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
      rest = excess_of(of_one ? 1.0 : w[at(kept)], p[at(kept)], q[at(kept)]);
      if (!(mass(rest) > 0.0)) { rest = p[at(kept)]; }
    }
    out.next = static_cast<token>(
        random.categorical(team, view.at(kept, kept < last ? purpose::residual : purpose::bonus),
                           static_cast<std::int64_t>(rest.size()),
                           [&](std::int64_t v) { return rest[at(static_cast<std::int32_t>(v))]; }));
  }
};

static_assert(Verifier<wrong_block<block_defect::none>>);

/// A forking source whose words may be asked for again: a word is a uniform of which every decision
/// made on it leaves an interval, and the next one is made within that interval.
class interval_source {
 public:
  /// Words are named by the absolute position of the token that they decide: the defect.
  bool by_position = false;

  void rewind() const {
    inner_.rewind();
    words_->clear();
    *asked_ = 0;
  }
  bool next() const {
    words_->clear();
    *asked_ = 0;
    return inner_.next();
  }
  double probability() const { return inner_.probability(); }

  bool bernoulli(const address& a, double num, double den) const {
    const double p = num <= 0.0 ? 0.0 : num >= den ? 1.0 : num / den;
    return fork(a, {p, 1.0 - p}) == 0;
  }

  template <Team T, class Weight>
  std::int64_t categorical(T&, const address& a, std::int64_t n, Weight&& weight) const {
    weights w(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] = static_cast<double>(weight(static_cast<std::int64_t>(i)));
    }
    normalise(w);
    return mass(w) > 0.0 ? fork(a, w) : -1;
  }

 private:
  struct interval {
    double begin = 0.0;
    double end = 1.0;
  };
  using name = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t, purpose>;

  name name_of(const address& a) const {
    return by_position ? name{a.seed, a.length + a.node, 0, a.sibling, a.what}
                       : name{a.seed, a.length, a.node, a.sibling, a.what};
  }

  /// Which of the pieces of [0, 1) with the given widths the word lies in.
  std::int64_t fork(const address& a, const weights& widths) const {
    interval& word = (*words_)[name_of(a)];
    std::vector<interval> pieces;
    double at = 0.0;
    for (const double width : widths) {
      const double end = at + width;
      pieces.push_back({std::max(at, word.begin), std::min(end, word.end)});
      at = end;
    }
    const auto size = [&](std::int64_t i) {
      const interval& piece = pieces[static_cast<std::size_t>(i)];
      const double width = piece.end - piece.begin;
      return width > 1e-14 * (word.end - word.begin) ? width : 0.0;  // no slivers by rounding
    };
    team::serial team;
    const std::int64_t taken =
        inner_.categorical(team, {(*asked_)++}, static_cast<std::int64_t>(pieces.size()), size);
    word = pieces[static_cast<std::size_t>(taken)];
    return taken;
  }

  forking_source inner_;
  std::shared_ptr<std::map<name, interval>> words_ = std::make_shared<std::map<name, interval>>();
  std::shared_ptr<std::uint64_t> asked_ = std::make_shared<std::uint64_t>(0);
};

static_assert(RandomSource<interval_source>);

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
