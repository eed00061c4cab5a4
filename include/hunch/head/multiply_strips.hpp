// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/bits.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/core/opaque.hpp>
#include <hunch/head/detail/row_dots.hpp>
#include <hunch/head/detail/row_sweep.hpp>
#include <hunch/head/detail/rows_ahead.hpp>
#include <hunch/head/detail/tensor_strip.hpp>
#include <hunch/head/head_plan.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/head/range_gemv.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/team/worker.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

namespace detail {

/// The lists that want a strip, by their numbers in a plan.
class list_set {
 public:
  HUNCH_HOST_DEVICE explicit list_set(std::uint64_t lists) : left_(lists) {}

  HUNCH_HOST_DEVICE bool empty() const { return left_ == 0; }
  /// Number `n` of them, or -1.
  HUNCH_HOST_DEVICE std::int32_t at(std::int32_t n) const {
    std::uint64_t left = left_;
    for (std::int32_t i = 0; i < n; ++i) { left &= left - 1; }
    return lowest_of(left);
  }
  HUNCH_HOST_DEVICE void drop(std::int32_t n) {
    for (std::int32_t i = 0; i < n; ++i) { left_ &= left_ - 1; }
  }
  /// Which they are is not kept in registers: it is found again in the set after this.
  HUNCH_HOST_DEVICE void forget() { left_ = opaque(left_); }

 private:
  std::uint64_t left_;
};

}  // namespace detail

/// What `multiply_strips` wants to find, launched before it with `teams()` teams: [0, segments)
/// plan the head, and after them there is one for each list that splits its hidden state, if
/// workers have tensor cores. `shortlist_head` launches both, and has the arrays.
template <class Weight>
struct prepare_head {
  plan_head planning;
  std::int32_t width;     ///< of the head
  const float* hidden;    ///< [rows of the pass, stride]
  std::int32_t stride;    ///< >= width
  std::uint32_t* states;  ///< out: [planned_lists, detail::split_words(width)]; unused for float

  /// Teams that it wants.
  std::int32_t teams() const {
    return planning.plan.segments + (std::is_same_v<Weight, float> ? 0 : planning.lists());
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t list = index - planning.plan.segments;
    if (list < 0) { return planning(team, index); }
    if constexpr (!std::is_same_v<Weight, float>) { split(team, list); }
  }

 private:
  template <Team T>
  HUNCH_HOST_DEVICE void split(T& team, std::int32_t list) const {
    const std::int32_t row = planning.asked.row[planning.first + list];
    if (row < 0) { return; }
    const std::int64_t size = detail::split_words(width);
    const float* const from = hidden + static_cast<std::int64_t>(row) * stride;
    std::uint32_t* const to = states + list * size;
    team.for_each_worker(static_cast<std::int32_t>(size / detail::split_elements),
                         [=, *this](auto& worker, std::int32_t piece) {
                           if constexpr (std::remove_cvref_t<decltype(worker)>::has_tensor_cores) {
                             detail::split_piece<detail::factor<Weight>>(worker, from, width, piece,
                                                                         to);
                           }
                         });
  }
};

/// Team `index` of `teams` multiplies its share of the strips of a plan: the logits of the lists
/// [first, first + planned_lists) of `asked`. A logit depends on its row and its hidden state only,
/// bit for bit, not on the lists, the batch or the number of teams; but a worker with tensor cores
/// adds in another order than a thread, unless the weights are float. Launched with `teams` teams,
/// any number from 1 on, after a `prepare_head` of the same lists and hidden states.
/// \tparam Logit of the rows that are written; those of 16 bits are rounded.
template <class Weight, class Logit = float>
struct multiply_strips {
  head_rows<Logit> asked;  ///< its `logits` are written
  std::int32_t first;
  head_weights<Weight> head;
  const float* hidden;          ///< [rows of the pass, stride]
  std::int32_t stride;          ///< >= head.width
  const std::uint32_t* states;  ///< of `prepare_head`
  head_plan plan;
  std::int32_t teams;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int64_t all = plan.size();
    const auto begin = static_cast<std::int32_t>(all * index / teams);
    const auto end = static_cast<std::int32_t>(all * (index + 1) / teams);
    if constexpr (T::worker_type::lanes == 1) {
      const std::int32_t parts = team.size();
      team.for_each_worker(parts, [=, *this](auto&, std::int32_t part) {
        by_thread(begin + (end - begin) * part / parts, begin + (end - begin) * (part + 1) / parts);
      });
    } else {
      team.for_each_worker(end - begin, [this, begin](auto& worker, std::int32_t i) {
        const std::int32_t strip = plan.strip(begin + i);
        const detail::list_set lists(plan.wanted[strip]);
        const std::int32_t row = strip * strip_rows;
        if constexpr (std::is_same_v<Weight, float>) {
          by_lanes(worker, lists, row);
        } else {
          by_tensor_cores(worker, lists, row);
        }
      });
    }
  }

 private:
  HUNCH_HOST_DEVICE const float* hidden_of(std::int32_t list) const {
    return hidden + static_cast<std::int64_t>(asked.row[first + list]) * stride;
  }
  HUNCH_HOST_DEVICE void put(std::int32_t list, const strip_share& share, std::int32_t row,
                             std::int32_t i, float logit) const {
    if (!share.holds(i)) { return; }
    asked.logits[first + list].data[share.position(i)] =
        to_logit<Logit>(head.row_scale == nullptr ? logit : logit * head.row_scale[row + i]);
  }

  /// The strips [begin, end) of the plan, by a thread: one sweep over the rows, so that these are
  /// read in long ranges.
  HUNCH_HOST_DEVICE void by_thread(std::int32_t begin, std::int32_t end) const {
    detail::row_sweep sweep(asked, first, plan.row_of(begin, head.rows),
                            plan.row_of(end, head.rows));
    detail::ask_ahead(head, sweep, [&](auto& ahead) { by_thread(sweep, ahead); });
  }
  template <class Ahead>
  HUNCH_HOST_DEVICE void by_thread(detail::row_sweep& sweep, Ahead& ahead) const {
    row_range rows;
    while (sweep.next(rows)) {
      const float* states[planned_lists];
      Logit* out[planned_lists];
      std::int32_t count = 0;
      sweep.for_holders([&](std::int32_t list, std::int32_t position) {
        states[count] = hidden_of(list);
        out[count++] = asked.logits[first + list].data + position;
      });
      for (std::int32_t row = rows.begin; row < rows.end; row += gemv_rows) {
        const std::int32_t left = rows.end - row;
        const std::int32_t height = left < gemv_rows ? left : gemv_rows;
        // Some states at a time, with which a weight is widened once; the first ask for rows ahead.
        multiply_block(row, height, states, out, count, ahead);
        detail::no_rows_ahead nothing;
        for (std::int32_t i = states_together; i < count; i += states_together) {
          multiply_block(row, height, states + i, out + i, count - i, nothing);
        }
        for (std::int32_t i = 0; i < count; ++i) { out[i] += height; }
      }
    }
  }
  static constexpr std::int32_t states_together = 2;
  /// With the first of `count` states, up to `States` of them.
  template <std::int32_t States = states_together, class Ahead>
  HUNCH_HOST_DEVICE HUNCH_INLINE void multiply_block(std::int32_t row, std::int32_t height,
                                                     const float* const* states, Logit* const* out,
                                                     std::int32_t count, Ahead& ahead) const {
    if constexpr (States > 1) {
      if (count < States) {
        return multiply_block<States - 1>(row, height, states, out, count, ahead);
      }
    }
    const float* of[States];
    Logit* to[States];
    for (std::int32_t s = 0; s < States; ++s) {
      of[s] = states[s];
      to[s] = out[s];
    }
    detail::logits_of(head, row, height, of, ahead, to);
  }

  template <class Worker>
  HUNCH_HOST_DEVICE void by_lanes(Worker& worker, detail::list_set lists, std::int32_t row) const {
    const std::int32_t count = head.rows - row < strip_rows ? head.rows - row : strip_rows;
    for (; !lists.empty(); lists.drop(1)) {
      const std::int32_t list = lists.at(0);
      const strip_share share = share_of(worker, asked.lists[first + list], row);
      row_dots(worker, head, row, count, hidden_of(list),
               [&](std::int32_t i, float logit) { put(list, share, row, i, logit); });
    }
  }

  template <class Worker>
  HUNCH_HOST_DEVICE void by_tensor_cores(Worker& worker, detail::list_set lists,
                                         std::int32_t row) const {
    while (!lists.empty()) {
      if (lists.at(4) < 0) {
        states_by_tensor_cores<1>(worker, lists, row);
      } else {
        states_by_tensor_cores<3>(worker, lists, row);
      }
    }
  }

  /// What four of the lists hold of the strip, from number `n` on.
  template <class Worker>
  HUNCH_HOST_DEVICE void four_shares(Worker& worker, const detail::list_set& lists, std::int32_t n,
                                     std::int32_t row, strip_share (&shares)[4]) const {
    const row_range* ranges[4];
    std::int32_t counts[4];
    HUNCH_UNROLLED
    for (int j = 0; j < 4; ++j) {
      const std::int32_t list = lists.at(n + j);
      ranges[j] = list < 0 ? nullptr : asked.lists[first + list].ranges;
      counts[j] = list < 0 ? 0 : asked.lists[first + list].range_count;
    }
    shares_of(worker, ranges, counts, row, shares);
  }

  /// The first 4 * Tiles of the lists, which it drops. Which they are and what they hold of the
  /// strip is looked up before the weights are read and again after them: registers are what the
  /// loads need.
  template <int Tiles, class Worker>
  HUNCH_HOST_DEVICE void states_by_tensor_cores(Worker& worker, detail::list_set& lists,
                                                std::int32_t row) const {
    typename Worker::template per_lane<detail::lane_columns<Tiles>> columns;
    typename Worker::template per_lane<team::product_sums> sums[Tiles];
    const std::int64_t size = detail::split_words(head.width);
    std::uint32_t held = 0;
    HUNCH_ROLLED
    for (int n = 0; n < Tiles; ++n) {
      strip_share shares[4];
      four_shares(worker, lists, 4 * n, row, shares);
      held |= shares[0].rows | shares[1].rows | shares[2].rows | shares[3].rows;
    }
    if (held == 0) { return lists.drop(4 * Tiles); }  // an empty range, which a plan cannot see
    HUNCH_UNROLLED
    for (int n = 0; n < Tiles; ++n) {
      worker.each(
          [&](std::int32_t lane, detail::lane_columns<Tiles>& mine, team::product_sums& sum) {
            const std::int32_t list = lists.at(4 * n + lane / 8);
            mine.words[n] = states + (list < 0 ? lists.at(0) : list) * size +
                            detail::column_offset<Weight>(lane);
            sum = {};
          },
          columns, sums[n]);
    }
    std::int32_t some = 0;
    while ((held >> some & 1u) == 0) { ++some; }
    typename Worker::template per_lane<detail::lane_rows<Weight>> rows;
    worker.each(
        [&](std::int32_t lane, detail::lane_rows<Weight>& mine) {
          for (int i = 0; i < 2; ++i) {
            const std::int32_t g = lane / 4 + 8 * i;
            // Or the offset in the head would lie in registers beside it.
            mine.of[i] = opaque(head.row(row + ((held >> g & 1u) != 0 ? g : some)) +
                                lane % 4 * detail::row_piece<Weight>::elements);
          }
        },
        rows);
    const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(head.data) |
                                     static_cast<std::uintptr_t>(head.width) * sizeof(Weight);
    detail::add_strip<Weight, Tiles>(worker, rows, columns, head.width, addresses % 16 == 0, sums);
    lists.forget();
    HUNCH_UNROLLED
    for (int n = 0; n < Tiles; ++n) {
      strip_share shares[4];
      four_shares(worker, lists, 4 * n, row, shares);
      worker.each(
          [&](std::int32_t lane, const team::product_sums& sum) {
            const std::int32_t list = lists.at(4 * n + lane % 4);
            if (list < 0) { return; }
            strip_share mine = shares[0];
            HUNCH_UNROLLED
            for (int j = 1; j < 4; ++j) { mine = lane % 4 == j ? shares[j] : mine; }
            put(list, mine, row, lane / 4, sum.of[0] + sum.of[1]);
            put(list, mine, row, lane / 4 + 8, sum.of[2] + sum.of[3]);
          },
          sums[n]);
    }
    lists.drop(4 * Tiles);
  }
};

}  // namespace hunch::kernel
