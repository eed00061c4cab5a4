// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/prefetch.hpp>
#include <hunch/team/tile_sums.hpp>

namespace hunch {

/// What verification rules ask of a law: weights, probabilities and whether it is one. `law` is a
/// law over logits, `probabilities` one that somebody has written out.
///
/// 1. `l.size()` elements; `l.weight(i)` >= 0, and `l.prob(i)` = weight(i) * `l.norm`, the
///    probability of element i in [0, size); both O(1) and of type `L::real`.
/// 2. `l.status` is an error if the row has no law.
///
/// Not required: that elements are tokens; a draft law ranges over the positions of a shortlist.
template <class L>
concept Law = std::is_trivially_copyable_v<L> && requires(const L& l, std::int64_t i) {
  typename L::real;
  { l.size() } -> std::same_as<std::int32_t>;
  { l.weight(i) } -> std::same_as<typename L::real>;
  { l.prob(i) } -> std::same_as<typename L::real>;
  { l.norm } -> std::convertible_to<typename L::real>;
  { l.status } -> std::convertible_to<status>;
};

/// A probability law over one row of logits, never written out: a view of the logits and five
/// scalars. Element i has the weight 2^((x_i - maximum) * scale) if it is kept, else 0; and it is
/// kept if x_i > threshold, or x_i == threshold and i <= last_kept, so that cuts through equal
/// logits are exact (lower ids are kept first).
///
/// A point mass (temperature 0) is a law too: threshold = maximum, last_kept = the argmax.
///
/// The logits must stay in place and unchanged while the law is used.
/// \tparam Logit float in production, or a 16-bit type, see `LogitType`; the scalars are what is
/// computed of them.
template <class Logit = float>
struct law {
  using real = real_of<Logit>;

  row_view<const Logit> logits;
  real scale = real(1);                      ///< log2(e) / temperature
  real maximum = real(0);                    ///< the largest kept logit
  real norm = real(0);                       ///< 1 / sum of weights
  real threshold = -kernel::infinity<real>;  ///< keep what is above
  std::int32_t last_kept = kernel::last_id;  ///< and ties up to this id
  hunch::status status = hunch::status::ok;

  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t size() const { return logits.size; }

  HUNCH_HOST_DEVICE HUNCH_INLINE real logit(std::int64_t i) const { return load(logits.data + i); }

  HUNCH_HOST_DEVICE HUNCH_INLINE bool keeps(std::int64_t i) const { return keeps(logit(i), i); }
  /// The same for an element i whose logit x is known.
  HUNCH_HOST_DEVICE HUNCH_INLINE bool keeps(real x, std::int64_t i) const {
    // Without branches, and with an index as wide as the logits, so that loops vectorise.
    const bool tie = (x == threshold) & (static_cast<std::int32_t>(i) <= last_kept);
    return (x > threshold) | tie;
  }

  /// Unnormalised, in [0, 1].
  HUNCH_HOST_DEVICE HUNCH_INLINE real weight(std::int64_t i) const {
    return weight_of(logit(i), i);
  }
  /// The same for an element i whose logit x is known.
  HUNCH_HOST_DEVICE HUNCH_INLINE real weight_of(real x, std::int64_t i) const {
    const real w = kernel::exp2_product(x - maximum, scale);
    return keeps(x, i) ? w : real(0);
  }

  /// The probability of element i: O(1).
  HUNCH_HOST_DEVICE HUNCH_INLINE real prob(std::int64_t i) const {
    return kernel::product(weight(i), norm);
  }

  /// The only element that is kept, if the law is seen to be a point mass; else -1. O(1).
  HUNCH_HOST_DEVICE std::int32_t only_kept() const {
    return threshold == maximum && norm == real(1) && last_kept != kernel::last_id ? last_kept : -1;
  }

  /// What makes a function of its elements a `team::Prefetched` one.
  HUNCH_HOST_DEVICE HUNCH_INLINE void prefetch_after(std::int64_t i) const {
    team::prefetch_after(logits.data + i, team::lane_count);
  }

  /// What the sums of the weights are remembered by.
  HUNCH_HOST_DEVICE team::summed remembered_as() const {
    return {.row = logits.data,
            .scale = static_cast<double>(scale),
            .maximum = static_cast<double>(maximum),
            .threshold = static_cast<double>(threshold),
            .last_kept = last_kept};
  }
};

static_assert(Law<law<float>>);

/// A law that nothing restricts, without the test of what it keeps: the same values, in loops that
/// are a third shorter.
template <class Logit>
struct whole_law : law<Logit> {
  using real = typename law<Logit>::real;
  using general = law<Logit>;  ///< the form that may be restricted

  explicit HUNCH_HOST_DEVICE whole_law(const law<Logit>& l) : law<Logit>(l) {}

  /// Whether `l` is such a law. (A logit of -inf has no weight either way.)
  HUNCH_HOST_DEVICE static bool fits(const law<Logit>& l) {
    return l.threshold == -kernel::infinity<real>;
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE static constexpr bool keeps(real, std::int64_t) { return true; }

  HUNCH_HOST_DEVICE HUNCH_INLINE real weight(std::int64_t i) const {
    return weight_of(this->logit(i));
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE real weight_of(real x, std::int64_t = 0) const {
    return kernel::exp2_product(x - this->maximum, this->scale);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE real prob(std::int64_t i) const {
    return kernel::product(weight(i), this->norm);
  }
};

static_assert(Law<whole_law<float>>);

/// The weight of element i as a function object that is always inlined: what draws and sums take.
template <Law L>
struct weights_of {
  L law;
  HUNCH_HOST_DEVICE HUNCH_INLINE typename L::real operator()(std::int64_t i) const {
    return law.weight(i);
  }
  /// The only one that is not 0, if that is seen; else -1.
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t only_kept() const requires requires(const L& l) {
    l.only_kept();
  }
  { return law.only_kept(); }
};

// Compilers before P1816, clang up to 16 among them, do not deduce this for an aggregate.
template <Law L>
weights_of(L) -> weights_of<L>;

/// A law that somebody has written out as probabilities, for engines that hand these over. They
/// are taken as they are; `norm` is 1 over their sum where that is not 1.
template <class Real = float>
struct probabilities {
  using real = Real;

  row_view<const Real> values;
  Real norm = Real(1);
  hunch::status status = hunch::status::ok;

  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t size() const { return values.size; }
  /// 0 for a negative number or a NaN: a draw over such a row must not leave the row.
  HUNCH_HOST_DEVICE HUNCH_INLINE Real weight(std::int64_t i) const {
    return weight_of(load(values.data + i));
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE static Real weight_of(Real w) { return w > Real(0) ? w : Real(0); }
  HUNCH_HOST_DEVICE HUNCH_INLINE Real prob(std::int64_t i) const {
    return kernel::product(values.data[i], norm);
  }
};

static_assert(Law<probabilities<float>>);

}  // namespace hunch
