// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/core/types.hpp>
#include "hash.hpp"

namespace hunch::test {

/// What kind of rows a toy model has.
enum class flavour {
  smooth,    ///< generic rows, every token possible
  sharp,     ///< one token has most of the mass
  one_hot,   ///< one finite logit
  even,      ///< only even tokens are possible
  odd,       ///< only odd tokens: disjoint from `even`
  masked,    ///< some tokens impossible
  tied,      ///< few distinct logits
  uniform,   ///< all logits equal
  denormal,  ///< some probabilities near 1e-312
};

inline constexpr flavour all_flavours[] = {flavour::smooth, flavour::sharp,   flavour::one_hot,
                                           flavour::even,   flavour::odd,     flavour::masked,
                                           flavour::tied,   flavour::uniform, flavour::denormal};

/// The logits of a toy model as a function of the hash of the whole text before a token. Any
/// mistake in positions, caches or commits changes that hash, and so the law.
struct toy_world {
  std::int32_t vocab = 4;
  std::uint64_t salt = 1;
  flavour kind = flavour::smooth;
  std::int32_t padded_from = 0;   ///< if not 0, ids from here on are padding and have logit -inf
  const double* fixed = nullptr;  ///< [vocab] if set, the law after every text
  std::uint64_t bad = 0;          ///< if not 0, which rows are damaged: one of four

  template <class Real>
  void logits(std::uint64_t text, Real* row) const {
    sound_logits(text, row);
    const std::uint64_t h = mix(text ^ mix(bad));
    if (bad != 0 && h % 4 == 0) { damage(mix(h), row); }
  }

  std::vector<double> logits(std::uint64_t text) const {
    std::vector<double> row(static_cast<std::size_t>(vocab));
    logits(text, row.data());
    return row;
  }

 private:
  /// Most of these rows have no law; of the last two kinds some do.
  template <class Real>
  void damage(std::uint64_t h, Real* row) const {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    const Real nan = std::copysign(std::numeric_limits<Real>::quiet_NaN(), Real(1));
    const auto at = static_cast<std::int32_t>(mix(h) % static_cast<std::uint64_t>(vocab));
    const auto fill = [&](Real x) {
      for (std::int32_t v = 0; v < vocab; ++v) { row[v] = x; }
    };
    const Real kept = row[at];
    switch (h % 7) {
      case 0:
        row[at] = nan;
        break;
      case 1:
        row[at] = -nan;
        break;
      case 2:
        row[at] = infinity;
        break;
      case 3:
        fill(-infinity);
        break;
      case 4:
        fill(-nan);
        break;
      case 5:
        row[at] = -infinity;
        break;
      default:
        fill(-infinity);
        row[at] = kept;
    }
  }

  template <class Real>
  void sound_logits(std::uint64_t text, Real* row) const {
    constexpr Real never = -std::numeric_limits<Real>::infinity();
    if (fixed != nullptr) {
      for (std::int32_t v = 0; v < vocab; ++v) { row[v] = static_cast<Real>(std::log(fixed[v])); }
      return;
    }
    const std::uint64_t h = mix(text ^ (salt * 0x2545F4914F6CDD1Dull));
    const std::int32_t tokens = padded_from > 0 ? padded_from : vocab;
    const auto favourite = static_cast<std::int32_t>(mix(h) % static_cast<std::uint64_t>(tokens));
    for (std::int32_t v = tokens; v < vocab; ++v) { row[v] = never; }
    for (std::int32_t v = 0; v < tokens; ++v) {
      const std::uint64_t own = mix(h + static_cast<std::uint64_t>(v) + 1);
      const auto value = static_cast<Real>(3.0 * fraction(own) - 1.5);
      const bool is_even = v % 2 == 0;
      switch (kind) {
        case flavour::smooth:
          row[v] = value;
          break;
        case flavour::sharp:
          row[v] = v == favourite ? value + Real(6) : value;
          break;
        case flavour::one_hot:
          row[v] = v == favourite ? value : never;
          break;
        case flavour::even:
          row[v] = is_even ? value : never;
          break;
        case flavour::odd:
          row[v] = !is_even || tokens == 1 ? value : never;
          break;
        case flavour::masked:
          row[v] = v == favourite || own % 3 != 0 ? value : never;
          break;
        case flavour::tied:
          row[v] = static_cast<Real>(own % 2);
          break;
        case flavour::uniform:
          row[v] = Real(0.25);
          break;
        case flavour::denormal:
          row[v] = v != favourite && own % 2 == 0 ? Real(-718) + value : value;
          break;
      }
    }
  }
};

/// What a toy draft model tells routers of a text: a few numbers that depend on all of it.
inline constexpr std::int32_t toy_context_size = 5;
inline void toy_context(std::uint64_t text, float* out) {
  for (std::int32_t k = 0; k < toy_context_size; ++k) {
    out[k] = static_cast<float>(2.0 * fraction(mix(text + static_cast<std::uint64_t>(k))) - 1.0);
  }
}

}  // namespace hunch::test
