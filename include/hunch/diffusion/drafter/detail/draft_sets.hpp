// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>

namespace hunch::diffusion {

/// Some planned drafts, one after the other; those after a position of -1 do not count.
struct draft_list {
  const planned_draft* drafts = nullptr;
  std::int32_t size = 0;
};

/// Which drafts are on which canvases of a round.
///
/// Drafts make a chain d_1, d_2, ..., d_n: what is likely to be unmasked next, what is after that,
/// and so on. Canvases with the first of them, the first two, ... are those of SSD. But most drafts
/// are refused because another mask is unmasked before them, and is later found to hold just what
/// was drafted. A canvas does not know in which order it was unmasked; so here a canvas has any set
/// of drafts, and the n sets are chosen that are the most likely to be passed through. Let p_i be
/// the probabilities of the tokens that may be next after a set, in the order's order. The first of
/// them is next with a probability in proportion to (p / (1 - p))^(1 / s) for the largest of the
/// p_i, the second for the second largest, and so on, s being the *spread*. And it still has the
/// same token then with probability p_i^(1 / 4): more often than p_i says, about as often as is
/// found. A set may be arrived at in all orders of its drafts. Only the first eight of what is
/// likely to be next are looked at. With s = 0 the first is next, and the sets are those of the
/// chain.
///
/// By one rank; the same sets on every machine.
class draft_sets {
 public:
  static constexpr std::int32_t most = 64;  ///< different drafts; a set is a word of so many bits
  /// Of what may come after a set, so many are considered.
  static constexpr std::int32_t looked_at = 8;

  struct reached {
    std::uint64_t set = 0;
    double probability = 0.0;
  };
  /// One of those that may be next after a set, and the odds of one of them, the largest first.
  struct next_draft {
    const planned_draft* draft = nullptr;
    double chance = 0.0;
  };

  /// How many `reached` there may be while `count` sets are chosen besides the empty one.
  HUNCH_HOST_DEVICE static constexpr std::int32_t room(std::int32_t count) {
    return (count + 1) * looked_at;
  }

  /// \param scratch [room(count)] and [looked_at]
  HUNCH_HOST_DEVICE draft_sets(reached* scratch, next_draft* next)
      : reached_(scratch), next_(next) {}

  /// \param drafts [most] in: the chain; out: it, and other drafts after it.
  /// \param chain its length, and the number of sets besides the empty one.
  /// \param sets [chain + 1] out: bit i: drafts[i] is in the set. The empty one is the first.
  /// \param lists for how many beginnings of the chain something is known.
  /// \param list `list(d)` is what may be unmasked after the first d of the chain, in the order's
  /// order, the chain's next draft first; as much of it as is known. A `draft_list`.
  /// Returns the number of different drafts.
  template <class List>
  HUNCH_HOST_DEVICE std::int32_t choose(unmasking* drafts, std::int32_t chain, std::uint64_t* sets,
                                        double spread, std::int32_t lists, const List& list) {
    drafts_ = drafts;
    proposed_ = chain;
    chosen_ = sets;
    count_ = 0;
    reached_[0] = {.set = 0, .probability = 1.0};
    waiting_ = 1;
    while (waiting_ > 0) {
      const reached now = take_likeliest();
      chosen_[count_++] = now.set;
      if (size() == chain) { break; }
      extend(now, list(kernel::smaller(beginning(now.set, chain), lists - 1)), spread);
    }
    return proposed_;
  }
  /// Sets that were chosen, besides the empty one, and how many drafts the largest has.
  HUNCH_HOST_DEVICE std::int32_t size() const { return count_ - 1; }
  HUNCH_HOST_DEVICE std::int32_t deepest() const {
    std::int32_t deepest = 0;
    for (std::int32_t c = 0; c < count_; ++c) {
      std::int32_t drafts = 0;
      for (std::uint64_t set = chosen_[c]; set != 0; set &= set - 1) { ++drafts; }
      deepest = kernel::larger(deepest, drafts);
    }
    return deepest;
  }

 private:
  HUNCH_HOST_DEVICE static std::uint64_t bit(std::int32_t i) { return std::uint64_t{1} << i; }

  /// How many of the chain's first drafts are in a set.
  HUNCH_HOST_DEVICE static std::int32_t beginning(std::uint64_t set, std::int32_t chain) {
    std::int32_t d = 0;
    while (d < chain && (set & bit(d)) != 0) { ++d; }
    return d;
  }

  /// The likeliest of those that were reached, of equally likely ones the first.
  HUNCH_HOST_DEVICE reached take_likeliest() {
    std::int32_t best = 0;
    for (std::int32_t i = 1; i < waiting_; ++i) {
      if (reached_[i].probability > reached_[best].probability) { best = i; }
    }
    const reached taken = reached_[best];
    --waiting_;
    for (std::int32_t i = best; i < waiting_; ++i) { reached_[i] = reached_[i + 1]; }
    return taken;
  }

  /// Sets with one draft more: of the first block that has masks.
  HUNCH_HOST_DEVICE void extend(const reached& from, const draft_list& list, double spread) {
    std::int32_t count = 0;
    const std::int32_t wanted = spread > 0.0 ? looked_at : 1;
    for (std::int32_t i = 0; i < list.size && count < wanted; ++i) {
      const planned_draft& d = list.drafts[i];
      if (d.what.position < 0) { break; }
      if (is_unmasked(from.set, d.what.position)) { continue; }
      if (count > 0 && d.block != next_[0].draft->block) { break; }
      next_[count].draft = &d;
      const double odds = odds_of(d.probability);
      std::int32_t rank = count++;
      for (; rank > 0 && next_[rank - 1].chance < odds; --rank) {
        next_[rank].chance = next_[rank - 1].chance;
      }
      next_[rank].chance = odds;
    }
    if (count == 0) { return; }
    const double largest = next_[0].chance;
    double sum = 0.0;
    for (std::int32_t r = 0; r < count; ++r) {
      double& c = next_[r].chance;
      c = r == 0 ? 1.0 : weight_of(c / largest, spread);
      sum += c;
    }
    for (std::int32_t r = 0; r < count; ++r) {
      const planned_draft& d = *next_[r].draft;
      const std::int32_t i = index_of(d.what);
      const double stays = std::sqrt(std::sqrt(d.probability));
      const double passed = kernel::product(from.probability, next_[r].chance) / sum;
      if (i < most) { reach(from.set | bit(i), kernel::product(passed, stays)); }
    }
  }

  /// Finite, for a probability that is rounded to 0 or 1 as well.
  HUNCH_HOST_DEVICE static double odds_of(double probability) {
    const double p = kernel::clamped(probability, 1e-6, 1.0 - 1e-6);
    return p / (1.0 - p);
  }
  /// Of something whose odds have this ratio to the largest.
  HUNCH_HOST_DEVICE static double weight_of(double ratio, double spread) {
    return spread == 1.0 ? ratio : kernel::exp_of(kernel::log_of(ratio) / spread);
  }

  HUNCH_HOST_DEVICE bool is_unmasked(std::uint64_t set, std::int32_t position) const {
    for (std::int32_t i = 0; i < proposed_; ++i) {
      if ((set & bit(i)) != 0 && drafts_[i].position == position) { return true; }
    }
    return false;
  }

  /// Of a draft, which is a new one if there is room; else `most`.
  HUNCH_HOST_DEVICE std::int32_t index_of(const unmasking& w) {
    for (std::int32_t i = 0; i < proposed_; ++i) {
      if (drafts_[i] == w) { return i; }
    }
    if (proposed_ == most) { return most; }
    drafts_[proposed_] = w;
    return proposed_++;
  }

  HUNCH_HOST_DEVICE void reach(std::uint64_t set, double probability) {
    for (std::int32_t c = 0; c < count_; ++c) {
      if (chosen_[c] == set) { return; }
    }
    for (std::int32_t i = 0; i < waiting_; ++i) {
      if (reached_[i].set == set) {
        reached_[i].probability += probability;
        return;
      }
    }
    reached_[waiting_++] = {.set = set, .probability = probability};
  }

  reached* reached_;
  next_draft* next_;
  unmasking* drafts_ = nullptr;
  std::int32_t proposed_ = 0;
  std::uint64_t* chosen_ = nullptr;
  std::int32_t count_ = 0;
  std::int32_t waiting_ = 0;
};

}  // namespace hunch::diffusion
