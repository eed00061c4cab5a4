// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
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
struct random_keys {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;                ///< must grow at every call that uses the seed again
  const std::uint64_t* seeds = nullptr;    ///< [batch] one for each sequence
  const std::uint32_t* lengths = nullptr;  ///< [batch] committed length, which grows at every step

  HUNCH_HOST_DEVICE std::uint64_t seed_of(std::int32_t row) const {
    if (seeds != nullptr && lengths != nullptr) { return seeds[row]; }
    // A key made from a key. The last word is no `purpose`, so this word decides nothing else.
    const std::uint64_t key = seeds != nullptr ? seeds[row] : seed;
    const philox::words w = philox::generate(
        {{seeds != nullptr ? 0u : static_cast<std::uint32_t>(row),
          static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32), ~0u}},
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
    const std::int32_t* drafted = nullptr;  ///< [count - 1]
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
  HUNCH_HOST_DEVICE drafted_chain(const std::int32_t* drafted, std::int32_t length)
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

  HUNCH_HOST_DEVICE probabilities<Real> operator[](std::int32_t node) const {
    return {{rows + static_cast<std::int64_t>(node) * vocab, vocab}};
  }
  template <Team T>
  HUNCH_HOST_DEVICE probabilities<Real> operator()(T&, std::int32_t node) const {
    return (*this)[node];
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
  const std::int32_t* drafted = nullptr;  ///< [count - 1]
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
HUNCH_HOST_DEVICE bool ids_below(T& team, const std::int32_t* ids, std::int32_t count,
                                 std::int32_t limit) {
  return team.reduce(
             count, std::int32_t(0),
             [=](std::int64_t i) { return ids[i] < 0 || ids[i] >= limit ? 1 : 0; },
             [](std::int32_t a, std::int32_t b) { return a > b ? a : b; }) == 0;
}

/// How far from 1 the sum of a written law may be.
inline constexpr double mass_tolerance = 1e-4;

/// Whether a row is a law: no NaN, nothing negative or infinite, and a sum of 1. Collective, reads
/// the row once.
template <Team T, class Real>
HUNCH_HOST_DEVICE bool is_law(T& team, row_view<const Real> row) {
  const double sum = team.sum(row.size, [=](std::int64_t i) {
    const Real v = row[i];
    return v >= Real(0) && v <= Real(2) ? v : Real(-1e30);  // more than others make up for
  });
  return sum >= 1.0 - mass_tolerance && sum <= 1.0 + mass_tolerance;
}

/// Fails the verdict if a row that it rests on is no law: p's and q's at the node where the last
/// token was drawn, which were read whole, and p's value at every token that was accepted, of which
/// those before the first wrong one stay. Rows that were not read are not looked at. Collective.
/// \param has_target whether the target has a row at the last node.
template <Team T, class Real, class Drafts>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void check_rows(T& team, const written_rows<Real>& target,
                                                         const Drafts& drafts,
                                                         const drafted_chain& chain,
                                                         bool has_target, verdict& out) {
  const std::int32_t last = out.accepted;  // the node: this is a chain
  out.accepted = team.reduce(
      last, last,
      [=](std::int64_t i) {
        const auto node = static_cast<std::int32_t>(i);
        const auto p_x = static_cast<double>(target[node].prob(chain.tokens[node + 1]));
        return p_x <= 1.0 + mass_tolerance ? last : node;
      },
      [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
  if (out.accepted < last) { return kernel::fail(out, status::invalid_logits, out.accepted); }
  if (out.status != status::ok) { return; }
  if (has_target && !is_law(team, target[last].values)) {
    return kernel::fail(out, status::invalid_logits, last);
  }
  if constexpr (requires { drafts.laws[0].values; }) {
    if (last + 1 < chain.count && !is_law(team, drafts.laws[last].values)) {
      kernel::fail(out, status::invalid_draft, last + 1);
    }
  }
}

/// Writes the accepted prefix of a chain, the next token unless the verdict has an error, and -1 to
/// the end of the row. Collective. \param row [capacity] out, more than are accepted.
template <Team T, class Out>
HUNCH_HOST_DEVICE void write_chain(T& team, const std::int32_t* drafted, const verdict& out,
                                   Out* row, std::int32_t capacity) {
  const bool valid = out.status == status::ok;
  const std::int32_t accepted = out.accepted;
  const token next = out.next;
  team.for_each(capacity, [=](std::int64_t i) {
    row[i] = i < accepted ? drafted[i] : valid && i == accepted ? next : no_token;
  });
}

/// Records what became of a sequence, where the caller wants to know. \param to [batch] or null.
template <Team T>
HUNCH_HOST_DEVICE void report(T& team, status* to, std::int32_t row, status what) {
  if (to != nullptr && team.rank() == 0) { to[row] = what; }
}

}  // namespace hunch::interop
