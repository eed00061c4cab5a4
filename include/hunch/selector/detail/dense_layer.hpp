// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/head/detail/dot_one.hpp>
#include <hunch/head/detail/integer_states.hpp>
#include <hunch/head/detail/rows_ahead.hpp>
#include <hunch/head/detail/tensor_strip.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/selector/detail/sliced_rows.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// Rows of a layer that a team multiplies at a time: a strip. Of a layer of a thousand rows, that
/// is one for each multiprocessor, and slices of their rows are one for each warp.
inline constexpr std::int32_t layer_rows = gemv_rows;

namespace detail {

/// States that a team multiplies at a time: a weight is widened once for them, and an element of
/// its list has room for the lanes of both.
inline constexpr std::int32_t states_together = 2;
static_assert(most_slices * layer_rows * gemv_lanes <= team::list_capacity);

/// Numbers of a row of bytes that a thread multiplies with integers at most: room on its stack.
inline constexpr std::int32_t widest_integers = 4096;

/// Element i of four bytes of a row.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE float element_of(std::uint32_t word, int i) {
  if constexpr (sizeof(Weight) == 4) {
    return bit_cast<float>(word);
  } else if constexpr (std::is_same_v<Weight, bfloat16>) {
    return bit_cast<float>(i == 0 ? word << 16 : word & 0xffff0000u);
  } else if constexpr (std::is_same_v<Weight, float16>) {
    return widened(float16{static_cast<std::uint16_t>(word >> (16 * i))});
  } else {
    return to_float(static_cast<Weight>(word >> (8 * i) & 0xffu));
  }
}

/// Four rows of a slice times some states, by sixteen lanes of a warp: the share of one of them.
template <int States, class Weight>
struct slice_share {
  static constexpr int rows = 4;
  static constexpr int each = elements_per_lane<Weight>;
  /// Steps whose weights are under way together.
  static constexpr int ahead = States == 1 ? slice_steps : slice_steps / 2;
  static constexpr std::int32_t step = step_elements<Weight>;

  const Weight* row[rows];  ///< the lane's first element of each
  std::int32_t size;        ///< elements from there on
  std::uint32_t words[ahead][rows];
  float parts[States][rows][each];

  /// Reads the weights of `ahead` steps from element k on; rows are aligned.
  HUNCH_HOST_DEVICE HUNCH_INLINE void read(std::int32_t k) {
    HUNCH_UNROLLED
    for (int j = 0; j < ahead; ++j) {
      HUNCH_UNROLLED
      for (int r = 0; r < rows; ++r) {
        words[j][r] = *reinterpret_cast<const std::uint32_t*>(row[r] + k + j * step);
      }
    }
  }
  /// Adds their products with elements of x, of which the lane's first is x[i][0].
  HUNCH_HOST_DEVICE HUNCH_INLINE void add(const float* const (&x)[States], std::int32_t k) {
    HUNCH_UNROLLED
    for (int j = 0; j < ahead; ++j) {
      HUNCH_UNROLLED
      for (int i = 0; i < each; ++i) {
        HUNCH_UNROLLED
        for (int s = 0; s < States; ++s) {
          const float y = x[s][k + j * step + i];
          HUNCH_UNROLLED
          for (int r = 0; r < rows; ++r) {
            parts[s][r][i] = std::fma(element_of<Weight>(words[j][r], i), y, parts[s][r][i]);
          }
        }
      }
    }
  }
  /// Adds what is left from element k on, whatever it is.
  HUNCH_HOST_DEVICE HUNCH_INLINE void add_rest(const float* const (&x)[States], std::int32_t k) {
    HUNCH_ROLLED
    for (; k < size; k += step) {
      HUNCH_UNROLLED
      for (int i = 0; i < each; ++i) {
        if (k + i >= size) { continue; }
        HUNCH_UNROLLED
        for (int s = 0; s < States; ++s) {
          HUNCH_UNROLLED
          for (int r = 0; r < rows; ++r) {
            parts[s][r][i] = std::fma(to_float(row[r][k + i]), x[s][k + i], parts[s][r][i]);
          }
        }
      }
    }
  }
};

}  // namespace detail

/// A layer of a router: out = W x + b, or max(0, W x + b). A view of weights.
template <class Weight>
struct dense_layer {
  head_weights<Weight> weights;
  const float* bias;  ///< [weights.rows]
  bool rectified;

  HUNCH_HOST_DEVICE std::int32_t strips() const {
    return (weights.rows + layer_rows - 1) / layer_rows;
  }

  /// All rows times one x, by a team. A thread multiplies bytes with integers, as far as they are
  /// not wider than `widest_integers`. Collective.
  template <class T>
  HUNCH_HOST_DEVICE void operator()(T& team, const float* x, float* out) const {
    if constexpr (T::worker_type::lanes == 1 && team::is_one_thread<T>) {
      if constexpr (std::is_same_v<Weight, std::int8_t>) {
        if (weights.width <= detail::widest_integers) {
          multiply_integers(x, out);
        } else {
          multiply_floats(x, out);
        }
      } else {
        multiply_floats(x, out);
      }
      const dense_layer self = *this;
      team.for_each(weights.rows, [=](std::int64_t r) {
        out[r] = self.finished(out[r], static_cast<std::int32_t>(r));
      });
    } else {
      for (std::int32_t i = 0; i < strips(); ++i) {
        strip(
            team, i, 1, [=](std::int32_t) { return x; }, [=](std::int32_t) { return out; });
      }
    }
  }

  /// The rows of strip `index` times one or two x: x_of(s) is an x, [weights.width], and out_of(s)
  /// where it goes, [weights.rows]. Collective.
  template <class T, class X, class Out>
  HUNCH_HOST_DEVICE void strip(T& team, std::int32_t index, std::int32_t states, const X& x_of,
                               const Out& out_of) const {
    using worker_type = typename T::worker_type;
    const dense_layer self = *this;
    const std::int32_t slice = detail::slice_elements<Weight>(weights.width);
    const std::int32_t slices = (weights.width + slice - 1) / slice;
    team::ask_nearby(team, bias + index * layer_rows, 1);
    if (weights.row_scale != nullptr) {
      team::ask_nearby(team, weights.row_scale + index * layer_rows, 1);
    }
    team.fill_by_worker(slices, [=](auto& worker, std::int32_t s, const auto& put) {
      if (states == 1) {
        const float* const x[1] = {x_of(0)};
        self.slice(worker, index, s, slice, x, put);
      } else {
        const float* const x[2] = {x_of(0), x_of(1)};
        self.slice(worker, index, s, slice, x, put);
      }
    });
    const std::int64_t* const list = team.scratch().list;
    // As many rows at a time as a worker has sixteen lanes, or one.
    constexpr std::int32_t lanes = detail::gemv_lanes;
    constexpr std::int32_t at_once = worker_type::lanes < lanes ? 1 : worker_type::lanes / lanes;
    constexpr std::int32_t blocks = layer_rows / at_once;
    team.for_each_worker(blocks * states, [=](auto& worker, std::int32_t i) {
      const std::int32_t state = i / blocks;
      const std::int32_t first = i % blocks * at_once;
      const auto total = [=](std::int32_t row, std::int32_t l) {
        float sum = 0.0f;
        for (std::int32_t s = 0; s < slices; ++s) {
          const auto both = static_cast<std::uint64_t>(list[place_of(s, row, l)]);
          sum += bit_cast<float>(static_cast<std::uint32_t>(state == 0 ? both : both >> 32));
        }
        return sum;
      };
      const auto finish = [=](std::int32_t row, float sum) {
        const std::int32_t r = index * layer_rows + row;
        if (r < self.weights.rows) { out_of(state)[r] = self.finished(sum, r); }
      };
      if constexpr (worker_type::lanes == 1) {
        float lane[lanes];
        for (std::int32_t l = 0; l < lanes; ++l) { lane[l] = total(first, l); }
        for (std::int32_t half = lanes / 2; half > 0; half /= 2) {
          for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
        }
        finish(first, lane[0]);
      } else {
        typename worker_type::template per_lane<float> sum;
        worker.each([=](std::int32_t l, float& of) { of = total(first + l / lanes, l % lanes); },
                    sum);
        worker.fold_halves(sum);
        worker.each(
            [=](std::int32_t l, float& of) {
              if (l % lanes == 0) { finish(first + l / lanes, of); }
            },
            sum);
      }
    });
  }

 private:
  /// The sums of all rows, by a thread.
  HUNCH_HOST_DEVICE void multiply_floats(const float* x, float* out) const {
    by_rows([=, *this](auto& ahead, std::int32_t row, std::int32_t count) HUNCH_INLINED {
      constexpr std::int32_t together = std::remove_reference_t<decltype(ahead)>::together;
      detail::sliced_rows<together>(weights.row(row), weights.width, count, x, ahead, out + row);
    });
  }
  HUNCH_HOST_DEVICE void multiply_integers(const float* x, float* out) const {
    alignas(64) std::uint32_t words[detail::widest_integers];
    detail::put_integers(x, weights.width, words);
    const detail::integer_state of[1] = {detail::integers_at(words, weights.width)};
    by_rows([&](auto& ahead, std::int32_t row, std::int32_t count) HUNCH_INLINED {
      constexpr std::int32_t most = 4;
      constexpr std::int32_t ready = std::remove_reference_t<decltype(ahead)>::together;
      std::int32_t sums[1][layer_rows];
      detail::integer_dots<(ready < most ? ready : most)>(weights.row(row), weights.width, count,
                                                          of, ahead, sums);
      for (std::int32_t r = 0; r < count; ++r) {
        out[row + r] = static_cast<float>(sums[0][r]) * of[0].scale;
      }
    });
  }
  /// Calls multiply(ahead, row, count) for strips of rows.
  template <class Multiply>
  HUNCH_HOST_DEVICE HUNCH_INLINE void by_rows(const Multiply& multiply) const {
    detail::ask_ahead(weights, detail::one_range({0, weights.rows}), [&](auto& ahead) {
      for (std::int32_t row = 0; row < weights.rows; row += layer_rows) {
        multiply(ahead, row, smaller(weights.rows - row, layer_rows));
      }
    });
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE float finished(float sum, std::int32_t row) const {
    const float y = weights.row_scale == nullptr ? sum + bias[row]
                                                 : std::fma(sum, weights.row_scale[row], bias[row]);
    return rectified && !(y > 0.0f) ? 0.0f : y;
  }

  /// Where the lanes of a slice stand in a team's list: the first state's in the lower half.
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::int32_t place_of(std::int32_t s, std::int32_t row,
                                                              std::int32_t l) {
    return (s * layer_rows + row) * detail::gemv_lanes + l;
  }
  template <int States>
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::int64_t both_of(const float (&lane)[States]) {
    std::uint64_t bits = bit_cast<std::uint32_t>(lane[0]);
    if constexpr (States == 2) {
      bits |= static_cast<std::uint64_t>(bit_cast<std::uint32_t>(lane[1])) << 32;
    }
    return static_cast<std::int64_t>(bits);
  }

  /// Puts the lanes of slice s of the rows of a strip.
  template <int States, class Worker, class Put>
  HUNCH_HOST_DEVICE void slice(Worker& worker, std::int32_t strip, std::int32_t s,
                               std::int32_t slice, const float* const (&x)[States],
                               const Put& put) const {
    constexpr std::int32_t lanes = detail::gemv_lanes;
    const std::int32_t first = strip * layer_rows;
    const std::int32_t k = s * slice;
    const std::int32_t size = smaller(weights.width - k, slice);
    if constexpr (Worker::lanes == 1) {
      for (std::int32_t row = 0; row < layer_rows && first + row < weights.rows; ++row) {
        for (std::int32_t l = 0; l < lanes; ++l) {
          float lane[States];
          for (int i = 0; i < States; ++i) {
            lane[i] = detail::dot_lane(weights.row(first + row) + k, size, x[i] + k, l);
          }
          put(place_of(s, row, l), both_of(lane));
        }
      }
    } else {
      using share = detail::slice_share<States, Weight>;
      static_assert(Worker::lanes / lanes * share::rows == layer_rows);
      typename Worker::template per_lane<share> shares;
      worker.each(
          [&](std::int32_t lane, share& mine) {
            const std::int32_t at = lane % lanes * share::each;
            mine.size = size - at;
            HUNCH_UNROLLED
            for (int r = 0; r < share::rows; ++r) {
              // One that is there, where the strip ends before.
              const std::int32_t of = first + lane / lanes * share::rows + r;
              mine.row[r] = weights.row(smaller(of, weights.rows - 1)) + k + at;
              HUNCH_UNROLLED
              for (int i = 0; i < States; ++i) {
                HUNCH_UNROLLED
                for (int e = 0; e < share::each; ++e) { mine.parts[i][r][e] = 0.0f; }
              }
            }
          },
          shares);
      const auto x_of_lane = [&](std::int32_t lane, const float*(&of)[States]) HUNCH_INLINED {
        HUNCH_UNROLLED
        for (int i = 0; i < States; ++i) { of[i] = x[i] + k + lane % lanes * share::each; }
      };
      const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(weights.data) |
                                       static_cast<std::uintptr_t>(weights.width) * sizeof(Weight);
      std::int32_t done = 0;
      if (addresses % 4 == 0) {
        constexpr std::int32_t block = share::ahead * share::step;
        HUNCH_ROLLED
        for (; done + block <= size; done += block) {
          worker.each([=](std::int32_t, share& mine) { mine.read(done); }, shares);
          worker.sync();  // they are under way, before anything waits for x, or where it is
          worker.each(
              [&](std::int32_t lane, share& mine) {
                const float* of[States];
                x_of_lane(lane, of);
                mine.add(of, done);
              },
              shares);
        }
      }
      worker.each(
          [&](std::int32_t lane, share& mine) {
            const float* of[States];
            x_of_lane(lane, of);
            mine.add_rest(of, done);
            HUNCH_UNROLLED
            for (int r = 0; r < share::rows; ++r) {
              float both[States];
              HUNCH_UNROLLED
              for (int i = 0; i < States; ++i) {
                both[i] = detail::add_parts<share::each>(mine.parts[i][r]);
              }
              put(place_of(s, lane / lanes * share::rows + r, lane % lanes), both_of(both));
            }
          },
          shares);
    }
  }
};

}  // namespace hunch::kernel
