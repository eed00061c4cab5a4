// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/distribution/detail/cut_of_list.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Scores from the highest to the lowest, the lower number first on ties, and where to cut them.

namespace hunch::kernel {

/// Where a cut is: the scores in front of it are kept, and the one that is named.
struct ranked_cut {
  using keys = order<float>;

  keys::key key = keys::minus_infinity;  ///< of the last one that is kept
  std::int32_t number = last_id;         ///< its number
  std::int64_t before = 0;               ///< amounts of those in front of that one

  HUNCH_HOST_DEVICE HUNCH_INLINE bool keeps(float score, std::int32_t i) const {
    const float least = keys::value(key);
    const bool tie = (score == least) & (i <= number);  // no branches, so that loops vectorise
    return (score > least) | tie;
  }
};

namespace detail {

/// A search for the one that is kept last, from the upper digit of the ranks to the lowest: those
/// with the digits of `prefix` above bit `shift` are left.
struct digit_search {
  static constexpr int digit_bits = 11;
  static constexpr int digits = 1 << digit_bits;
  static constexpr int number_bits = 2 * digit_bits;
  static constexpr std::uint64_t largest_number = (std::uint64_t(1) << number_bits) - 1;
  static_assert(digits <= team::list_capacity);

  std::uint64_t prefix = 0;
  int shift;

  /// Lower for a higher score, and for a lower number.
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::uint64_t rank(float score, std::int64_t i) {
    const auto key = static_cast<std::uint32_t>(order<float>::of(score));
    return static_cast<std::uint64_t>(0x7fffffffu - key) << number_bits |
           static_cast<std::uint64_t>(i);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE static order<float>::key key_of(std::uint64_t falling) {
    return static_cast<order<float>::key>(0x7fffffffu - static_cast<std::uint32_t>(falling));
  }
  /// The next digit of what is left; else -1.
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t digit(std::uint64_t rank) const {
    const std::uint64_t upper = rank >> shift;
    return upper >> digit_bits == prefix ? static_cast<std::int32_t>(upper & (digits - 1)) : -1;
  }
};

/// By digits, for teams of many: each is counted by all of them at the same time.
template <class T, class Amount>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE ranked_cut cut_by_digits(T& team, const float* scores,
                                                                  std::int32_t n,
                                                                  std::int64_t wanted,
                                                                  const Amount& amount) {
  using search = digit_search;
  search left{.shift = search::number_bits + 2 * search::digit_bits};
  ranked_cut cut;
  HUNCH_ROLLED
  for (; left.shift >= 0; left.shift -= search::digit_bits) {
    if (left.shift == search::digit_bits && n <= search::digits) {
      left.prefix <<= search::digit_bits;  // the upper digit of all numbers is 0
      continue;
    }
    const team::found_bin found = team.find_bin(
        n, wanted - cut.before,
        [=](std::int64_t i) HUNCH_INLINED { return left.digit(search::rank(scores[i], i)); },
        amount);
    cut.before += found.before;
    left.prefix = left.prefix << search::digit_bits | static_cast<std::uint64_t>(found.bin);
    if constexpr (std::is_same_v<Amount, team::one_each>) {
      // As a rule, soon: all of the bin is kept, down to the lowest that it could hold.
      if (cut.before + found.within == wanted && left.shift >= search::number_bits) {
        const int rest = left.shift - search::number_bits;
        cut.key = search::key_of(((left.prefix + 1) << rest) - 1);
        return cut;
      }
    }
  }
  cut.key = search::key_of(left.prefix >> search::number_bits);
  cut.number = static_cast<std::int32_t>(left.prefix & search::largest_number);
  return cut;
}

/// Amounts that a team has put into its list.
template <class Amount>
struct listed_amounts {
  using integer = typename Amount::integer;
  const std::int64_t* list;
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t operator()(std::int64_t i) const { return list[i]; }
};

/// By bisection, for a thread: sums of all scores are what it is fast at.
template <class T, class Amount>
HUNCH_HOST_DEVICE ranked_cut cut_by_halves(T& team, const float* scores, std::int32_t n,
                                           ranked_cut::keys::key top, std::int64_t wanted,
                                           const Amount& amount) {
  using keys = ranked_cut::keys;
  using integer = typename Amount::integer;
  const auto sum = [&](float least, std::int32_t number) {
    return team.reduce(
        n, integer(0),
        [=](std::int64_t i) HUNCH_INLINED {
          const float x = scores[i];
          const bool tie = (x == least) & (static_cast<std::int32_t>(i) <= number);
          const bool kept = (x > least) | tie;
          return kept ? static_cast<integer>(amount(i)) : integer(0);
        },
        [](integer a, integer b) HUNCH_INLINED { return a + b; });
  };
  ranked_cut cut;
  cut.key = largest_key(keys::minus_infinity, top + 1,
                        [&](keys::key k) { return sum(keys::value(k), last_id) >= wanted; });
  const float least = keys::value(cut.key);
  std::int32_t low = 0;
  std::int32_t high = n - 1;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (sum(least, middle) >= wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  cut.number = low;
  cut.before = (std::is_same_v<Amount, team::one_each> ? wanted : sum(least, low)) - amount(low);
  return cut;
}

}  // namespace detail

/// The first cut with which the amounts of what is kept reach `wanted` > 0, which those of all do.
/// A team of many looks at the scores at most three times, and once or twice more where it takes
/// their numbers. Collective.
///
/// \param scores [n] numbers, the largest of which has the key `top`; n <= 2^22.
/// \param amount amount(i) >= 0 is an integer, and what is summed is one of type `Amount::integer`;
///        `team::one_each`: the first `wanted` are kept.
template <Team T, class Amount>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE ranked_cut cut_at_amount(T& team, const float* scores,
                                                                  std::int32_t n,
                                                                  ranked_cut::keys::key top,
                                                                  std::int64_t wanted,
                                                                  const Amount& amount) {
  if constexpr (team::is_one_thread<T>) {
    // Each amount is made once, and not for each of forty sums.
    if constexpr (!std::is_same_v<Amount, team::one_each>) {
      if (n <= team::list_capacity) {
        team.fill(n, amount);
        return detail::cut_by_halves(team, scores, n, top, wanted,
                                     detail::listed_amounts<Amount>{team.scratch().list});
      }
    }
    return detail::cut_by_halves(team, scores, n, top, wanted, amount);
  } else {
    return detail::cut_by_digits(team, scores, n, wanted, amount);
  }
}

}  // namespace hunch::kernel
