// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/detail/draw.hpp>
#include <hunch/distribution/detail/noisy_argmax.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Randomness is addressed, not consumed: every choice names its own random word by what it is
/// for. So nothing depends on batch slot, batch size, arrival order or retries, and no word is
/// used twice.

namespace hunch {

/// What a random word decides.
enum class purpose : std::uint32_t { draft, accept, residual, bonus, noise };

/// The name of one random choice.
///
/// `length` is the committed length of the sequence at the start of the step. It grows with every
/// step, so that no address returns. Keying by the absolute position of the token instead would
/// be biased wherever a decision looks beyond the accepted tokens, as block verification does.
struct address {
  std::uint64_t seed = 0;  ///< of the request
  std::uint32_t length = 0;
  std::uint32_t node = 0;     ///< of the draft tree
  std::uint32_t sibling = 0;  ///< draw number at that node
  purpose what = purpose::draft;

  friend constexpr bool operator==(const address&, const address&) = default;
};

/// The place of a text that `verifier::coupled` draws for, by the absolute position of the token,
/// and the position of a canvas. The only addresses that return: the drafter and the verifier ask
/// for the same noise, and so does plain decoding. Nothing else may be decided by it.
HUNCH_HOST_DEVICE constexpr address noise_address(std::uint64_t seed, std::uint32_t position) {
  return {.seed = seed, .length = position, .node = 0, .sibling = 0, .what = purpose::noise};
}

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): a counter-based generator, so stateless.
struct philox {
  struct words {
    std::uint32_t w[4];
    friend constexpr bool operator==(const words&, const words&) = default;
  };

  HUNCH_HOST_DEVICE static constexpr words generate(words counter, std::uint32_t key0,
                                                    std::uint32_t key1) {
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = 0xD2511F53ull * counter.w[0];
      const std::uint64_t b = 0xCD9E8D57ull * counter.w[2];
      counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.w[1] ^ key0,
                  static_cast<std::uint32_t>(b),
                  static_cast<std::uint32_t>(a >> 32) ^ counter.w[3] ^ key1,
                  static_cast<std::uint32_t>(a)}};
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    return counter;
  }

  /// 64 random bits for an address.
  HUNCH_HOST_DEVICE constexpr std::uint64_t operator()(const address& a) const {
    const words out =
        generate({{a.length, a.node, a.sibling, static_cast<std::uint32_t>(a.what)}},
                 static_cast<std::uint32_t>(a.seed), static_cast<std::uint32_t>(a.seed >> 32));
    return (static_cast<std::uint64_t>(out.w[1]) << 32) | out.w[0];
  }
};

/// The primitives through which everything random in the library goes. It is passed by value into
/// kernel bodies.
///
/// 1. `s.bernoulli(address, num, den)` is true with probability min(1, num / den): u * den < num,
///    strictly, so num == 0 is never true.
/// 2. `s.categorical(team, address, n, weight)` is an index i in [0, n) with probability
///    weight(i) / sum of weights, or -1 if no weight is positive; collective, the same on all
///    ranks. An index of weight 0 is never returned.
///
/// Not required: state, a period, a seeding call. Tests supply sources that enumerate.
template <class S>
concept RandomSource = std::copyable<S> &&
    requires(const S& s, const address& a, double p, team::serial& t, std::int64_t n) {
  { s.bernoulli(a, p, p) } -> std::same_as<bool>;
  { s.categorical(t, a, n, detail::any_term{}) } -> std::same_as<std::int64_t>;
};

/// A source that can also draw with noise that belongs to the tokens.
///
/// 1. `s.noisy_argmax(team, address, law)` is the noisy argmax of the law (see
///    `kernel::noisy_argmax`); the noise of a token is a function of the address and the token's
///    id.
/// 2. `s.noisy_argmax(team, address, law, shortlist)` the same for a law over a shortlist: a token.
template <class S>
concept NoiseSource = RandomSource<S> && requires(const S& s, const address& a, team::serial& t,
                                                  const law<float>& l, const shortlist& list) {
  { s.noisy_argmax(t, a, l) } -> std::same_as<token>;
  { s.noisy_argmax(t, a, l, list) } -> std::same_as<token>;
};

/// A source made of a function from address to 64 random bits.
template <class Bits = philox>
struct random_source {
  Bits bits{};

  HUNCH_HOST_DEVICE bool bernoulli(const address& a, double num, double den) const {
    return kernel::uniform(bits(a)) * den < num;
  }

  template <Team T, class Weight>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t categorical(T& team, const address& a,
                                                                    std::int64_t n,
                                                                    Weight&& weight) const {
    return kernel::draw(team, n, weight, bits(a));
  }

  template <Team T, class Real>
  HUNCH_HOST_DEVICE token noisy_argmax(T& team, const address& a, const law<Real>& l) const {
    return kernel::noisy_argmax(team, l, kernel::detail::row_tokens{l.size()}, noise_at(a));
  }
  template <Team T, class Real>
  HUNCH_HOST_DEVICE token noisy_argmax(T& team, const address& a, const law<Real>& l,
                                       const shortlist& list) const {
    return kernel::noisy_argmax(team, l, kernel::detail::listed_tokens{list}, noise_at(a));
  }

 private:
  struct words_at {
    Bits bits;
    address where;
    HUNCH_HOST_DEVICE std::uint64_t operator()(std::int32_t which, std::uint32_t kind) const {
      address a = where;
      a.node = static_cast<std::uint32_t>(which);
      a.sibling = kind;
      return bits(a);
    }
  };
  HUNCH_HOST_DEVICE kernel::token_noise<words_at> noise_at(const address& a) const {
    return {words_at{bits, a}};
  }
};

static_assert(NoiseSource<random_source<philox>>);

}  // namespace hunch
