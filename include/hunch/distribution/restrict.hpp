// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include <hunch/distribution/detail/cut.hpp>
#include <hunch/distribution/detail/top_k_of_ranks.hpp>
#include <hunch/distribution/detail/weight_frame.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Operations that make a law out of a row of logits and cut it: collective, no allocation, no
/// write to the row. Ties are decided by probability descending, then by id ascending. What cuts or
/// normalises takes a law without an error.

namespace hunch::kernel {

/// log2(e): the scale of a law at temperature 1.
template <class Real>
inline constexpr Real scale_at_one = Real(1.4426950408889634074);

/// The key of each element of a row.
template <class Logit>
struct keys_of {
  using keys = order<real_of<Logit>>;
  static constexpr int rows = 1;

  const Logit* row;

  HUNCH_HOST_DEVICE HUNCH_INLINE typename keys::key operator()(std::int64_t i) const {
    return keys::of(load(row + i));
  }
};

/// The ids of the elements that are equal to `value`, `none` for all others.
template <class Logit>
struct ids_equal_to {
  using real = real_of<Logit>;
  static constexpr std::int32_t none = order<float>::highest;
  static constexpr int rows = 1;

  const Logit* row;
  real value;

  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t operator()(std::int64_t i) const {
    return load(row + i) == value ? static_cast<std::int32_t>(i) : none;
  }
};

/// The law of `row` at temperature 1 without its norm, or a law that only carries an error: a NaN
/// or a +inf is `invalid_logits`, nothing but -inf is `nothing_left`. Reads the row once.
template <class Logit, Team T>
HUNCH_HOST_DEVICE law<Logit> whole_row(T& team, row_view<const Logit> row,
                                       status nothing_left = status::invalid_logits) {
  using keys = order<real_of<Logit>>;
  using key = typename keys::key;
  law<Logit> result;
  result.logits = row;
  const key top = team::reduce_row(team, row.size, keys::minus_infinity, keys_of<Logit>{row.data},
                                   [](key a, key b) { return a > b ? a : b; });
  if (top >= keys::plus_infinity || top <= keys::minus_infinity) {
    result.status = top >= keys::plus_infinity ? status::invalid_logits : nothing_left;
    return result;
  }
  result.maximum = keys::value(top);
  result.scale = scale_at_one<real_of<Logit>>;
  return result;
}

/// The weights of a row of logits at a scale, as `soft_sum` adds them.
template <class Logit>
struct row_terms {
  using real = real_of<Logit>;
  using element = real;
  using keys = order<real>;
  using key_type = typename keys::key;
  static constexpr key_type infinite = keys::plus_infinity;
  static constexpr key_type not_a_number = keys::highest;

  const Logit* elements;
  real scale;
  key_type lowest = keys::minus_infinity;

  HUNCH_HOST_DEVICE HUNCH_INLINE key_type key(real x) const { return keys::of(x); }
  HUNCH_HOST_DEVICE HUNCH_INLINE real value(key_type k) const { return keys::value(k); }
  HUNCH_HOST_DEVICE HUNCH_INLINE key_type magnitude(real x) const {
    return bit_cast<key_type>(x) & largest<key_type>;
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE weight_frame<real> frame(key_type top) const {
    return weight_frame<real>::of(keys::value(top), scale);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE real weight(real x, const weight_frame<real>& frame) const {
    return frame.weight(x, scale);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE double inverse(key_type top) const {
    return frame(top).inverse(keys::value(top), scale);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE double rescale(key_type from, key_type to) const {
    return weight_frame<real>::rescale(keys::value(from), keys::value(to), scale);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE quick_weights
  quick(const weight_frame<float>& frame) const requires std::same_as<real, float> {
    return {frame, scale};
  }
};

static_assert(team::SoftTerms<row_terms<float>>);

namespace detail {

template <class Logit, Team T, class Terms>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Logit> law_of_terms(T& team, row_view<const Logit> row,
                                                                 real_of<Logit> scale,
                                                                 status nothing_left,
                                                                 const Terms& terms) {
  using keys = order<real_of<Logit>>;
  const auto all = team.soft_sum(row.size, terms);
  law<Logit> result;
  result.logits = row;
  if (all.top >= keys::plus_infinity || all.top <= keys::minus_infinity) {
    result.status = all.top >= keys::plus_infinity ? status::invalid_logits : nothing_left;
    return result;
  }
  result.maximum = keys::value(all.top);
  result.scale = scale;
  // Not a quotient of both, for which a device needs more registers.
  const auto top_weight = static_cast<double>(terms.weight(result.maximum, terms.frame(all.top)));
  result.norm = static_cast<real_of<Logit>>(product(top_weight, 1.0 / all.sum));
  team::summed summed = result.remembered_as();
  summed.has_tops = true;
  team.remember(summed);
  return result;
}

}  // namespace detail

/// `whole_row` and `normalise` in one, for a law that nothing restricts. Reads the row once from
/// memory: the maximum of a tile and its sum, in a frame, are found together.
template <class Logit, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Logit> unrestricted(T& team, row_view<const Logit> row,
                                                                 real_of<Logit> scale,
                                                                 status nothing_left) {
  return detail::law_of_terms(team, row, scale, nothing_left, row_terms<Logit>{row.data, scale});
}

/// The same law, bit for bit, where the totals of the row's tiles at that scale are known: the row
/// is not read.
template <class Logit, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Logit> unrestricted(
    T& team, row_view<const Logit> row, real_of<Logit> scale, status nothing_left,
    const team::soft_total<typename order<real_of<Logit>>::key>* tiles) {
  const row_terms<Logit> terms{row.data, scale};
  return detail::law_of_terms(team, row, scale, nothing_left,
                              team::totalled_terms<row_terms<Logit>>{terms, tiles});
}

/// The lowest id among the elements equal to the maximum of `l`. Where the team remembers the
/// largest keys of the law's groups, it reads one of them, a tile for up to 524,288 elements.
template <class Logit, Team T>
HUNCH_HOST_DEVICE std::int32_t argmax(T& team, const law<Logit>& l) {
  std::int64_t begin = 0;
  std::int64_t end = l.size();
  const team::summed& last = team.last_sum();
  if (last.has_tops && last == l.remembered_as()) {
    const auto top = static_cast<std::int64_t>(order<real_of<Logit>>::of(l.maximum));
    const std::int64_t* const tops = team.scratch().tops;
    std::int32_t g = 0;
    while (tops[g] < top) { ++g; }
    const std::int64_t group = team::tiles_per_group(end) * team::tile_elements;
    begin = g * group;
    end = begin + group < end ? begin + group : end;
  }
  return team::reduce_range(team, {begin, end}, ids_equal_to<Logit>::none,
                            ids_equal_to<Logit>{l.logits.data, l.maximum},
                            [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
}

/// Restricts a law to its most probable element: temperature 0. Its norm is set.
template <class Logit, Team T>
HUNCH_HOST_DEVICE void keep_argmax(T& team, law<Logit>& l) {
  l.last_kept = argmax(team, l);
  l.threshold = l.maximum;
  l.norm = real_of<Logit>(1);
}

/// Cuts `l` at a value of which it has `ties` elements: everything above stays, and the first
/// `kept` >= 1 of these.
template <class Logit, Team T>
HUNCH_HOST_DEVICE void cut_at(T& team, law<Logit>& l, real_of<Logit> value, std::int32_t kept,
                              std::int32_t ties) {
  const law<Logit> before = l;
  l.threshold = value;
  l.last_kept = last_id;
  if (kept >= ties && before.threshold < value) { return; }
  // Ties are common in 16-bit logits: the row is read once, and then one tile of it.
  const auto is_tie = [=](std::int64_t i) {
    const auto x = before.logit(i);
    return before.keeps(x, i) && x == value ? real_of<Logit>(1) : real_of<Logit>(0);
  };
  team.sum(before.size(), is_tie);
  const team::shared_scratch& shared = team.scratch();
  auto left = static_cast<double>(kept);
  std::int32_t group = 0;
  while (left > shared.groups[group]) { left -= shared.groups[group++]; }
  const std::int32_t per_group = team::tiles_per_group(before.size());
  std::int32_t tile = group * per_group;
  while (per_group > 1) {
    const std::int32_t rest = (group + 1) * per_group - tile;
    const std::int32_t count = smaller(rest, team::lane_count);
    team.tiles(before.size(), tile, count, is_tie);
    std::int32_t k = 0;
    while (k < count && left > shared.lanes[k]) { left -= shared.lanes[k++]; }
    tile += k;
    if (k < count) { break; }
  }
  const std::int64_t begin = tile * team::tile_elements;
  l.last_kept = team::on_holder(team, begin, [&] {
    std::int64_t low = begin;
    std::int64_t high = smaller(begin + team::tile_elements, std::int64_t{before.size()}) - 1;
    auto wanted = static_cast<std::int32_t>(left);
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const std::int32_t held = team.reduce(
          middle + 1 - low, std::int32_t(0),
          [=](std::int64_t i) { return is_tie(low + i) > real_of<Logit>(0) ? 1 : 0; },
          [](std::int32_t a, std::int32_t b) { return a + b; });
      if (held >= wanted) {
        high = middle;
      } else {
        wanted -= held;
        low = middle + 1;
      }
    }
    return static_cast<std::int32_t>(low);
  });
}

/// Keeps the k most probable elements (all, if fewer are kept); k >= 1.
template <class Logit, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void keep_top_k(T& team, law<Logit>& l, std::int32_t k) {
  constexpr auto lowest = -largest<real_of<Logit>>;
  if constexpr (team::spans_ranks<T>) {
    if (k <= team::list_capacity) {
      const auto found = detail::top_k_of_ranks(team, l, k);
      if (found.total <= k) { return; }
      const auto& c = found.at;
      return cut_at(team, l, c.value, k - static_cast<std::int32_t>(c.above), c.ties);
    }
  }
  const double total = measure_at_least<element_count>(team, l, lowest);
  if (total <= static_cast<double>(k)) { return; }
  const cut<real_of<Logit>> c = find_cut<element_count>(team, l, static_cast<double>(k), total);
  if (c.ties == 0) { return; }
  cut_at(team, l, c.value, k - static_cast<std::int32_t>(c.above), c.ties);
}

/// Keeps the smallest set of most probable elements that holds at least the share p of the mass
/// that is kept so far; 0 < p < 1. (Holtzman et al. 2020, arXiv:1904.09751)
template <class Logit, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void keep_top_p(T& team, law<Logit>& l, real_of<Logit> p) {
  const double total = sum_of_weights(team, l);
  const double wanted = static_cast<double>(p) * total;
  const cut<real_of<Logit>> c = find_cut<element_weight>(team, l, wanted, total);
  if (c.ties == 0) { return; }
  const double each = element_weight::of(l, c.value);
  const auto ties = static_cast<double>(c.ties);
  double needed = each > 0.0 ? std::ceil((wanted - c.above) / each) : ties;
  needed = needed < 1.0 ? 1.0 : needed;
  needed = needed > ties ? ties : needed;
  cut_at(team, l, c.value, static_cast<std::int32_t>(needed), c.ties);
}

/// Keeps the elements whose weight is at least the share `least` of the largest; 0 < least <= 1.
/// (Nguyen et al. 2024, arXiv:2407.01082)
template <class Logit, Team T>
HUNCH_HOST_DEVICE void keep_min_p(T&, law<Logit>& l, real_of<Logit> least) {
  const double log2_least = log_of(static_cast<double>(least)) * 1.4426950408889634074;
  const auto cut =
      l.maximum + static_cast<real_of<Logit>>(log2_least / static_cast<double>(l.scale));
  if (cut > l.threshold) {
    l.threshold = cut;
    l.last_kept = last_id;
  }
}

/// Sums the kept weights and sets the norm. Reads the row once.
template <class Logit, Team T>
HUNCH_HOST_DEVICE void normalise(T& team, law<Logit>& l) {
  const law<Logit> before = l;
  l.norm = static_cast<real_of<Logit>>(1.0 / add_weights(team, before));
  team.remember(l.remembered_as());
}

}  // namespace hunch::kernel
