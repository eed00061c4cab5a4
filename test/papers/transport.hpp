// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>

/// \file
/// The best acceptance of siblings by optimal transport, by trying everything.

namespace hunch::test::papers {

/// Bit t: token t is in it.
using set_of_tokens = std::uint32_t;

inline bool holds(set_of_tokens set, std::size_t t) { return (set >> t & 1u) != 0; }

/// How `count` siblings come about; what counts is their set, whatever their order.
struct sibling_law {
  child_law children;
  std::int32_t count;

  /// [2^vocab] the probability that a set of tokens is that of the drafts.
  std::vector<double> sets(const std::vector<double>& q) const {
    std::vector<double> out(std::size_t{1} << q.size(), 0.0);
    draw(q, 0, count, 1.0, out);
    return out;
  }

 private:
  void draw(const std::vector<double>& q, set_of_tokens drafted, std::int32_t left,
            double probability, std::vector<double>& out) const {
    std::vector<double> rest = q;
    for (std::size_t t = 0; t < q.size(); ++t) {
      if (children != child_law::independent && holds(drafted, t)) { rest[t] = 0.0; }
    }
    if (children == child_law::ranked) {
      const auto favourite = std::ranges::max_element(rest) - rest.begin();
      for (std::size_t t = 0; t < q.size(); ++t) {
        if (t != static_cast<std::size_t>(favourite)) { rest[t] = 0.0; }
      }
    }
    double mass = 0.0;
    for (const double x : rest) { mass += x; }
    if (left == 0 || mass <= 0.0) {  // fewer drafts where no more are possible
      out[drafted] += probability;
      return;
    }
    for (std::size_t t = 0; t < q.size(); ++t) {
      if (rest[t] > 0.0) {
        draw(q, drafted | 1u << t, left - 1, probability * rest[t] / mass, out);
      }
    }
  }
};

/// The minimum over the sets H of tokens of p(H) + P(some draft is not in H).
/// \param p [vocab] in any unit. \param sets [2^vocab] of the same sum.
template <class Number>
Number smallest_cut(const std::vector<Number>& p, const std::vector<Number>& sets) {
  Number best = std::numeric_limits<Number>::max();
  for (set_of_tokens h = 0; h < sets.size(); ++h) {
    Number cut{};
    for (std::size_t t = 0; t < p.size(); ++t) { cut += holds(h, t) ? p[t] : Number{}; }
    for (set_of_tokens s = 0; s < sets.size(); ++s) { cut += (s & ~h) != 0 ? sets[s] : Number{}; }
    best = std::min(best, cut);
  }
  return best;
}

/// A pair of laws over a large vocabulary. Its tokens are sorted once, by p / q: what is asked of
/// them are sums over those below a threshold and over the others.
class sorted_pair {
 public:
  /// \param p, q [vocab] each with the sum 1.
  sorted_pair(const std::vector<double>& p, const std::vector<double>& q) {
    for (std::size_t t = 0; t < p.size(); ++t) {
      if (p[t] > 0.0 || q[t] > 0.0) { tokens_.push_back({p[t], q[t]}); }
    }
    std::ranges::sort(tokens_, [](const both& a, const both& b) { return a.p * b.q < b.p * a.q; });
  }

  /// The smallest cut for k independent drafts, among the sets of all tokens below a threshold of
  /// p / q, of which one is the smallest of all.
  double cut_of_independent(std::int32_t k) const {
    return over_thresholds([k](const sums& h) { return std::pow(h.q, k); });
  }
  /// Likewise for two drafts without replacement; q is no point mass.
  double cut_of_two_distinct() const {
    return over_thresholds([](const sums& h) { return h.q * h.odds - h.pairs; });
  }

  /// What `verifier::rejection` accepts of k independent drafts: each takes from p as much of q as
  /// is left.
  double accepted_of_independent(std::int32_t k) const {
    double taken = 0.0;
    double left = 1.0;
    for (std::int32_t i = 0; i < k; ++i) {
      taken += left;
      left = rest(taken);
    }
    return 1.0 - left;
  }
  /// And of two without replacement: where x is refused, what is left of p has none of it, and the
  /// second draft has the law q / (1 - q(x)) elsewhere.
  double accepted_of_two_distinct() const {
    const double left = rest(1.0);
    if (!(left > 0.0)) { return 1.0; }
    // From the largest p / q: the sums of those tokens of which the second draft leaves something.
    std::vector<both> above(tokens_.size() + 1, both{0.0, 0.0});
    for (std::size_t i = tokens_.size(); i-- > 0;) {
      above[i] = {above[i + 1].p + tokens_[i].p, above[i + 1].q + tokens_[i].q};
    }
    double refused = 0.0;
    for (const both& x : tokens_) {
      if (!(x.q > x.p)) { break; }
      const double taken = 1.0 + left / (1.0 - x.q);
      const auto first =
          std::ranges::partition_point(tokens_, [&](const both& t) { return t.p <= taken * t.q; });
      const both& of = above[static_cast<std::size_t>(first - tokens_.begin())];
      refused += (x.q - x.p) * (of.p - taken * of.q) / left;
    }
    return 1.0 - refused;
  }

 private:
  struct both {
    double p;
    double q;
  };
  /// Of a set of tokens: its mass, and of q / (1 - q) and q^2 / (1 - q) the sums.
  struct sums {
    double q = 0.0;
    double odds = 0.0;
    double pairs = 0.0;
  };

  /// The sum of (p - a q)+.
  double rest(double a) const {
    double sum = 0.0;
    for (const both& t : tokens_) { sum += std::max(t.p - a * t.q, 0.0); }
    return sum;
  }
  /// \param inside(sums) the probability that all drafts are among such tokens.
  template <class Inside>
  double over_thresholds(const Inside& inside) const {
    double best = 1.0;
    double p = 0.0;
    sums h;
    for (const both& t : tokens_) {
      p += t.p;
      h.q += t.q;
      h.odds += t.q / (1.0 - t.q);
      h.pairs += t.q * t.q / (1.0 - t.q);
      best = std::min(best, p + 1.0 - inside(h));
    }
    return best;
  }

  std::vector<both> tokens_;
};

}  // namespace hunch::test::papers
