// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/executor/host.hpp>
#include <hunch/interop/chain.hpp>
#include "../support/forking_source.hpp"
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"

/// \file
/// What the tests of the adapters share: rows of probabilities, a draw written a second time, an
/// executor of several ranks, and exact laws of what a step emits.

namespace hunch::test {

using text = std::vector<token>;
using law_of_texts = std::map<text, double>;

inline constexpr std::int32_t vocab_sizes[] = {1, 2, 3, 31, 127, 128, 129, 300};

/// Bodies run by blocks of threads, and by clusters of two blocks.
inline const threads one_block{{}, 1, 3};
inline const threads two_blocks{{}, 2, 2};

/// Keeps what is launched, with the arguments as they are then, and launches it again and again, as
/// a captured graph does. Copies share them.
struct recorded_launches : executor::host {
  std::shared_ptr<std::vector<std::function<void()>>> launches =
      std::make_shared<std::vector<std::function<void()>>>();

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    launches->push_back([count, body] { executor::host{}.launch(count, body); });
  }
  void replay() const {
    for (const auto& launch : *launches) { launch(); }
  }
};

/// Rows of n elements with `more` NaN after each.
template <class Real>
std::vector<Real> padded(const std::vector<Real>& rows, std::int32_t n, std::int32_t more) {
  std::vector<Real> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.push_back(rows[i]);
    if ((i + 1) % static_cast<std::size_t>(n) == 0) {
      out.resize(out.size() + static_cast<std::size_t>(more),
                 std::numeric_limits<Real>::quiet_NaN());
    }
  }
  return out;
}

/// The same ids in 64 bits.
inline std::vector<std::int64_t> widened(const std::vector<std::int32_t>& ids) {
  return {ids.begin(), ids.end()};
}

/// A law over n tokens: smooth, with many zeros, or with all mass on one token.
template <class Real = float>
std::vector<Real> any_law(dice& random, std::int32_t n) {
  const std::int32_t kind = random.below(5);
  std::vector<double> w(static_cast<std::size_t>(n), 0.0);
  for (double& x : w) { x = kind == 1 && random.below(3) > 0 ? 0.0 : 0.01 + random.unit(); }
  if (kind == 0) { std::ranges::fill(w, 0.0); }
  w[static_cast<std::size_t>(random.below(n))] += 1.0;
  const double sum = std::accumulate(w.begin(), w.end(), 0.0);
  std::vector<Real> law;
  for (const double x : w) { law.push_back(static_cast<Real>(x / sum)); }
  return law;
}

/// The token that a uniform picks: the order is that of team/canonical.hpp for one tile, lane after
/// lane; in it, the inverse of the cumulative distribution. -1 if no weight is positive.
template <class Real>
token picked(const std::vector<Real>& weights, double u) {
  constexpr std::size_t lanes = 128;
  std::vector<std::size_t> order;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    for (std::size_t i = lane; i < weights.size(); i += lanes) { order.push_back(i); }
  }
  double left = 0.0;
  for (const Real w : weights) { left += static_cast<double>(w); }
  left *= u;
  token last = no_token;
  for (const std::size_t i : order) {
    const auto w = static_cast<double>(weights[i]);
    if (!(w > 0.0)) { continue; }
    last = static_cast<token>(i);
    if (left < w) { return last; }
    left -= w;
  }
  return last;
}

/// (p - q)+
template <class Real>
std::vector<Real> residual(const std::vector<Real>& p, const std::vector<Real>& q) {
  std::vector<Real> rest;
  for (std::size_t v = 0; v < p.size(); ++v) { rest.push_back(std::max(p[v] - q[v], Real(0))); }
  return rest;
}

template <class T>
std::vector<T> row_of(const std::vector<T>& rows, std::int64_t row, std::int32_t n) {
  const auto begin = rows.begin() + row * n;
  return {begin, begin + n};
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

inline std::vector<float> uniforms_of(dice& random, std::size_t n) {
  std::vector<float> u(n);
  for (float& x : u) {
    x = static_cast<float>(static_cast<double>(random.next() >> 40) * 0x1.0p-24);
  }
  return u;
}

/// Laws after every text, made of its hash.
struct law_world {
  std::int32_t vocab = 2;
  std::uint64_t salt = 0;
  bool sparse = false;  ///< whether some tokens are impossible

  std::vector<double> after(const text& before) const {
    std::vector<double> w;
    for (token v = 0; v < vocab; ++v) {
      const std::uint64_t h = mix(extend(hash_of(before), v) ^ mix(salt));
      w.push_back(sparse && h % 3 == 0 ? 0.0 : 0.05 + fraction(mix(h)));
    }
    const std::uint64_t sure = mix(hash_of(before) ^ salt) % static_cast<std::uint64_t>(vocab);
    w[static_cast<std::size_t>(sure)] += 0.25;
    const double sum = std::accumulate(w.begin(), w.end(), 0.0);
    for (double& x : w) { x /= sum; }
    return w;
  }
};

inline text with(text t, token v) {
  t.push_back(v);
  return t;
}

/// Adds what plain decoding makes of a text until it has `length` tokens.
inline void continue_plainly(const law_world& world, const text& begun, double probability,
                             std::size_t length, law_of_texts& into) {
  if (begun.size() >= length) {
    into[text(begun.begin(), begun.begin() + static_cast<std::ptrdiff_t>(length))] += probability;
    return;
  }
  const auto p = world.after(begun);
  for (token v = 0; v < world.vocab; ++v) {
    const double p_v = p[static_cast<std::size_t>(v)];
    if (p_v > 0.0) { continue_plainly(world, with(begun, v), probability * p_v, length, into); }
  }
}

/// How far the law of `step`, continued by plain decoding to `length` tokens, is from plain
/// decoding: the largest difference of the probability of a text. `step(source)` runs once and
/// returns what it emitted.
template <class Step>
double exact_gap(const law_world& target, std::size_t length, Step&& step) {
  law_of_texts found;
  law_of_texts expected;
  const forking_source source;
  source.rewind();
  do {
    const text emitted = step(source);
    REQUIRE(!emitted.empty());
    continue_plainly(target, emitted, source.probability(), length, found);
  } while (source.next());
  continue_plainly(target, {}, 1.0, length, expected);
  for (const auto& [t, p] : expected) { found[t] -= p; }
  double gap = 0.0;
  for (const auto& [t, difference] : found) { gap = std::max(gap, std::abs(difference)); }
  return gap;
}

/// A token drawn by the test itself.
inline token drawn(const forking_source& source, std::uint32_t node, const std::vector<double>& q) {
  team::serial team;
  return static_cast<token>(
      source.categorical(team, {~std::uint64_t(0), 0, node, 0, purpose::draft}, std::ssize(q),
                         [&](std::int64_t i) { return q[static_cast<std::size_t>(i)]; }));
}

/// Appends a row of doubles as Real.
template <class Real>
void append_as(std::vector<Real>& rows, const std::vector<double>& row) {
  for (const double x : row) { rows.push_back(static_cast<Real>(x)); }
}

/// The tokens of a row before the first -1; what follows must be -1.
template <class T>
text emitted_of(const std::vector<T>& row) {
  text out;
  bool ended = false;
  for (const T t : row) {
    ended |= t == -1;
    CHECK((ended == (t == -1)));
    if (!ended) { out.push_back(static_cast<token>(t)); }
  }
  return out;
}

}  // namespace hunch::test
