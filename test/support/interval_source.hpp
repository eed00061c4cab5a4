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

#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "forking_source.hpp"

namespace hunch::test {

/// A law over all tokens, written out.
using weights = std::vector<double>;

inline double mass(const weights& w) { return std::accumulate(w.begin(), w.end(), 0.0); }

inline void normalise(weights& w) {
  const double sum = mass(w);
  for (double& x : w) { x = sum > 0.0 ? x / sum : 0.0; }
}

/// A forking source whose words may be asked for again: a word is a uniform of which every decision
/// made on it leaves an interval, and the next one is made within that interval.
///
/// So it is a source of shared noise, too: the noise of a place is one such word, and the winner of
/// a law is the token in whose piece of [0, 1) it lies. That is another noise than that of the
/// library's noisy argmax, with the same law of one winner; a rule that is exact with any noise is
/// exact with it.
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

  template <Team T, class Real>
  token noisy_argmax(T&, const address& a, const law<Real>& l) const {
    weights w(static_cast<std::size_t>(l.size()));
    for (std::size_t v = 0; v < w.size(); ++v) { w[v] = l.prob(static_cast<std::int64_t>(v)); }
    normalise(w);
    return static_cast<token>(fork(a, w));
  }
  template <Team T, class Real>
  token noisy_argmax(T&, const address& a, const law<Real>& l, const shortlist& list) const {
    weights w;
    for (std::int32_t i = 0; i < l.size(); ++i) {
      const auto t = static_cast<std::size_t>(list.token_at(i));
      w.resize(std::max(w.size(), t + 1), 0.0);
      w[t] = l.prob(i);
    }
    normalise(w);
    return static_cast<token>(fork(a, w));
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

static_assert(NoiseSource<interval_source>);

}  // namespace hunch::test
