// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hunch/diffusion/canvas/unmasking.hpp>

namespace hunch::diffusion {

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
class draft_sets {
 public:
  static constexpr std::int32_t most = 64;  ///< different drafts; a set is a word of so many bits

  /// \param count sets besides the empty one, at most.
  explicit draft_sets(std::int32_t count) {
    chosen_.reserve(static_cast<std::size_t>(count) + 1);
    reached_.reserve(static_cast<std::size_t>(count + 1) * looked_at);
  }

  /// \param drafts [most] in: the chain; out: it, and other drafts after it.
  /// \param chain its length, and the number of sets besides the empty one.
  /// \param sets [chain + 1] out: bit i: drafts[i] is in the set. The empty one is the first.
  /// \param lists for how many beginnings of the chain something is known.
  /// \param list `list(d)` is what may be unmasked after the first d of the chain, in the order's
  /// order, the chain's next draft first; as much of it as is known. A span of `planned_draft`, of
  /// which those after a position of -1 do not count.
  /// Returns the number of different drafts.
  template <class List>
  std::int32_t choose(unmasking* drafts, std::int32_t chain, std::uint64_t* sets, double spread,
                      std::int32_t lists, List&& list) {
    drafts_ = drafts;
    proposed_ = chain;
    chosen_.clear();
    reached_.clear();
    reached_.push_back({0, 1.0});
    while (!reached_.empty()) {
      const auto next = std::ranges::max_element(reached_, {}, &reached::probability);
      const reached now = *next;
      reached_.erase(next);
      *sets++ = now.set;
      chosen_.push_back(now.set);
      if (size() == chain) { break; }
      extend(now, list(std::min(beginning(now.set, chain), lists - 1)), spread);
    }
    return proposed_;
  }
  /// Sets that were chosen, besides the empty one, and how many drafts the largest has.
  std::int32_t size() const { return static_cast<std::int32_t>(chosen_.size()) - 1; }
  std::int32_t deepest() const {
    std::int32_t drafts = 0;
    for (const std::uint64_t set : chosen_) { drafts = std::max(drafts, std::popcount(set)); }
    return drafts;
  }

 private:
  /// Of what may come after a set, so many are considered.
  static constexpr std::int32_t looked_at = 8;

  struct reached {
    std::uint64_t set = 0;
    double probability = 0.0;
  };

  static std::uint64_t bit(std::int32_t i) { return std::uint64_t{1} << i; }

  /// How many of the chain's first drafts are in a set.
  static std::int32_t beginning(std::uint64_t set, std::int32_t chain) {
    std::int32_t d = 0;
    while (d < chain && (set & bit(d)) != 0) { ++d; }
    return d;
  }

  /// Sets with one draft more: of the first block that has masks.
  void extend(const reached& from, std::span<const planned_draft> list, double spread) {
    std::array<const planned_draft*, looked_at> next;
    std::array<double, looked_at> chance;
    std::int32_t count = 0;
    const std::int32_t wanted = spread > 0.0 ? looked_at : 1;
    for (const planned_draft& d : list) {
      if (d.what.position < 0 || count == wanted) { break; }
      if (is_unmasked(from.set, d.what.position)) { continue; }
      if (count > 0 && d.block != next[0]->block) { break; }
      next[at(count)] = &d;
      // The largest first.
      const double odds = log_odds(d.probability);
      std::int32_t rank = count++;
      for (; rank > 0 && chance[at(rank - 1)] < odds; --rank) {
        chance[at(rank)] = chance[at(rank - 1)];
      }
      chance[at(rank)] = odds;
    }
    if (count == 0) { return; }
    const double largest = chance[0];
    double sum = 0.0;
    for (std::int32_t r = 0; r < count; ++r) {
      double& c = chance[at(r)];
      c = r == 0 ? 1.0 : std::exp((c - largest) / spread);
      sum += c;
    }
    for (std::int32_t r = 0; r < count; ++r) {
      const planned_draft& d = *next[at(r)];
      const std::int32_t i = index_of(d.what);
      const double stays = std::sqrt(std::sqrt(d.probability));
      if (i < most) { reach(from.set | bit(i), from.probability * chance[at(r)] / sum * stays); }
    }
  }

  static std::size_t at(std::int32_t r) { return static_cast<std::size_t>(r); }

  /// Finite, for a probability that is rounded to 0 or 1 as well.
  static double log_odds(double probability) {
    const double p = std::clamp(probability, 1e-6, 1.0 - 1e-6);
    return std::log(p / (1.0 - p));
  }

  bool is_unmasked(std::uint64_t set, std::int32_t position) const {
    for (std::int32_t i = 0; i < proposed_; ++i) {
      if ((set & bit(i)) != 0 && drafts_[i].position == position) { return true; }
    }
    return false;
  }

  /// Of a draft, which is a new one if there is room; else `most`.
  std::int32_t index_of(const unmasking& w) {
    const auto found =
        static_cast<std::int32_t>(std::find(drafts_, drafts_ + proposed_, w) - drafts_);
    if (found < proposed_) { return found; }
    if (proposed_ == most) { return most; }
    drafts_[proposed_] = w;
    return proposed_++;
  }

  void reach(std::uint64_t set, double probability) {
    if (std::ranges::find(chosen_, set) != chosen_.end()) { return; }
    const auto before = std::ranges::find(reached_, set, &reached::set);
    if (before != reached_.end()) {
      before->probability += probability;
    } else {
      reached_.push_back({set, probability});
    }
  }

  unmasking* drafts_ = nullptr;
  std::int32_t proposed_ = 0;
  std::vector<std::uint64_t> chosen_;
  std::vector<reached> reached_;
};

}  // namespace hunch::diffusion
