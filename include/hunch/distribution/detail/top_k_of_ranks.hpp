// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/detail/cut.hpp>
#include <hunch/distribution/detail/cut_estimate.hpp>
#include <hunch/distribution/detail/cut_of_list.hpp>
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

/// Less than any key.
inline constexpr std::int64_t no_key = std::numeric_limits<std::int64_t>::min();

/// What a rank tells in front of its best elements.
struct best_of_rank {
  std::int64_t total;  ///< elements that it has, or more than k of them
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

/// The k best elements of what one thread has of a row, found in one pass: what lies near the
/// maximum is collected, if samples let expect enough of it and not too much. Sets `mine`, and the
/// first `mine.above` elements of the list; false where there are not more than k, or too many.
template <Team Inner, class Logit>
HUNCH_HOST_DEVICE bool best_near_maximum(Inner& own, const law<Logit>& part, std::int32_t k,
                                         best_of_rank& mine) {
  static_assert(team::is_one_thread<Inner>);
  using real = real_of<Logit>;
  using keys = order<real>;
  using key = typename keys::key;
  const cut_estimate<element_count, Inner, Logit> estimate{own, part, static_cast<double>(k)};
  const bracket<real> all{-infinity<real>, keys::value(keys::of(part.maximum) + 1),
                          static_cast<float>(part.logits.size - k), 0.0};
  real low;
  if (!estimate.near_maximum(all, low)) { return false; }
  const auto reaches = [logits = part.logits.data, low](std::int64_t i) {
    const real x = to_real(logits[i]);
    return (int(x >= low) & int(x > -infinity<real>)) != 0;
  };
  const auto kept = [=](std::int64_t i) { return (int(part.keeps(i)) & int(reaches(i))) != 0; };
  const auto key_of = [logits = part.logits.data](std::int64_t i) {
    return keys::of(to_real(logits[i]));
  };
#if !defined(__CUDA_ARCH__)
  const bool whole = whole_law<Logit>::fits(part);
#else
  constexpr bool whole = false;
#endif
  const std::int32_t count = whole ? own.compact(part.size(), reaches, key_of, team::list_capacity)
                                   : own.compact(part.size(), kept, key_of, team::list_capacity);
  if (count <= k || count > team::list_capacity) { return false; }
  std::int64_t* const list = own.own().list;
  const auto at_least = [&](key from) {
    return own.reduce(
        count, std::int32_t(0), [=](std::int64_t i) { return list[i] >= from ? 1 : 0; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  };
  const key least =
      largest_key(keys::of(low), keys::of(all.high), [&](key from) { return at_least(from) >= k; });
  const std::int32_t above = at_least(least + 1);
  mine = {.total = count,
          .best = k,
          .above = above,
          .key = static_cast<std::int64_t>(least),
          .ties = at_least(least) - above};
  std::int32_t to = 0;
  for (std::int32_t i = 0; to < above; ++i) {
    if (list[i] > least) { list[to++] = list[i]; }
  }
  return true;
}

/// The same in any row, by as many passes as it takes.
template <Team Inner, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void best_of_row(Inner& own, const law<Logit>& part,
                                                          std::int32_t k, best_of_rank& mine) {
  using real = real_of<Logit>;
  using keys = order<real>;
  constexpr real lowest = -largest<real>;
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
}

/// Collective; 1 <= k <= `team::list_capacity`.
template <Team T, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE counted_cut<real_of<Logit>> top_k_of_ranks(
    T& team, const law<Logit>& l, std::int32_t k) {
  using real = real_of<Logit>;
  using keys = order<real>;
  using key = typename keys::key;
  auto& own = team.inner();
  const team::element_range held = team.held();
  law<Logit> part = l;
  part.logits = {l.logits.data + held.begin, static_cast<std::int32_t>(held.size())};
  if (l.last_kept != last_id) {
    part.last_kept = l.last_kept - static_cast<std::int32_t>(held.begin);
  }

  best_of_rank mine{};
  bool found_them = false;
  if constexpr (team::is_one_thread<T>) { found_them = best_near_maximum(own, part, k, mine); }
  if (!found_them) { best_of_row(own, part, k, mine); }

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
  // One that was told; less than any where there are fewer.
  const auto told_key = [&team, k](std::int64_t i) {
    const std::uint64_t* const from = team.from(static_cast<std::int32_t>(i / k));
    const auto of = best_of_rank::read(from);
    const std::int64_t which = i % k;
    if (which >= of.best) { return no_key; }
    return which < of.above ? static_cast<std::int64_t>(from[best_of_rank::words + which]) : of.key;
  };
  const std::int64_t many = std::int64_t{team.ranks()} * k;
  const bool listed = many <= team::list_capacity;
  if (listed) { own.fill(static_cast<std::int32_t>(many), told_key); }
  // Of those that were told, how many are at least, or exactly, this.
  const auto told = [&](key at, bool exactly) {
    const auto count = [=](std::int64_t x) { return std::int64_t(exactly ? x == at : x >= at); };
    if (!listed) {
      return own.reduce(
          many, std::int64_t(0), [=](std::int64_t i) { return count(told_key(i)); }, add);
    }
    const std::int64_t* const list = own.scratch().list;
    return own.reduce(
        many, std::int64_t(0), [=](std::int64_t i) { return count(list[i]); }, add);
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
