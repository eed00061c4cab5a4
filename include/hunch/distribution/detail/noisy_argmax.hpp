// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// Draws with noise that belongs to the tokens and not to the law. Every token t has an
/// arrival time E_t, exponential with mean 1, independent of all others; the noisy argmax of a law
/// with weights w is the token with the smallest E_t / w_t, and it is t with probability w_t / sum
/// w. (With g = -log E this is the largest log w_t + g_t, the Gumbel-max trick.) Two laws that are
/// alike have the same noisy argmax more often than not.
///
/// The times are drawn so that most of them are never looked at: tokens come in tiles of 1,024; a
/// tile starts at the smallest of its arrival times, which is exponential with mean 1 / 1024 and
/// belongs to each of its tokens alike; and an exponential time has no memory, so that every other
/// arrival is the start plus a fresh time. A token whose tile starts too late for it is out.

namespace hunch::kernel {

inline constexpr std::int32_t noise_tile = 1024;

/// An exponential time with mean 1 from the upper 53 bits of a random word: never 0, never inf.
HUNCH_HOST_DEVICE HUNCH_INLINE double exponential_time(std::uint64_t word) {
  return -log_of(product(static_cast<double>(word >> 11) + 0.5, 0x1.0p-53));
}

/// A candidate and its time; the smaller time is ahead, the lower token on ties.
struct timed_token {
  double time = infinity<double>;
  token who = no_token;

  HUNCH_HOST_DEVICE friend timed_token ahead(const timed_token& a, const timed_token& b) {
    return a.time < b.time || (a.time == b.time && a.who < b.who) ? a : b;
  }
};

/// The noise of one place in one text: `bits(tile or token, which)` is a random word.
template <class Words>
struct token_noise {
  Words words;

  struct tile_start {
    double time;
    token first;  ///< whose arrival it is
  };

  HUNCH_HOST_DEVICE HUNCH_INLINE double start_time(std::int32_t tile) const {
    return exponential_time(words(tile, 0)) * (1.0 / noise_tile);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE token first(std::int32_t tile) const {
    return tile * noise_tile + static_cast<token>(words(tile, 0) & (noise_tile - 1));
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE tile_start start(std::int32_t tile) const {
    return {start_time(tile), first(tile)};
  }
  HUNCH_HOST_DEVICE double arrival(token t, const tile_start& tile) const {
    return t == tile.first ? tile.time : tile.time + exponential_time(words(t, 1));
  }
};

namespace detail {

/// Elements of a full row are tokens; their tile is known without looking at them.
struct row_tokens {
  static constexpr bool in_order = true;
  std::int32_t size;

  HUNCH_HOST_DEVICE token token_at(std::int32_t i) const { return i; }
  HUNCH_HOST_DEVICE std::int32_t position_of(token t) const { return t < size ? t : -1; }
  HUNCH_HOST_DEVICE std::int32_t tiles() const { return (size + noise_tile - 1) / noise_tile; }
};

/// Elements of a shortlist are tokens in any order.
struct listed_tokens {
  static constexpr bool in_order = false;
  shortlist list;

  HUNCH_HOST_DEVICE token token_at(std::int32_t i) const { return list.token_at(i); }
  HUNCH_HOST_DEVICE std::int32_t position_of(token t) const {
    return t < list.vocab_size ? list.position_of(t) : -1;
  }
  HUNCH_HOST_DEVICE std::int32_t tiles() const {
    return (list.vocab_size + noise_tile - 1) / noise_tile;
  }
};

}  // namespace detail

/// The noisy argmax of law `l`, whose elements are `tokens`. Collective; reads the row twice and no
/// noise of tokens that cannot win; the result is that of looking at all of them.
template <Team T, class Logit, class Tokens, class Words>
HUNCH_HOST_DEVICE token noisy_argmax(T& team, const law<Logit>& l, const Tokens& tokens,
                                     const token_noise<Words>& noise) {
  using real = real_of<Logit>;
  const auto better = [](const timed_token& a, const timed_token& b) { return ahead(a, b); };
  const token favourite = tokens.token_at(argmax(team, l));
  // When the tiles start is looked up twice: on a host in a list. (A device has no registers for
  // it.)
#if !defined(__CUDA_ARCH__)
  const bool listed = tokens.tiles() <= team::list_capacity;
  if (listed) {
    team.fill(tokens.tiles(), [=](std::int64_t tile) {
      return bit_cast<std::int64_t>(noise.start_time(static_cast<std::int32_t>(tile)));
    });
  }
  const std::int64_t* const list = team.scratch().list;
  const auto start_time = [=](std::int64_t tile) {
    return listed ? bit_cast<double>(list[tile])
                  : noise.start_time(static_cast<std::int32_t>(tile));
  };
#else
  const auto start_time = [=](std::int64_t tile) {
    return noise.start_time(static_cast<std::int32_t>(tile));
  };
#endif
  // Somebody has to be beaten: the first of each tile (good where the law is flat) and the most
  // probable token (good where it is not).
  const auto first_of = [=](std::int64_t tile) {
    const token who = noise.first(static_cast<std::int32_t>(tile));
    const std::int32_t at = tokens.position_of(who);
    const real w = at >= 0 ? l.weight(at) : real(0);
    return w > real(0) ? timed_token{start_time(tile) / static_cast<double>(w), who}
                       : timed_token{};
  };
  timed_token first;
  if constexpr (Tokens::in_order) {
    first = team::reduce_blocks<noise_tile>(team, l.size(), timed_token{}, first_of, better);
  } else {
    first = team.reduce(tokens.tiles(), timed_token{}, first_of, better);
  }
  const timed_token bound = ahead(
      first, timed_token{noise.arrival(favourite, noise.start(favourite / noise_tile)), favourite});

  // A token that starts at `time` at the earliest needs the weight time / bound.time, so a logit
  // of at least maximum + cut; with a margin for the rounding of weights.
  const auto cut = [=](double time) {
    const double log2_weight = log_of(time / bound.time) * 1.4426950408889634074 - 1e-3;
    return static_cast<real>(log2_weight / static_cast<double>(l.scale));
  };
  const auto contender = [=](std::int64_t i) {
    const real w = l.weight(i);
    const token t = tokens.token_at(static_cast<std::int32_t>(i));
    const double time = start_time(t / noise_tile);
    if (!(w > real(0)) || time / static_cast<double>(w) > bound.time) { return timed_token{}; }
    return timed_token{
        noise.arrival(t, {time, noise.first(t / noise_tile)}) / static_cast<double>(w), t};
  };
  const auto keep = [=](std::int64_t i, real least) { return l.logit(i) - l.maximum >= least; };
  static_assert(noise_tile == team::gate_elements);
  timed_token rest;
  if constexpr (Tokens::in_order) {
    const auto gate = [=](std::int64_t tile) { return cut(start_time(tile)); };
    rest = team.reduce_where(l.size(), timed_token{}, gate, keep, contender, better);
  } else {
    const double earliest = team.reduce(
        tokens.tiles(), infinity<double>, [=](std::int64_t tile) { return start_time(tile); },
        [](double a, double b) { return a < b ? a : b; });
    const real least = cut(earliest);
    const auto gate = [=](std::int64_t) { return least; };
    rest = team.reduce_where(l.size(), timed_token{}, gate, keep, contender, better);
  }
  return ahead(bound, rest).who;
}

}  // namespace hunch::kernel
