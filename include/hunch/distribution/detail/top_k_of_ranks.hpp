// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/detail/cut.hpp>
#include <hunch/distribution/detail/measure.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The k-th most probable element of a row that is divided among ranks, in one exchange: each finds
/// its own k best by itself, and all of them are compared. It is the element that `find_cut` comes
/// to, for numbers of elements are exact.

namespace hunch::kernel::detail {

/// The cut at the k-th element of `l`, and how many elements it keeps now.
template <class Real>
struct counted_cut {
  std::int64_t total = 0;
  cut<Real> at{};
};

/// What a rank tells in front of its best elements.
struct best_of_rank {
  std::int64_t total;  ///< elements that it has
  std::int64_t best;   ///< of these, the best ones, at most k
  std::int64_t above;  ///< of these, told one by one; the others are equal to `key`
  std::int64_t key;
  std::int64_t ties;  ///< elements equal to it, if some are not among the best

  static constexpr std::int32_t words = 5;

  HUNCH_HOST_DEVICE static best_of_rank read(const std::uint64_t* from) {
    const auto word = [from](int k) { return static_cast<std::int64_t>(from[k]); };
    return {word(0), word(1), word(2), word(3), word(4)};
  }
  HUNCH_HOST_DEVICE void write(std::uint64_t* to) const {
    const std::int64_t all[] = {total, best, above, key, ties};
    for (int k = 0; k < words; ++k) { to[k] = static_cast<std::uint64_t>(all[k]); }
  }
};

/// Collective; 1 <= k <= `team::list_capacity`.
template <Team T, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE counted_cut<real_of<Logit>> top_k_of_ranks(
    T& team, const law<Logit>& l, std::int32_t k) {
  using real = real_of<Logit>;
  using keys = order<real>;
  using key = typename keys::key;
  constexpr real lowest = -largest<real>;
  auto& own = team.inner();
  const team::element_range held = team.held();
  law<Logit> part = l;
  part.logits = {l.logits.data + held.begin, static_cast<std::int32_t>(held.size())};
  if (l.last_kept != last_id) {
    part.last_kept = l.last_kept - static_cast<std::int32_t>(held.begin);
  }

  best_of_rank mine{};
  mine.total = static_cast<std::int64_t>(measure_at_least<element_count>(own, part, lowest));
  mine.best = smaller(mine.total, std::int64_t{k});
  mine.above = mine.best;
  real least = lowest;
  bool all = true;
  if (mine.best < mine.total) {
    const auto c =
        find_cut<element_count>(own, part, static_cast<double>(k), static_cast<double>(mine.total));
    mine.above = static_cast<std::int64_t>(c.above);
    mine.key = static_cast<std::int64_t>(keys::of(c.value));
    mine.ties = c.ties;
    least = c.value;
    all = false;
  }
  own.compact(
      part.size(),
      [=](std::int64_t i) {
        const real x = part.logit(i);
        return part.keeps(x, i) && (all ? x >= least : x > least);
      },
      [=](std::int64_t i) { return keys::of(part.logit(i)); }, team::list_capacity);

  team.exchange(best_of_rank::words + k, [&](std::uint64_t* out) {
    const std::int64_t* const list = own.scratch().list;
    if (own.rank() == 0) { mine.write(out); }
    own.for_each(mine.above, [=](std::int64_t i) {
      out[best_of_rank::words + i] = static_cast<std::uint64_t>(list[i]);
    });
  });
  counted_cut<real> out;
  HUNCH_ROLLED
  for (std::int32_t r = 0; r < team.ranks(); ++r) {
    out.total += best_of_rank::read(team.from(r)).total;
  }
  if (out.total <= k) { return out; }
  const auto add = [](std::int64_t a, std::int64_t b) { return a + b; };
  // Of those that were told, how many are at least, or exactly, this.
  const auto told = [&](key at, bool exactly) {
    return own.reduce(
        std::int64_t{team.ranks()} * k, std::int64_t(0),
        [=, &team](std::int64_t i) {
          const std::uint64_t* const from = team.from(static_cast<std::int32_t>(i / k));
          const auto of = best_of_rank::read(from);
          const std::int64_t which = i % k;
          if (which >= of.best) { return std::int64_t(0); }
          const std::int64_t x = which < of.above
                                     ? static_cast<std::int64_t>(from[best_of_rank::words + which])
                                     : of.key;
          return std::int64_t(exactly ? x == at : x >= at);
        },
        add);
  };
  const key found = largest_key(keys::minus_infinity, keys::plus_infinity,
                                [&](key at) { return told(at, false) >= k; });
  std::int64_t untold = 0;
  HUNCH_ROLLED
  for (std::int32_t r = 0; r < team.ranks(); ++r) {
    const auto of = best_of_rank::read(team.from(r));
    if (of.best < of.total && of.key == found) { untold += of.ties - (of.best - of.above); }
  }
  const std::int64_t ties = told(found, true);
  out.at = {keys::value(found), static_cast<double>(told(found, false) - ties),
            static_cast<std::int32_t>(ties + untold)};
  return out;
}

}  // namespace hunch::kernel::detail
