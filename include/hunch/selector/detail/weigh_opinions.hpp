// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// The rows of a cluster in a shortlist.
struct opinion_part {
  std::int32_t cluster = 0;
  std::int32_t begin = 0;  ///< position of the first
  std::int32_t end = 0;
  double drafted = 0.0;  ///< mass by the drafter
  double shift = 0.0;    ///< of its logits
};

/// Moves the logits of row `i`, cluster by cluster, so that of their mass the share `weight` is
/// divided as a router would, rounded to the type of the logits: see `selector::second_opinion`.
/// One team per row.
template <class Real>
struct weigh_opinions {
  head_rows<Real> rows;
  double weight;
  const std::int32_t* begin;  ///< [clusters + 1] first rows
  std::int32_t clusters;
  const float* scores;  ///< [rows, clusters] of the router
  opinion_part* parts;  ///< [rows, max_parts] workspace
  std::int32_t max_parts;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    if (rows.row[i] < 0) { return; }
    const row_view<Real> logits = rows.logits[i];
    opinion_part* const of_row = parts + static_cast<std::int64_t>(i) * max_parts;
    std::int32_t count = 0;
    if (team.rank() == 0) { count = find_parts(rows.lists[i], of_row); }
    count = team.broadcast(count, 0);
    team.sync();  // the parts are there for all ranks
    using real = real_of<Real>;
    const real top = team.reduce(
        logits.size, -infinity<real>, [=](std::int64_t k) { return to_real(logits[k]); },
        [](real a, real b) { return a < b ? b : a; });
    for (std::int32_t p = 0; p < count; ++p) {
      const std::int32_t first = of_row[p].begin;
      const double drafted = team.sum(of_row[p].end - first, [=](std::int64_t k) {
        return exp_of(to_real(logits[first + k]) - top);
      });
      if (team.rank() == 0) { of_row[p].drafted = drafted; }
    }
    team.sync();
    if (team.rank() == 0) {
      set_shifts(scores + static_cast<std::int64_t>(i) * clusters, of_row, count);
    }
    team.sync();
    for (std::int32_t p = 0; p < count; ++p) {
      const opinion_part part = of_row[p];
      if (!(part.drafted > 0.0)) { continue; }
      const auto shift = static_cast<real>(part.shift);
      team.for_each(part.end - part.begin, [=](std::int64_t k) {
        Real& x = logits.data[part.begin + k];
        x = to_logit<Real>(to_real(x) + shift);
      });
    }
  }

 private:
  template <class X>
  HUNCH_HOST_DEVICE static X exp_of(X x) {
    return exp2_product(x, static_cast<X>(1.4426950408889634074));
  }

  /// Notes where the clusters of a list lie; returns how many there are.
  HUNCH_HOST_DEVICE std::int32_t find_parts(const shortlist& list, opinion_part* to) const {
    std::int32_t count = 0;
    std::int32_t before = 0;
    std::int32_t c = 0;
    for (std::int32_t r = 0; r < list.range_count; ++r) {
      const row_range range = list.ranges[r];
      for (; c < clusters && begin[c] < range.end; ++c) {
        if (begin[c] < range.begin) { continue; }
        const std::int32_t first = before + begin[c] - range.begin;
        to[count++] = {c, first, first + begin[c + 1] - begin[c], 0.0, 0.0};
      }
      before += range.end - range.begin;
    }
    return count;
  }

  /// A cluster that the drafter rules out stays so, and its share goes to the others.
  HUNCH_HOST_DEVICE void set_shifts(const float* of, opinion_part* to, std::int32_t count) const {
    float best = -infinity<float>;
    for (std::int32_t p = 0; p < count; ++p) { best = larger(best, of[to[p].cluster]); }
    double drafted = 0.0;
    double routed = 0.0;
    for (std::int32_t p = 0; p < count; ++p) {
      drafted += to[p].drafted;
      routed += share_of(of, to[p], best);
    }
    for (std::int32_t p = 0; p < count; ++p) {
      if (!(to[p].drafted > 0.0) || !(routed > 0.0)) { continue; }
      const double wanted = drafted * share_of(of, to[p], best) / routed;
      to[p].shift = log_of((1.0 - weight) + weight * wanted / to[p].drafted);
    }
  }

  HUNCH_HOST_DEVICE static double share_of(const float* of, const opinion_part& part, float best) {
    const float below = of[part.cluster] - best;
    return part.drafted > 0.0 && below <= 0.0f ? static_cast<double>(exp_of(below)) : 0.0;
  }
};

}  // namespace hunch::kernel
