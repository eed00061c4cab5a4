// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/interop/engine_arrays.hpp>
#include <hunch/team/team.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// What the adapters share: the arrays of an engine, seen as what verification rules ask for.
/// Nothing is copied; every type is a view.

namespace hunch::interop {

/// Names the random words of a batch. In order of preference:
/// - `seeds` and `lengths`: the addresses of the library itself. What a sequence gets depends on
///   its seed and on its committed length, and neither on the batch nor on its place in it.
/// - `seeds` and `offset`: the same with a counter that the caller raises at every step.
/// - `seed` and `offset`: one seed for the batch. What a sequence gets depends on its place in it.
///
/// In a captured graph, `lengths` or `offset` must be in memory, where it is raised between the
/// replays: an `offset` that is given as a number is part of the graph, and every replay draws the
/// same words again. A seed may be given either way.
struct random_keys {
  deferred<std::uint64_t> seed = {};
  deferred<std::uint64_t> offset =
      {};  ///< must grow at every call, or replay, that uses the seed again
  const std::uint64_t* seeds = nullptr;    ///< [batch] one for each sequence
  const std::uint32_t* lengths = nullptr;  ///< [batch] committed length, which grows at every step

  HUNCH_HOST_DEVICE std::uint64_t seed_of(std::int32_t row) const {
    if (seeds != nullptr && lengths != nullptr) { return seeds[row]; }
    // A key made from a key. The last word is no `purpose`, so this word decides nothing else.
    const std::uint64_t key = seeds != nullptr ? seeds[row] : seed.get();
    const std::uint64_t count = offset.get();
    const philox::words w = philox::generate(
        {{seeds != nullptr ? 0u : static_cast<std::uint32_t>(row),
          static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32), ~0u}},
        static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
    return (static_cast<std::uint64_t>(w.w[1]) << 32) | w.w[0];
  }
  HUNCH_HOST_DEVICE std::uint32_t length_of(std::int32_t row) const {
    return lengths != nullptr ? lengths[row] : 0;
  }
};

/// A chain of drafted tokens as the tree of a `verify_view`: node 0 is the root, whose token is
/// never read, node i > 0 the i-th drafted token, and positions of the draft law are tokens.
struct drafted_chain {
  struct ids {
    id_array drafted;  ///< [count - 1]
    HUNCH_HOST_DEVICE token operator[](std::int32_t node) const { return drafted[node - 1]; }
  };
  struct nodes_before {
    HUNCH_HOST_DEVICE std::int32_t operator[](std::int32_t node) const { return node - 1; }
  };

  static constexpr bool is_chain = true;

  std::int32_t count = 1;  ///< nodes, the root included
  ids tokens;
  ids drawn_at;
  nodes_before parent;

  /// \param drafted [length]
  HUNCH_HOST_DEVICE drafted_chain(id_array drafted, std::int32_t length)
      : count(length + 1), tokens{drafted}, drawn_at{drafted} {}

  HUNCH_HOST_DEVICE std::int32_t next_child(std::int32_t node, std::int32_t after) const {
    return after == node && node + 1 < count ? node + 1 : -1;
  }
  HUNCH_HOST_DEVICE std::int32_t depth(std::int32_t node) const { return node; }
};

/// Rows of probabilities, one for each node, as the target's laws or the drafts' of a view.
template <class Real>
struct written_rows {
  const Real* rows = nullptr;  ///< [nodes, vocab]
  std::int32_t vocab = 0;
  std::int64_t stride = 0;  ///< between rows

  HUNCH_HOST_DEVICE probabilities<Real> operator[](std::int32_t node) const {
    return {{rows + node * stride, vocab}};
  }
  template <Team T>
  HUNCH_HOST_DEVICE probabilities<Real> operator()(T&, std::int32_t node) const {
    return (*this)[node];
  }
  /// The rows from row `i` on.
  HUNCH_HOST_DEVICE written_rows from(std::int64_t i) const {
    return {rows + i * stride, vocab, stride};
  }
};

/// The law of a draft of which only the token is known: all its mass lies there. Rejection against
/// it accepts token x with probability p(x) and else draws from p without x, which is exact for
/// every x that was fixed before.
template <class Real>
struct point_law {
  using real = Real;

  std::int32_t token = 0;
  std::int32_t vocab = 0;
  Real norm = Real(1);
  hunch::status status = hunch::status::ok;

  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t size() const { return vocab; }
  HUNCH_HOST_DEVICE HUNCH_INLINE Real weight(std::int64_t i) const {
    return i == token ? Real(1) : Real(0);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE Real prob(std::int64_t i) const { return weight(i); }
};

static_assert(Law<point_law<float>>);

/// The point laws of a chain; node c drew the token of node c + 1.
template <class Real>
struct point_rows {
  id_array drafted;  ///< [count - 1]
  std::int32_t vocab = 0;

  HUNCH_HOST_DEVICE point_law<Real> operator[](std::int32_t node) const {
    return {drafted[node], vocab};
  }
};

/// For drafts of the tokens [0, size): position i is token i.
struct first_tokens {
  row_range range;

  HUNCH_HOST_DEVICE explicit first_tokens(std::int32_t size) : range{.begin = 0, .end = size} {}
  HUNCH_HOST_DEVICE shortlist operator[](std::int32_t) const {
    return {.ranges = &range, .range_count = 1, .size = range.end};
  }
};

/// The drafts of a `verify_view`.
template <class Laws>
struct drafts_of {
  static constexpr bool is_one_range = true;

  Laws laws;
  first_tokens lists;
};

/// Whether all of `ids` are in [0, limit). Collective.
template <Team T>
HUNCH_HOST_DEVICE bool ids_below(T& team, id_array ids, std::int32_t count, std::int32_t limit) {
  return team.reduce(
             count, std::int32_t(0),
             [=](std::int64_t i) { return ids[i] < 0 || ids[i] >= limit ? 1 : 0; },
             [](std::int32_t a, std::int32_t b) { return a > b ? a : b; }) == 0;
}

/// How far from 1 the sum of a written law may be.
inline constexpr double mass_tolerance = 1e-4;

/// The elements of a written row, as terms of a sum that is 1 for a law alone: what is no
/// probability is more than others make up for.
template <class Real>
struct mass_terms {
  static constexpr int rows = 1;

  const Real* row;

  HUNCH_HOST_DEVICE HUNCH_INLINE Real operator()(std::int64_t i) const {
    const Real v = load(row + i);
    return ((v >= Real(0)) & (v <= Real(2))) ? v : Real(-1e30);
  }
};

/// The same of two rows.
template <class Real>
struct mass_terms_of_both {
  static constexpr int rows = 2;

  mass_terms<Real> first;
  mass_terms<Real> second;

  HUNCH_HOST_DEVICE HUNCH_INLINE team::two_terms<Real> operator()(std::int64_t i) const {
    return {first(i), second(i)};
  }
};

HUNCH_HOST_DEVICE inline bool is_mass_of_law(double sum) {
  return sum >= 1.0 - mass_tolerance && sum <= 1.0 + mass_tolerance;
}

/// Whether a row is a law: no NaN, nothing negative or infinite, and a sum of 1. Collective, reads
/// the row once.
template <Team T, class Real>
HUNCH_HOST_DEVICE bool is_law(T& team, row_view<const Real> row) {
  return is_mass_of_law(team.sum(row.size, mass_terms<Real>{row.data}));
}

/// Fails the verdict if one of the probabilities that it rests on is none: p's value at every token
/// that was accepted or rejected, of which those before the first wrong one stay, and the row that
/// the last token was to be drawn from, if it holds nothing. Collective.
/// \param has_target whether the target has a row at the last node.
/// \param rows whether the two rows that were read whole are checked, too: p's and q's at the node
///             where the last token was drawn must be laws. Reads both once.
template <Team T, class Real, class Drafts>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void check_verdict(
    T& team, const written_rows<Real>& target, const Drafts& drafts, const drafted_chain& chain,
    bool has_target, bool rows, verdict& out) {
  const std::int32_t last = out.accepted;  // the node: this is a chain
  const bool is_drafted = last + 1 < chain.count;
  const std::int32_t tested = last + (is_drafted && out.status == status::ok ? 1 : 0);
  const std::int32_t wrong = team.reduce(
      tested, tested,
      [=](std::int64_t i) {
        const auto node = static_cast<std::int32_t>(i);
        const auto p_x = static_cast<double>(target[node].prob(chain.tokens[node + 1]));
        return p_x >= 0.0 && p_x <= 1.0 + mass_tolerance ? tested : node;
      },
      [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
  if (wrong < tested) {
    out.accepted = wrong;
    return kernel::fail(out, status::invalid_logits, wrong);
  }
  if (out.status != status::ok || !has_target) { return; }
  if (out.next < 0) { return kernel::fail(out, status::invalid_logits, last); }
  if (!rows) { return; }
  const mass_terms<Real> p{target[last].values.data};
  mass_terms<Real> q = p;
  if constexpr (requires { drafts.laws[0].values; }) {
    if (is_drafted) { q.row = drafts.laws[last].values.data; }
  }
  const team::two_sums mass =
      team.sum_both(target.vocab, mass_terms_of_both<Real>{.first = p, .second = q});
  if (!is_mass_of_law(mass.first)) { return kernel::fail(out, status::invalid_logits, last); }
  if (!is_mass_of_law(mass.second)) { kernel::fail(out, status::invalid_draft, last + 1); }
}

/// Writes the accepted prefix of a chain, the next token unless the verdict has an error, and -1 to
/// the end of the row. Collective. \param row [capacity] out, more than are accepted.
template <Team T>
HUNCH_HOST_DEVICE void write_chain(T& team, id_array drafted, const verdict& out, id_output row,
                                   std::int32_t capacity) {
  const bool valid = out.status == status::ok;
  const std::int32_t accepted = out.accepted;
  const token next = out.next;
  team.for_each(capacity, [=](std::int64_t i) {
    row.put(i, i < accepted ? drafted[i] : valid && i == accepted ? next : no_token);
  });
}

/// Records what became of a sequence, where the caller wants to know. \param to [batch] or null.
template <Team T>
HUNCH_HOST_DEVICE void report(T& team, status* to, std::int32_t row, status what) {
  if (to != nullptr && team.rank() == 0) { to[row] = what; }
}

}  // namespace hunch::interop
