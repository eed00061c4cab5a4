// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/detail/race.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// A source that draws by races: every element has an arrival time of its own, exponential with the
/// mean 1 / weight, and the first one is drawn. The same law as `random_source`, other texts.
///
/// A draw along the sums of weights hangs on all of them: weights that differ in their last bits,
/// as the logits of an engine do from batch size to batch size, move every border between two
/// elements a little. Here an element loses only to one whose own weight has changed against its
/// own, so that a seed keeps its text over far larger differences; see the page of `RandomSource`.
template <class Bits = philox>
struct race_source : random_source<Bits> {
  template <Team T, class Weight>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t categorical(T& team, const address& a,
                                                                    std::int64_t n,
                                                                    Weight&& weight) const {
    // The word of an address is the seed of the words of its elements.
    const address of{.seed = this->bits(a), .what = a.what};
    return kernel::race(team, n, weight, kernel::token_noise<runner_words>{{this->bits, of}});
  }

 private:
  struct runner_words {
    Bits bits;
    address of;
    HUNCH_HOST_DEVICE std::uint64_t operator()(std::int32_t which, std::uint32_t kind) const {
      address a = of;
      a.length = static_cast<std::uint32_t>(which);
      a.node = kind;
      return bits(a);
    }
  };
};

static_assert(NoiseSource<race_source<philox>>);

}  // namespace hunch
