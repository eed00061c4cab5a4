// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// Where the tail of a text occurs earlier in it.
struct text_match {
  std::int32_t length = 0;  ///< tokens of the tail that occur there; 0: nowhere
  std::int32_t next = 0;    ///< the position after the occurrence
};

namespace detail {

/// Positions that are searched at a time.
inline constexpr std::int32_t match_chunk = 8192;

/// The last tokens of a text, the last one first. An array of constant indices: it is in registers.
template <std::int32_t Longest>
struct text_tail {
  token t[Longest];

  HUNCH_HOST_DEVICE HUNCH_INLINE explicit text_tail(const token* end) {
    HUNCH_UNROLLED
    for (std::int32_t j = 0; j < Longest; ++j) { t[j] = end[-1 - j]; }
  }
  /// How many of them stand in front of `end`, up to the first that does not.
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t common(const token* end) const {
    std::int32_t length = 0;
    std::int32_t same = 1;
    HUNCH_UNROLLED
    for (std::int32_t j = 0; j < Longest; ++j) {
      same &= end[-1 - j] == t[j] ? 1 : 0;  // without branches, so that host loops vectorise
      length += same;
    }
    return length;
  }
};

}  // namespace detail

/// The longest tail of `text` [n], of at most `Longest` tokens, that occurs earlier, and its last
/// occurrence, which may overlap the tail. Searched from the end backwards, and no further than to
/// the first tail of `Longest` tokens: at worst the text is read once. Collective; the result is on
/// all ranks.
template <std::int32_t Longest, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE text_match longest_match(T& team, const token* text,
                                                                  std::int32_t n) {
  constexpr std::int32_t chunk = detail::match_chunk;
  text_match best;
  if (n > Longest) {
    const detail::text_tail<Longest> tail(text + n);
    for (std::int32_t end = n; end > Longest && best.length < Longest; end -= chunk) {
      // Occurrences that end in front of the positions [first, end).
      const std::int32_t first = end - chunk > Longest ? end - chunk : Longest;
      const token* const from = text + first;
      const std::int32_t found = team.reduce(
          end - first, std::int32_t(0),
          [=](std::int64_t i) {
            return tail.common(from + i) * chunk + static_cast<std::int32_t>(i);
          },
          [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
      if (found / chunk > best.length) {
        best = {.length = found / chunk, .next = first + found % chunk};
      }
    }
  }
  // The beginning of the text has room for shorter tails only.
  for (std::int32_t next = Longest - 1 < n - 1 ? Longest - 1 : n - 1; next > best.length; --next) {
    std::int32_t length = 0;
    while (length < next && text[next - 1 - length] == text[n - 1 - length]) { ++length; }
    if (length > best.length) { best = {.length = length, .next = next}; }
  }
  return best;
}

/// A text to be continued.
struct text_to_continue {
  const token* text = nullptr;  ///< [length]
  std::int32_t length = 0;      ///< 1 or more
  std::int32_t shortest = 1;    ///< tokens of its tail that must occur earlier, 1 or more
  std::int32_t wanted = 0;      ///< tokens to propose; 0: none, and the text is not searched
  token* proposed = nullptr;    ///< [wanted] out, if there is a match
};

/// Proposes the tokens that followed the last occurrence of the longest tail of a text that occurs
/// earlier. Where they end, at the end of the text, what is proposed is read on: a periodic text is
/// continued periodically. Collective; returns how many tokens of the tail occur, 0 if there is no
/// match, on all ranks.
template <std::int32_t Longest, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t propose_match(T& team,
                                                                    const text_to_continue& of) {
  const text_to_continue to = of;
  text_match match;
  if (to.wanted > 0) { match = longest_match<Longest>(team, to.text, to.length); }
  if (match.length < to.shortest) { return 0; }
  const token* const followed = to.text + match.next;
  const std::int32_t period = to.length - match.next;
  team.for_each(to.wanted, [=](std::int64_t i) {
    to.proposed[i] = followed[static_cast<std::int32_t>(i) % period];
  });
  return match.length;
}

/// Such a text, and where it is said whether there is a match.
struct match_task {
  text_to_continue of;
  std::int32_t* matched = nullptr;  ///< out: tokens of the tail that occur, 0: no match
};

/// `propose_match` for texts of a batch, one team per text. (Saxena 2023, prompt lookup decoding;
/// Yang et al. 2023, arXiv:2304.04487)
/// \tparam Longest tokens of a tail at most.
template <std::int32_t Longest>
struct find_match {
  static_assert(Longest >= 1 && Longest <= 16,
                "hunch: kernel::find_match looks for tails of 1 to 16 tokens");

  const match_task* tasks;  ///< [texts]
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const match_task task = tasks[index];
    const std::int32_t matched = propose_match<Longest>(team, task.of);
    if (team.rank() == 0) { *task.matched = matched; }
  }
};

}  // namespace hunch::kernel
