// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/types.hpp>
#include <hunch/distribution/detail/token_set.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/processor.hpp>
#include <hunch/team/tile_sums.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// What a draft law ranges over: every token in order, one range of a permuted head, parts of a
/// clustered one, either of these two, or any ranges.
enum class list_kind { everything, one_range, parts, range_or_parts, ranges };

/// The weight (a p(v) - b q(v))+ of every token v of the target's vocabulary: what a rejected draft
/// leaves of the target's law. q ranges over the positions of a shortlist and is 0 outside.
///
/// Taking q away several times is taking a multiple of it away once, for
/// ((p - b q)+ - c q)+ = (p - (b + c) q)+: the residual after any number of rejected siblings has
/// one more scalar, and nothing is written. This also holds where q loses the rejected tokens: a
/// token is rejected only where p < q, so that nothing is left of it, and taking more changes that
/// no more.
/// \tparam Over what q ranges over.
template <Law P, Law Q, list_kind Over>
struct residual {
  using real = typename P::real;
  /// Over ranges, the search for a position takes longer than any load.
  static constexpr int compiled_up_to =
      Over == list_kind::ranges ? team::up_to_avx2 : team::up_to_avx512;
  static constexpr bool reads_kept = true;
  /// With the tables by which a position is found.
  static constexpr int rows = Over == list_kind::range_or_parts ? 4 : 2;

  P p;
  Q q;
  shortlist list;
  real a = real(1);
  real b = real(1);
  std::int32_t first = 0;  ///< row of the only range

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t v) const { return terms(v).first; }

  /// The only token of which something is left, if p is seen to be a point mass of which something
  /// is; else -1. Not on a device: there the pass costs little, and a branch in every rule
  /// registers.
  HUNCH_HOST_DEVICE std::int32_t only_kept() const requires requires(const P& l) { l.only_kept(); }
  {
#if defined(__CUDA_ARCH__)
    return -1;
#else
    const std::int32_t only = p.only_kept();
    return only >= 0 && (*this)(only) > real(0) ? only : -1;
#endif
  }

  /// The same values from laws that may be restricted, for what reads little of them.
  HUNCH_HOST_DEVICE HUNCH_INLINE auto general() const requires requires {
    typename P::general;
    typename Q::general;
  }
  {
    return residual<typename P::general, typename Q::general, Over>{
        .p = p, .q = q, .list = list, .a = a, .b = b, .first = first};
  }

  /// The same for a token whose weight in p is known, and its position; -1: it has none.
  HUNCH_HOST_DEVICE real of(real in_p, std::int64_t at) const {
    return at < 0 ? rest_of(in_p, real(0), real(0))
                  : rest_of(in_p, q.weight(at), product(b, q.norm));
  }

  /// The residual of v, and q's weight.
  HUNCH_HOST_DEVICE HUNCH_INLINE team::two_terms<real> terms(std::int64_t v) const {
    const real taken = product(b, q.norm);  // ahead: a product within a choice is a branch
    if constexpr (Over == list_kind::everything) {
      // An index as wide as v: a narrower one would make the loads of a loop a gather.
      const real drafted = q.weight(v);
      return {rest_of(p.weight(v), drafted, taken), drafted};
    } else {
      const real w = p.weight(v);
      std::int32_t at = 0;
      bool inside = false;
      if constexpr (Over == list_kind::one_range) {
        at = list.token_row[v] - first;
        inside = (at >= 0) & (at < list.size);
      } else if constexpr (Over == list_kind::parts) {
        at = list.token_row[v] + list.shift[list.token_part[v]];
        inside = at >= 0;
      } else if constexpr (Over == list_kind::range_or_parts) {
        std::int32_t shift = -first;
        if (list.shift != nullptr) { shift = list.shift[list.token_part[v]]; }
        at = list.token_row[v] + shift;
        inside = (at >= 0) & (at < list.size);
      } else {
        at = list.position_of(static_cast<token>(v));
        inside = at >= 0;
      }
      // An index made by a mask: a choice between two loads would keep the loop from vectorising.
      const std::int32_t loaded = at & -static_cast<std::int32_t>(inside);
      const real drafted = q.weight(loaded);
      return {rest_of(w, drafted, inside ? taken : real(0)), inside ? drafted : real(0)};
    }
  }

  /// The draft's row was read a while ago, the target's just now.
  HUNCH_HOST_DEVICE HUNCH_INLINE void prefetch_after(std::int64_t v) const
      requires(Over == list_kind::everything && team::Prefetched<Q>) {
    q.prefetch_after(v);
  }

 private:
  HUNCH_HOST_DEVICE HUNCH_INLINE real rest_of(real w, real drafted, real taken) const {
    const real left = product(w, product(a, p.norm)) - product(drafted, taken);
    return left > real(0) ? left : real(0);
  }
};

/// A residual, and the weight of q itself where q has not lost it: what a rejected sibling leaves
/// of both laws, in one pass over them. A `team::Patched` function.
template <class Residual>
struct residual_and_remainder {
  using terms = team::two_terms<typename Residual::real>;
  static constexpr int compiled_up_to = Residual::compiled_up_to;
  static constexpr int rows = Residual::rows;

  Residual residual;
  token_set removed;

  HUNCH_HOST_DEVICE HUNCH_INLINE terms operator()(std::int64_t v) const {
    terms both = residual.terms(v);
    if (removed.contains(v)) { both.second = 0; }
    return both;
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE terms plain(std::int64_t v) const { return residual.terms(v); }
  HUNCH_HOST_DEVICE HUNCH_INLINE void prefetch_after(
      std::int64_t v) const requires team::Prefetched<Residual> {
    residual.prefetch_after(v);
  }
  HUNCH_HOST_DEVICE bool is_plain(std::int64_t begin, std::int64_t end) const {
    return !removed.any_in(begin, end);
  }
  HUNCH_HOST_DEVICE void patch(std::int64_t begin, std::int64_t end, terms* to) const {
    removed.for_each_in(begin, end, [&](std::int64_t v) { to[v - begin].second = 0; });
  }
};

// For compilers that do not deduce this for an aggregate; see `weights_of`.
template <class Residual>
residual_and_remainder(Residual, token_set) -> residual_and_remainder<Residual>;

namespace detail {

/// Whether the position of a token is found by a search through the ranges.
template <bool OneRange>
HUNCH_HOST_DEVICE inline bool is_searched(const shortlist& list, std::int32_t tokens) {
  if (list.is_everything(tokens)) { return false; }
  return list.token_row == nullptr ||
         (list.range_count != 1 && (OneRange || list.shift == nullptr));
}

/// \tparam Searched whether the list may be searched; else its forms are the others.
template <bool OneRange, bool Searched, Law P, Law Q, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE auto with_fitting_residual(const P& p, const Q& q,
                                                                    const shortlist& list,
                                                                    typename P::real a,
                                                                    typename P::real b, Use&& use) {
  if (list.is_everything(p.size())) {
    return use(residual<P, Q, list_kind::everything>{.p = p, .q = q, .list = list, .a = a, .b = b});
  }
#if defined(__CUDA_ARCH__)
  // One form for both: they differ in loads that wait for nothing, and each form of a rule's sums
  // is registers and code.
  if constexpr (!OneRange) {
    if (list.token_row != nullptr && (list.range_count == 1 || list.shift != nullptr)) {
      return use(residual<P, Q, list_kind::range_or_parts>{
          .p = p, .q = q, .list = list, .a = a, .b = b, .first = list.ranges[0].begin});
    }
    return use(residual<P, Q, list_kind::ranges>{.p = p, .q = q, .list = list, .a = a, .b = b});
  }
#endif
  if ((OneRange && !Searched) || (list.range_count == 1 && list.token_row != nullptr)) {
    return use(residual<P, Q, list_kind::one_range>{
        .p = p, .q = q, .list = list, .a = a, .b = b, .first = list.ranges[0].begin});
  }
  if constexpr (!OneRange) {
    if (!Searched || (list.shift != nullptr && list.token_row != nullptr)) {
      return use(residual<P, Q, list_kind::parts>{.p = p, .q = q, .list = list, .a = a, .b = b});
    }
  }
  if constexpr (Searched) {
    return use(residual<P, Q, list_kind::ranges>{.p = p, .q = q, .list = list, .a = a, .b = b});
  } else {
    return use(residual<P, Q, list_kind::one_range>{
        .p = p, .q = q, .list = list, .a = a, .b = b, .first = list.ranges[0].begin});
  }
}

}  // namespace detail

/// Calls use(residual) with the form that fits the laws and the shortlist. Each form is compiled.
/// \tparam OneRange no shortlist has more than one range.
template <bool OneRange = false, Law P, Law Q, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE auto with_residual(const P& p, const Q& q,
                                                            const shortlist& list,
                                                            typename P::real a, typename P::real b,
                                                            Use&& use) {
  return detail::with_fitting_residual<OneRange, true>(p, q, list, a, b, use);
}
template <bool OneRange = false, class Logit, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE auto with_residual(const law<Logit>& p,
                                                            const law<Logit>& q,
                                                            const shortlist& list, real_of<Logit> a,
                                                            real_of<Logit> b, Use&& use) {
  // On a device, which waits for memory, the test of what is kept costs nothing but compile time;
  // a search takes longer than that test; and a build that is not optimised is made to be made
  // soon.
#if !defined(__CUDA_ARCH__) && defined(__OPTIMIZE__)
  if (whole_law<Logit>::fits(p) && whole_law<Logit>::fits(q) &&
      !detail::is_searched<OneRange>(list, p.size())) {
    return detail::with_fitting_residual<OneRange, false>(whole_law<Logit>{p}, whole_law<Logit>{q},
                                                          list, a, b, use);
  }
#endif
  return detail::with_fitting_residual<OneRange, true>(p, q, list, a, b, use);
}

}  // namespace hunch::kernel
