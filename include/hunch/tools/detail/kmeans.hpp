// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/head/detail/row_dots.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The bodies of spherical k-means over the rows of a head: every row stands for its direction.

namespace hunch::kernel {

/// Rows that one team works on.
inline constexpr std::int32_t kmeans_rows = 256;

/// The directions of a head's rows.
template <class Weight>
struct directions {
  head_weights<Weight> head;
  float* inverse_norm;  ///< [rows] 0 for a row without a direction

  HUNCH_HOST_DEVICE float at(std::int32_t row, std::int64_t k) const {
    return product(to_float(head.row(row)[k]), inverse_norm[row]);
  }
};

/// The centres, unit vectors. Lanes that each work on a centre read neighbours of the second array.
struct centres {
  float* by_centre;  ///< [count, width]
  float* by_width;   ///< [width, count]
  std::int32_t count;
  std::int32_t width;

  HUNCH_HOST_DEVICE const float* of(std::int32_t c) const {
    return by_centre + static_cast<std::int64_t>(c) * width;
  }
  HUNCH_HOST_DEVICE void put(std::int32_t c, std::int64_t k, float x) const {
    by_centre[static_cast<std::int64_t>(c) * width + k] = x;
    by_width[k * count + c] = x;
  }
};

/// Where every row belongs.
struct membership {
  std::int32_t* cluster;  ///< [rows]
  float* cosine;          ///< [rows] of the angle to its centre
};

/// Calls use(worker, first, count) for groups of at most eight of the rows of team `index`.
template <class T, class Use>
HUNCH_HOST_DEVICE void for_row_groups(T& team, std::int32_t rows, std::int32_t index,
                                      const Use& use) {
  const std::int32_t begin = index * kmeans_rows;
  const std::int32_t left = rows - begin;
  const std::int32_t count = left < kmeans_rows ? left : kmeans_rows;
  team.for_each_worker((count + gemv_rows - 1) / gemv_rows, [=](auto& worker, std::int32_t g) {
    const std::int32_t from = g * gemv_rows;
    use(worker, begin + from, count - from < gemv_rows ? count - from : gemv_rows);
  });
}

/// The lengths of the rows, and the gaps before there is a centre.
template <class Weight>
struct measure_directions {
  directions<Weight> of;
  float* gap;  ///< [rows] out: 1

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t begin = index * kmeans_rows;
    const std::int32_t left = of.head.rows - begin;
    team.for_each(left < kmeans_rows ? left : kmeans_rows, [=, *this](std::int64_t r) {
      const auto row = begin + static_cast<std::int32_t>(r);
      const Weight* const w = of.head.row(row);
      double sum = 0.0;
      for (std::int32_t k = 0; k < of.head.width; ++k) {
        const auto x = static_cast<double>(to_float(w[k]));
        sum = std::fma(x, x, sum);
      }
      of.inverse_norm[row] = sum > 0.0 ? static_cast<float>(1.0 / std::sqrt(sum)) : 0.0f;
      gap[row] = 1.0f;
    });
  }
};

/// Draws centre `index_of` among the rows, each with a probability in proportion to its gap to the
/// nearest centre so far: k-means++ on the sphere, where the squared distance of two directions is
/// twice one minus their cosine. A single team.
template <class Weight>
struct draw_centre {
  directions<Weight> of;
  centres to;
  const float* gap;
  std::int32_t which;
  std::uint64_t seed;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    const float* const weights = gap;
    const address where{.seed = seed, .length = static_cast<std::uint32_t>(which)};
    const auto drawn = static_cast<std::int32_t>(random_source<>{}.categorical(
        team, where, of.head.rows, [=](std::int64_t r) { return weights[r]; }));
    // Without any gap left there are more clusters than directions.
    const std::int32_t row = drawn < 0 ? which % of.head.rows : drawn;
    team.for_each(to.width, [=, *this](std::int64_t k) { to.put(which, k, of.at(row, k)); });
  }
};

/// The gaps with one more centre.
template <class Weight>
struct narrow_gaps {
  directions<Weight> of;
  const float* centre;
  float* gap;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    for_row_groups(
        team, of.head.rows, index, [*this](auto& worker, std::int32_t first, std::int32_t count) {
          row_dots(worker, of.head, first, count, centre, [&](std::int32_t i, float dot) {
            const std::int32_t row = first + i;
            const float mine = 1.0f - dot * of.inverse_norm[row];
            const float less = mine < gap[row] ? mine : gap[row];
            gap[row] = less > 0.0f ? less : 0.0f;
          });
        });
  }
};

/// The nearest centre of every row among those that are open, the lowest number first on ties.
template <class Weight>
struct assign_rows {
  directions<Weight> of;
  centres to;
  membership out;
  const std::uint8_t* open;  ///< [clusters], at least one
  std::int32_t* moved;       ///< [teams] out: rows whose cluster is another than before

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t begin = index * kmeans_rows;
    const std::int32_t left = of.head.rows - begin;
    const std::int32_t count = left < kmeans_rows ? left : kmeans_rows;
    std::int32_t* const cluster = out.cluster + begin;
    // What was there before stays in the list, apart from what is written over it.
    team.fill(count, [=](std::int64_t r) { return cluster[r]; });
    for_row_groups(team, of.head.rows, index,
                   [*this](auto& worker, std::int32_t first, std::int32_t rows) {
                     this->nearest(worker, first, rows);
                   });
    const std::int64_t* const before = team.scratch().list;
    const std::int32_t changed = team.reduce(
        count, std::int32_t(0), [=](std::int64_t r) { return before[r] != cluster[r] ? 1 : 0; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    if (team.rank() == 0) { moved[index] = changed; }
  }

 private:
  HUNCH_HOST_DEVICE void put(std::int32_t row, std::int32_t c, float dot) const {
    out.cluster[row] = c;
    out.cosine[row] = dot * of.inverse_norm[row];
  }
  /// Where rows go that are near to nothing, such as those that are not numbers.
  HUNCH_HOST_DEVICE std::int32_t first_open() const {
    std::int32_t c = 0;
    while (open[c] == 0) { ++c; }
    return c;
  }

  template <class Worker>
  HUNCH_HOST_DEVICE void nearest(Worker& worker, std::int32_t first, std::int32_t rows) const {
    if constexpr (Worker::lanes == 1) {
      float best[gemv_rows];
      std::int32_t at[gemv_rows];
      const std::int32_t start = first_open();
      for (std::int32_t r = 0; r < gemv_rows; ++r) {
        best[r] = -largest<float>;
        at[r] = start;
      }
      for (std::int32_t c = 0; c < to.count; ++c) {
        if (open[c] == 0) { continue; }
        row_dots(worker, of.head, first, rows, to.of(c), [&](std::int32_t r, float dot) {
          const bool nearer = dot > best[r];
          best[r] = nearer ? dot : best[r];
          at[r] = nearer ? c : at[r];
        });
      }
      for (std::int32_t r = 0; r < rows; ++r) { put(first + r, at[r], best[r]); }
    } else {
      by_lanes(worker, first, rows);
    }
  }

  /// A centre for each lane: a row's element is read once for all of them.
  template <class Worker>
  HUNCH_HOST_DEVICE void by_lanes(Worker& worker, std::int32_t first, std::int32_t rows) const {
    struct found {
      float best[gemv_rows];
      std::int32_t at[gemv_rows];
    };
    const std::int32_t start = first_open();
    typename Worker::template per_lane<found> nearest_of;
    worker.each(
        [&](std::int32_t lane, found& mine) {
          HUNCH_UNROLLED
          for (std::int32_t r = 0; r < gemv_rows; ++r) {
            mine.best[r] = -largest<float>;
            mine.at[r] = start;
          }
          for (std::int32_t c = lane; c < to.count; c += Worker::lanes) {
            if (open[c] == 0) { continue; }
            float dot[gemv_rows] = {};
            for (std::int32_t k = 0; k < to.width; ++k) {
              const float x = to.by_width[static_cast<std::int64_t>(k) * to.count + c];
              HUNCH_UNROLLED
              for (std::int32_t r = 0; r < gemv_rows; ++r) {
                // The last rows of a head are read more than once, and not written.
                const std::int32_t row = first + (r < rows ? r : 0);
                dot[r] = std::fma(to_float(of.head.row(row)[k]), x, dot[r]);
              }
            }
            HUNCH_UNROLLED
            for (std::int32_t r = 0; r < gemv_rows; ++r) {
              const bool nearer = dot[r] > mine.best[r];
              mine.best[r] = nearer ? dot[r] : mine.best[r];
              mine.at[r] = nearer ? c : mine.at[r];
            }
          }
        },
        nearest_of);
    HUNCH_UNROLLED
    for (std::int32_t r = 0; r < gemv_rows; ++r) {
      // In the order of the dots, then of the lower number.
      typename Worker::template per_lane<std::uint64_t> key;
      worker.each(
          [&](std::int32_t, const found& mine, std::uint64_t& out_key) {
            const auto bits = bit_cast<std::uint32_t>(mine.best[r]);
            const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
            out_key = static_cast<std::uint64_t>(ordered) << 32 |
                      (0xffffffffu - static_cast<std::uint32_t>(mine.at[r]));
          },
          nearest_of, key);
      const std::uint64_t most = worker.largest(key);
      worker.each(
          [&](std::int32_t, const found& mine, const std::uint64_t& of_lane) {
            if (of_lane == most && r < rows) {  // equal ones write the same
              put(first + r, mine.at[r], mine.best[r]);
            }
          },
          nearest_of, key);
    }
  }
};

/// Centre `index` in the middle of its members; that of an empty cluster stays.
template <class Weight>
struct move_centre {
  directions<Weight> of;
  centres to;
  const std::int32_t* members;  ///< [rows] sorted by cluster, then by row
  const std::int32_t* begin;    ///< [clusters + 1]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t* const mine = members + begin[index];
    const std::int32_t count = begin[index + 1] - begin[index];
    if (count == 0) { return; }
    float* const centre = to.by_centre + static_cast<std::int64_t>(index) * to.width;
    team.for_each(to.width, [=, *this](std::int64_t k) {
      float sum = 0.0f;
      for (std::int32_t m = 0; m < count; ++m) { sum += of.at(mine[m], k); }
      centre[k] = sum;
    });
    const double squares = team.sum(to.width, [=](std::int64_t k) {
      return product(static_cast<double>(centre[k]), static_cast<double>(centre[k]));
    });
    const float factor = squares > 0.0 ? static_cast<float>(1.0 / std::sqrt(squares)) : 0.0f;
    team.for_each(to.width, [=, *this](std::int64_t k) { to.put(index, k, centre[k] * factor); });
  }
};

}  // namespace hunch::kernel
