// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bits.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/core/opaque.hpp>
#include <hunch/head/detail/integer_states.hpp>
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

/// What `multiply_strips` wants to find, launched before it with `teams()` teams: the first plan
/// the head, and after them there is one for each column of hidden states that are split, if
/// workers have tensor cores, or made integers, if they are threads and weights are bytes.
/// `shortlist_head` launches both, and has the arrays.
template <class Weight>
struct prepare_head {
  plan_head planning;
  std::int32_t width;            ///< of the head
  const float* hidden;           ///< [rows of the pass, stride]
  std::int32_t stride;           ///< >= width
  detail::state_factors states;  ///< out: detail::split_words(width) for each column

  /// Teams that it wants.
  std::int32_t teams() const { return planning.teams + states.columns; }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t column = index - planning.teams;
    if (column < 0) { return planning(team, index); }
    if constexpr (!std::is_same_v<Weight, float>) { split(team, column); }
  }

 private:
  template <Team T>
  HUNCH_HOST_DEVICE void split(T& team, std::int32_t column) const {
    const float* of[2];
    for (std::int32_t i = 0; i < 2; ++i) {
      const std::int32_t list = 2 * column + i;
      const std::int32_t row =
          list < planning.plan.lists ? planning.asked.row[planning.first + list] : -1;
      of[i] = row < 0 ? nullptr : hidden + static_cast<std::int64_t>(row) * stride;
    }
    const float* const first = of[0];
    const float* const second = of[1];
    if constexpr (T::worker_type::lanes == 1) {
      if constexpr (std::is_same_v<Weight, std::int8_t>) {
        team.for_each_worker(2, [=, *this](auto&, std::int32_t i) {
          const float* const x = i == 0 ? first : second;
          if (x == nullptr) { return; }
          detail::put_integers(x, width, detail::integer_words(states, width, 2 * column + i));
        });
      }
      return;
    }
    team.for_each_worker(
        static_cast<std::int32_t>(detail::split_words(width) / detail::product_elements),
        [=, *this](auto& worker, std::int32_t product) {
          if constexpr (std::remove_cvref_t<decltype(worker)>::has_tensor_cores) {
            detail::split_product<Weight>(worker, {first, second}, width, product, states, column);
          }
        });
  }
};

/// The product of a plan, [first, first + plan.lists) of `asked`.
template <class Weight, class Logit = float>
struct head_product {
  head_rows<Logit> asked;  ///< its `logits` are written
  std::int32_t first;
  head_weights<Weight> head;
  const float* hidden;           ///< [rows of the pass, stride]
  std::int32_t stride;           ///< >= head.width
  detail::state_factors states;  ///< of `prepare_head`
  head_plan plan;
  std::int32_t teams;
  std::int32_t most;  ///< strips_of(head.rows) / teams + 1: as many as a team has, or more

  /// The share of team `index`; see `multiply_strips`.
  template <int Tiles, Team T>
  HUNCH_HOST_DEVICE void multiply(T& team, std::int32_t index) const {
    if constexpr (T::worker_type::lanes == 1) {
      by_threads(team, index);
    } else if constexpr (std::is_same_v<Weight, float>) {
      const std::int32_t all = plan.size(team);
      const std::int32_t begin = share(all, index);
      team.for_each_worker(share(all, index + 1) - begin,
                           [this, begin](auto& worker, std::int32_t i) {
                             by_lanes(worker, plan.strip(worker, begin + i));
                           });
    } else {
      // Two strips with the most states; one where bytes are made factors or logits are rounded,
      // for which there would be no registers.
      constexpr bool two = Tiles == 4 && sizeof(Weight) == 2 && sizeof(Logit) == 4;
      by_tensor_cores<Tiles, two ? 2 : 1>(team, index);
    }
  }

 private:
  /// Where the share of a team begins.
  HUNCH_HOST_DEVICE std::int32_t share(std::int32_t all, std::int32_t index) const {
    const std::int32_t more = all % teams;  // as many teams have one more than the others
    return all / teams * index + (index < more ? index : more);
  }
  HUNCH_HOST_DEVICE const float* hidden_of(std::int32_t list) const {
    return hidden + static_cast<std::int64_t>(asked.row[first + list]) * stride;
  }
  /// What a thread multiplies rows with.
  static constexpr bool by_integers = std::is_same_v<Weight, std::int8_t>;
  using thread_state = std::conditional_t<by_integers, detail::integer_state, const float*>;
  HUNCH_HOST_DEVICE thread_state state_of(std::int32_t list) const {
    if constexpr (by_integers) {
      return detail::integers_at(detail::integer_words(states, head.width, list), head.width);
    } else {
      return hidden_of(list);
    }
  }
  HUNCH_HOST_DEVICE void put(std::int32_t list, const strip_share& share, std::int32_t row,
                             std::int32_t i, float logit) const {
    if (!share.holds(i)) { return; }
    // Opaque: or compilers would scale and round all logits of a lane before the first is written.
    logit = bit_cast<float>(opaque(bit_cast<std::int32_t>(logit)));
    if (head.row_scale != nullptr) { logit *= head.row_scale[row + i]; }
    asked.logits[first + list].data[share.position(i)] = to_logit<Logit>(logit);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void by_threads(T& team, std::int32_t index) const {
    const std::int32_t all = plan.size(team);
    const std::int32_t begin = share(all, index);
    const std::int32_t end = share(all, index + 1);
    const std::int32_t parts = team.size();
    team.for_each_worker(parts, [=, *this](auto&, std::int32_t part) {
      by_thread(begin + (end - begin) * part / parts, begin + (end - begin) * (part + 1) / parts);
    });
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
      thread_state states_held[planned_lists];
      Logit* out[planned_lists];
      std::int32_t count = 0;
      sweep.for_holders([&](std::int32_t list, std::int32_t position) {
        states_held[count] = state_of(list);
        out[count++] = asked.logits[first + list].data + position;
      });
      for (std::int32_t row = rows.begin; row < rows.end; row += gemv_rows) {
        const std::int32_t left = rows.end - row;
        const std::int32_t height = left < gemv_rows ? left : gemv_rows;
        // Some states at a time, with which a weight is widened once; the first ask for rows ahead.
        multiply_block(row, height, states_held, out, count, ahead);
        detail::no_rows_ahead nothing;
        for (std::int32_t i = states_together; i < count; i += states_together) {
          multiply_block(row, height, states_held + i, out + i, count - i, nothing);
        }
        for (std::int32_t i = 0; i < count; ++i) { out[i] += height; }
      }
    }
  }
  static constexpr std::int32_t states_together = 2;
  /// With the first of `count` states, up to `States` of them.
  template <std::int32_t States = states_together, class Ahead>
  HUNCH_HOST_DEVICE HUNCH_INLINE void multiply_block(std::int32_t row, std::int32_t height,
                                                     const thread_state* held, Logit* const* out,
                                                     std::int32_t count, Ahead& ahead) const {
    if constexpr (States > 1) {
      if (count < States) {
        return multiply_block<States - 1>(row, height, held, out, count, ahead);
      }
    }
    thread_state of[States];
    Logit* to[States];
    for (std::int32_t s = 0; s < States; ++s) {
      of[s] = held[s];
      to[s] = out[s];
    }
    detail::logits_of(head, row, height, of, ahead, to);
  }

  template <class Worker>
  HUNCH_HOST_DEVICE void by_lanes(Worker& worker, std::int32_t strip) const {
    const std::int32_t row = strip * strip_rows;
    const std::int32_t count = head.rows - row < strip_rows ? head.rows - row : strip_rows;
    for (std::int32_t list = 0; list < plan.lists; ++list) {
      const strip_share share = plan.share(strip, list);
      if (share.rows == 0) { continue; }
      row_dots(worker, head, row, count, hidden_of(list),
               [&](std::int32_t i, float logit) { put(list, share, row, i, logit); });
    }
  }

  /// Its share, `Strips` at a time by a worker.
  template <int Tiles, int Strips, Team T>
  HUNCH_HOST_DEVICE void by_tensor_cores(T& team, std::int32_t index) const {
    const std::int32_t all = plan.size(team);
    const std::int32_t units = (all + Strips - 1) / Strips;
    const std::int32_t begin = share(units, index);
    const std::int32_t end = share(units, index + 1);
    team.put(0, static_cast<std::int64_t>(end) << 32 | begin);  // not in registers
    const std::int64_t* const list = team.scratch().list;
    if constexpr (Tiles < 4) {
      team.for_each_worker(end - begin, [this, list](auto& worker, std::int32_t i) {
        this->template multiply_strips_of<Tiles, Strips>(worker, list, i);
      });
    } else {
      // Nor how many there are: what is more is skipped.
      team.for_each_worker(most, [this, list](auto& worker, std::int32_t i) {
        const std::int64_t units_of_team = list[0];
        if (static_cast<std::int32_t>(units_of_team) + i < units_of_team >> 32) {
          this->template multiply_strips_of<Tiles, Strips>(worker, list, i);
        }
      });
    }
  }

  /// The strips with the numbers `Strips` (list[0] + i) and after, as far as there are so many.
  /// What is known of them is looked up before the weights are read and again after them: registers
  /// are what the loads need.
  template <int Tiles, int Strips, class Worker>
  HUNCH_HOST_DEVICE HUNCH_INLINE void multiply_strips_of(Worker& worker, const std::int64_t* list,
                                                         std::int32_t i) const {
    const std::int32_t turn = i % Tiles;
    std::int32_t begin = (static_cast<std::int32_t>(list[0]) + i) * Strips;
    using product = detail::strip_product<Weight, Tiles, Strips, Worker>;
    typename product::sums sums;
    typename Worker::template per_lane<detail::lane_rows<Weight, Strips>> rows;
    HUNCH_UNROLLED
    for (int s = 0; s < Strips; ++s) {
      const std::int32_t found = plan.strip(worker, begin + s);
      const std::int32_t strip = found < 0 ? plan.strip(worker, begin) : found;
      const std::uint32_t held = plan.held(worker, strip);
      const std::int32_t some = lowest_of(static_cast<std::uint64_t>(held));
      worker.each(
          [&](std::int32_t lane, detail::lane_rows<Weight, Strips>& mine) {
            const auto row = [&](std::int32_t g) { return (held >> g & 1u) != 0 ? g : some; };
            const std::int32_t upper = row(lane / 4);
            mine.lower[s] = (row(lane / 4 + 8) - upper) * head.width;
            // Or the offset in the head would lie in registers beside it.
            mine.upper[s] = opaque(head.row(strip * strip_rows + upper) +
                                   lane % 4 * detail::row_piece<Weight>::elements);
          },
          rows);
    }
    HUNCH_UNROLLED
    for (int r = 0; r < 2 * Strips; ++r) {
      HUNCH_UNROLLED
      for (int n = 0; n < Tiles; ++n) {
        worker.each([](std::int32_t, team::product_sums& sum) { sum = {}; }, sums[r][n]);
      }
    }
    const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(head.data) |
                                     static_cast<std::uintptr_t>(head.width) * sizeof(Weight);
    product::add(worker, rows, states, turn, head.width, addresses % 16 == 0, sums);
    begin = (static_cast<std::int32_t>(opaque(list)[0]) + i) * Strips;
    HUNCH_UNROLLED
    for (int s = 0; s < Strips; ++s) {
      const std::int32_t strip = plan.strip(worker, begin + s);
      if (strip < 0) { return; }
      HUNCH_UNROLLED
      for (int n = 0; n < Tiles; ++n) {
        worker.each(
            [&](std::int32_t lane, const team::product_sums& upper,
                const team::product_sums& lower) {
              HUNCH_UNROLLED
              for (int c = 0; c < 2; ++c) {
                const std::int32_t number = (n ^ turn) * detail::tile_states + lane / 4 * 2 + c;
                if (number >= plan.lists) { continue; }
                const strip_share mine = plan.share(strip, number);
                const std::int32_t row = strip * strip_rows;
                put(number, mine, row, lane % 4 * 2, upper.of[2 * c]);
                put(number, mine, row, lane % 4 * 2 + 1, upper.of[2 * c + 1]);
                put(number, mine, row, lane % 4 * 2 + 8, lower.of[2 * c]);
                put(number, mine, row, lane % 4 * 2 + 9, lower.of[2 * c + 1]);
              }
            },
            sums[2 * s][n], sums[2 * s + 1][n]);
      }
    }
  }
};

/// Team `index` of `product.teams` multiplies its share of the strips of a plan. A logit depends on
/// its row and its hidden state only, bit for bit, not on the lists, the batch or the number of
/// teams; but a worker with tensor cores adds in another order than a thread, unless the weights
/// are float, and a thread multiplies bytes with integers (see integer_states.hpp). Launched with
/// so many teams, any number from 1 on, after a `prepare_head` of the same lists and hidden states.
/// \tparam Logit of the rows that are written; those of 16 bits are rounded.
/// \tparam Tiles detail::tiles_for(product.plan.lists): a kernel for each, or the registers that
///         most states need would be those of one; of float weights 1.
template <class Weight, class Logit = float, int Tiles = 1>
struct multiply_strips {
  static constexpr bool divides_work = true;

  head_product<Weight, Logit> product;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    product.template multiply<Tiles>(team, index);
  }
};

}  // namespace hunch::kernel
