// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/distribution/detail/measure.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/processor.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

namespace detail {

/// Walks along weights until the target is used up. Entries without weight are never chosen, and
/// where rounding leaves the target beyond the end, the last entry with weight is.
struct prefix_walk {
  double target;
  std::int32_t chosen = -1;
  double weight = 0.0;  ///< of the chosen entry
  bool done = false;

  HUNCH_HOST_DEVICE void visit(std::int32_t i, double w) {
    if (done || !(w > 0.0)) { return; }
    if (chosen >= 0) { target -= weight; }
    chosen = i;
    weight = w;
    done = target < w;
  }

  /// The rest of the target as a fraction of the chosen entry, for the next level.
  HUNCH_HOST_DEVICE double fraction() const { return target < weight ? target / weight : 1.0; }
};

/// The same along weight(0), ..., weight(n - 1) at once: without branches, so that only the
/// differences wait for each other.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE prefix_walk walk_along(double target, std::int32_t n,
                                                      const Weight& weight) {
  prefix_walk out{target};
  for (std::int32_t i = 0; i < n; ++i) {
    const double given = weight(i);
    const double w = given > 0.0 ? given : 0.0;
    const bool takes = !out.done && w > 0.0;
    out.chosen = takes ? i : out.chosen;
    out.weight = takes ? w : out.weight;
    out.target = takes ? target : out.target;
    out.done = out.done || target < w;
    target -= w;
  }
  return out;
}

/// The total of the weights, with the group sums in the team's scratch.
template <Team T, class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE double sum_for_draw(T& team, std::int64_t n, const Weight& weight) {
  return team.sum(n, weight);
}

/// Those of a whole law that the team has forgotten are not the ones of `soft_sum`, bit for bit:
/// the bounds of a group differ by up to 1e-7 of the total. Added like them they would be the same,
/// but a device would read each tile twice, first for its frame, which is not the law's in many
/// tiles of a row that has a peak.
template <Team T, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE double sum_for_draw(T& team, std::int64_t,
                                                   const weights_of<law<Logit>>& weight) {
  return sum_of_weights(team, weight.law);
}

/// Chooses a tile of a group of several, beyond 524,288 elements: its index, `fraction` of the
/// group's weight into the group; `fraction` becomes that into the tile.
template <Team T, class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t tile_in_group(T& team, std::int64_t n,
                                                                    std::int32_t first_tile,
                                                                    double group_weight,
                                                                    const Weight& weight,
                                                                    double& fraction) {
  const team::shared_scratch& shared = team.scratch();
  const std::int32_t rest = team::tiles_of(n) - first_tile;
  const std::int32_t per_group = team::tiles_per_group(n);
  const std::int32_t tiles = rest < per_group ? rest : per_group;
  prefix_walk among{fraction * group_weight};
  for (std::int32_t first = 0; first < tiles; first += team::lane_count) {
    const std::int32_t left = tiles - first;
    const std::int32_t count = left < team::lane_count ? left : team::lane_count;
    with_sum_form(weight,
                  [&](const auto& terms) { team.tiles(n, first_tile + first, count, terms); });
    for (std::int32_t k = 0; k < count; ++k) { among.visit(first + k, shared.lanes[k]); }
  }
  fraction = among.fraction();
  return first_tile + among.chosen;
}

/// The weights in their most general form, by their member `general`: what is read once and little
/// of need not be compiled for every special form.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE decltype(auto) general_form(const Weight& weight) {
  if constexpr (requires { weight.general(); }) {
    return weight.general();
  } else {
    return (weight);
  }
}

/// The same by all ranks of a team, one of them for each entry: each takes the differences before
/// its own in order, as one thread would, and so comes to the same bits sooner.
template <Team T, class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE prefix_walk walk_together(T& team, double target,
                                                                   std::int32_t n,
                                                                   const Weight& weight) {
  const auto left_before = [=](std::int32_t i) {
    double left = target;
    for (std::int32_t j = 0; j < i; ++j) { left -= weight(j); }
    return left;
  };
  // The first entry that the target ends in; behind all of these the last one with weight.
  const std::int32_t found = team.reduce(
      n, 2 * n,
      [=](std::int64_t entry) {
        const auto i = static_cast<std::int32_t>(entry);
        const double w = weight(i);
        if (!(w > 0.0)) { return 2 * n; }
        return left_before(i) < w ? i : 2 * n - 1 - i;
      },
      [](std::int32_t x, std::int32_t y) { return x < y ? x : y; });
  if (found == 2 * n) { return {target}; }
  const bool ends = found < n;
  const std::int32_t chosen = ends ? found : 2 * n - 1 - found;
  return {left_before(chosen), chosen, weight(chosen), ends};
}

/// What a draw chooses in the tile [begin, end), `fraction` of its weight into it, where `lanes`
/// and `strands` are its sums; -1 if there is no weight where it looks.
/// \tparam Walk walk(target, n, weight) is `walk_along`.
template <class Walk, class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t walk_in_tile(const Walk& walk, const double* lanes,
                                                         const double* strands, std::int64_t begin,
                                                         std::int64_t end, double fraction,
                                                         const Weight& weight) {
  double in_tile = 0.0;
  for (std::int32_t s = 0; s < team::strand_count; ++s) { in_tile += strands[s]; }
  const prefix_walk strand =
      walk(fraction * in_tile, team::strand_count, [=](std::int32_t s) { return strands[s]; });
  if (strand.chosen < 0) { return -1; }
  const double* const of_strand = lanes + strand.chosen * team::lanes_of_strand;
  const prefix_walk lane = walk(strand.fraction() * strand.weight, team::lanes_of_strand,
                                [=](std::int32_t i) { return of_strand[i]; });
  const std::int64_t first = begin + strand.chosen * team::lanes_of_strand + lane.chosen;
  const auto count =
      static_cast<std::int32_t>((end - first + team::lane_count - 1) / team::lane_count);
  const prefix_walk element =
      walk(lane.fraction() * lane.weight, count, [&weight, first](std::int32_t i) {
        return static_cast<double>(weight(first + i * team::lane_count));
      });
  return element.chosen < 0 ? -1 : first + element.chosen * team::lane_count;
}

/// The draw from a row whose group sums are in the team's scratch; `total` > 0 is theirs.
template <Team T, class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t draw_from_groups(T& team, std::int64_t n,
                                                                       const Weight& of,
                                                                       double total,
                                                                       std::uint64_t word) {
  // A copy, which no function is given by reference: what it holds stays in registers.
  const auto weight = of;
  const team::shared_scratch& shared = team.scratch();
  const auto walk = [&](double target, std::int32_t count, const auto& at) {
    if constexpr (team::is_one_thread<T>) {
      return walk_along(target, count, at);
    } else {
      return walk_together(team, target, count, at);
    }
  };

  const prefix_walk group = walk(uniform(word) * total, team::groups_of(n),
                                 [groups = shared.groups](std::int32_t g) { return groups[g]; });

  const std::int32_t per_group = team::tiles_per_group(n);
  std::int32_t tile = group.chosen * per_group;
  double fraction = group.fraction();
  if (per_group > 1) { tile = tile_in_group(team, n, tile, group.weight, of, fraction); }

  const std::int64_t begin = tile * team::tile_elements;
  const std::int64_t end = begin + team::tile_elements < n ? begin + team::tile_elements : n;
  return team::on_holder(team, begin, [&]() HUNCH_INLINED {
    const auto weights = team.lanes(begin, end, weight);
    if constexpr (team::is_one_thread<T>) {
      return team::on_processor<team::up_to_avx2>(
          [=, lanes = shared.lanes, strands = shared.strands](const Weight& weight) HUNCH_INLINED {
            return walk_in_tile([](double target, std::int32_t count, const auto& at)
                                    HUNCH_INLINED { return walk_along(target, count, at); },
                                lanes, strands, begin, end, fraction, weight);
          },
          weights);
    } else {
      return walk_in_tile(walk, shared.lanes, shared.strands, begin, end, fraction, weights);
    }
  });
}

}  // namespace detail

namespace detail {

/// Whether weights read the row to say what `only_kept` is, by `static constexpr bool reads_kept =
/// true`: then who does not hold that element cannot.
template <class Weight>
inline constexpr bool reads_kept = requires {
  requires Weight::reads_kept;
};

}  // namespace detail

/// An index i in [0, n) with probability weight(i) / sum of weights, decided by one random word;
/// -1 if no weight is positive. Weights are finite and >= 0.
///
/// Collective. Reads every weight once for the canonical sums, unless the team remembers them, and
/// one tile once more; nothing where there is no choice, at temperature 0. Inside the tile the
/// lanes are summed in double: there the draw is exact to 53 bits.
template <Team T, class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t draw(T& team, std::int64_t n,
                                                           const Weight& weight,
                                                           std::uint64_t word) {
  if constexpr (requires { weight.only_kept(); } &&
                !(team::spans_ranks<T> && detail::reads_kept<Weight>)) {
    if (const std::int64_t only = weight.only_kept(); only >= 0) { return only; }
  }
  const double total = detail::sum_for_draw(team, n, weight);
  if (!(total > 0.0)) { return -1; }
  return detail::draw_from_groups(team, n, detail::general_form(weight), total, word);
}

}  // namespace hunch::kernel
