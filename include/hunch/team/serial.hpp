// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include <hunch/core/bits.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/processor.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/team.hpp>
#include <hunch/team/tile_sums.hpp>
#include <hunch/team/worker.hpp>

namespace hunch::team {

/// A team of one: the calling thread. Its loops are what the compiler vectorises. (It runs on a
/// device too, which lets one body serve both in a file that nvcc compiles.)
class serial {
 public:
  using worker_type = single_thread;
  static constexpr bool is_one_thread = true;

  HUNCH_HOST_DEVICE static constexpr std::int32_t size() { return 1; }
  HUNCH_HOST_DEVICE static constexpr std::int32_t rank() { return 0; }
  HUNCH_HOST_DEVICE static constexpr void sync() {}

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE void for_each(std::int64_t n, const F& f) {
    on_processor(
        [n](const F& f) HUNCH_INLINED {
          for (std::int64_t i = 0; i < n; ++i) { f(i); }
        },
        f);
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE void for_each_worker(std::int32_t n, F&& f) {
    single_thread worker;
    for (std::int32_t i = 0; i < n; ++i) { f(worker, i); }
  }

  template <class T, class F, class Op>
  HUNCH_HOST_DEVICE HUNCH_INLINE T reduce(std::int64_t n, T identity, const F& f, const Op& op) {
    return on_processor(
        [n, identity](const F& f, const Op& op) HUNCH_INLINED {
          // Independent lanes: compilers vectorise this loop where they refuse a running maximum.
          constexpr std::int64_t lanes = 64;
          const std::int64_t whole = n / lanes * lanes;
          T result = identity;
          for (std::int64_t i = whole; i < n; ++i) { result = op(result, static_cast<T>(f(i))); }
          if (whole == 0) { return result; }
          T lane[lanes];
          for (std::int64_t l = 0; l < lanes; ++l) { lane[l] = identity; }
          for (std::int64_t base = 0; base < whole; base += lanes) {
            for (std::int64_t l = 0; l < lanes; ++l) {
              lane[l] = op(lane[l], static_cast<T>(f(base + l)));
            }
          }
          for (std::int64_t l = 0; l < lanes; ++l) { result = op(result, lane[l]); }
          return result;
        },
        f, op);
  }

  template <class T, class Gate, class Keep, class F, class Op>
  HUNCH_HOST_DEVICE HUNCH_INLINE T reduce_where(std::int64_t n, T identity, const Gate& gate,
                                                const Keep& keep, const F& f, const Op& op) {
    return on_processor(
        [n, identity](const Gate& gate, const Keep& keep, const F& f, const Op& op) HUNCH_INLINED {
          T result = identity;
          for (std::int64_t base = 0; base < n; base += gate_elements) {
            const auto value = gate(base / gate_elements);
            const std::int64_t end = base + gate_elements < n ? base + gate_elements : n;
            visit_where(
                base, end, [&](std::int64_t i) HUNCH_INLINED { return keep(i, value); },
                [&](std::int64_t i) HUNCH_INLINED { result = op(result, f(i)); });
          }
          return result;
        },
        gate, keep, f, op);
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE double sum(std::int64_t n, const F& f) {
    last_sum_ = {};
    return group_sums(0, n, scratch_.groups, f);
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE two_sums sum_both(std::int64_t n, const F& f) {
    last_sum_ = {};  // as in any team, whose groups now are others
    return on_processor<compiled_up_to<F>>(
        [n](const F& f) HUNCH_INLINED {
          two_sums total{0.0, 0.0};
          for (std::int32_t g = 0; g < groups_of(n); ++g) {
            const two_sums group = group_sum_both(n, g, f);
            total.first += group.first;
            total.second += group.second;
          }
          return total;
        },
        f);
  }

  template <class Terms>
  HUNCH_HOST_DEVICE HUNCH_INLINE auto soft_sum(std::int64_t n, const Terms& terms) {
    last_sum_ = {};
    return on_processor(
        [n, s = &scratch_](const Terms& terms) HUNCH_INLINED {
          if constexpr (Totalled<Terms>) {
            add_totals(n, terms, *s);
          } else {
            add_tiles(n, terms, *s);
          }
          const std::int32_t groups = groups_of(n);
          const auto all = fold_groups<decltype(terms.lowest)>(groups, *s, terms);
          const double inverse = terms.inverse(all.top);
          for (std::int32_t g = 0; g < groups; ++g) {
            s->groups[g] = std::fma(scaled_group(g, *s, all.top, terms), inverse, -0.0);
          }
          return all;
        },
        terms);
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE const F& lanes(std::int64_t begin, std::int64_t end, const F& f) {
    on_processor<compiled_up_to<F>>(
        [begin, end, to = scratch_.lanes, strands = scratch_.strands](const F& f)
            HUNCH_INLINED { tile_lanes(begin, end, to, strands, f); },
        f);
    return f;
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE void tiles(std::int64_t n, std::int64_t first, std::int32_t count,
                                            const F& f) {
    // Groups of as many tiles are one tile each, summed by the loop of `sum`.
    static_assert(lane_count <= max_groups);
    const std::int64_t begin = first * tile_elements;
    const std::int64_t end = begin + count * tile_elements;
    group_sums(begin, end < n ? end : n, scratch_.lanes, f);
  }

  /// Of both terms: of the first in the lanes, of the second in the groups.
  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE void tiles_both(std::int64_t n, std::int64_t first,
                                                 std::int32_t count, const F& f) {
    on_processor<compiled_up_to<F>>(
        [=, s = &scratch_](const F& f) HUNCH_INLINED {
          for (std::int32_t k = 0; k < count; ++k) {
            const std::int64_t begin = (first + k) * tile_elements;
            const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
            const two_sums tile = tile_sum_both(begin, end, f);
            s->lanes[k] = tile.first;
            s->groups[k] = tile.second;
          }
        },
        f);
  }
  /// The totals of `soft_sum`: largest keys in the tops, sums in the lanes.
  template <class Terms>
  HUNCH_HOST_DEVICE HUNCH_INLINE void soft_tiles(std::int64_t n, std::int64_t first,
                                                 std::int32_t count, const Terms& terms) {
    on_processor(
        [=, s = &scratch_](const Terms& terms) HUNCH_INLINED {
          auto frame = terms.frame(terms.key(0));
          for (std::int32_t k = 0; k < count; ++k) {
            const std::int64_t begin = (first + k) * tile_elements;
            const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
            const auto tile = total_of_tile(begin, end, frame, terms);
            s->tops[k] = tile.top;
            s->lanes[k] = tile.sum;
          }
        },
        terms);
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE void fill(std::int32_t n, const F& f) {
    on_processor(
        [n, list = scratch_.list](const F& f) HUNCH_INLINED {
          for (std::int32_t i = 0; i < n; ++i) { list[i] = static_cast<std::int64_t>(f(i)); }
        },
        f);
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE void put(std::int32_t i, std::int64_t value) {
    scratch_.list[i] = value;
  }

  template <class Keep, class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t compact(std::int64_t n, const Keep& keep, const F& f,
                                                      std::int32_t capacity) {
    return on_processor(
        [n, capacity, list = scratch_.list](const Keep& keep, const F& f) HUNCH_INLINED {
          std::int32_t count = 0;
          const auto put = [&](std::int64_t i) HUNCH_INLINED {
            if (count < capacity) { list[count] = static_cast<std::int64_t>(f(i)); }
            ++count;
          };
          visit_where(0, n, keep, put);
          return count;
        },
        keep, f);
  }

  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE void fill_by_worker(std::int32_t n, F&& f) {
    single_thread worker;
    const auto put = [list = scratch_.list](std::int32_t k, std::int64_t value) {
      list[k] = value;
    };
    for (std::int32_t i = 0; i < n; ++i) { f(worker, i, put); }
  }

  template <class Bin, class Amount>
  HUNCH_HOST_DEVICE found_bin find_bin(std::int64_t n, std::int64_t wanted, const Bin& bin,
                                       const Amount& amount) {
    for (std::int32_t b = 0; b < list_capacity; ++b) { scratch_.list[b] = 0; }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t b = bin(i);
      if (b >= 0) { scratch_.list[b] += amount(i); }
    }
    return first_reaching(scratch_.list, wanted);
  }

  template <class T>
  HUNCH_HOST_DEVICE static T broadcast(T value, std::int32_t) {
    return value;
  }

  HUNCH_HOST_DEVICE const shared_scratch& scratch() const { return scratch_; }
  /// The same, for `team::sharded`.
  HUNCH_HOST_DEVICE shared_scratch& own() { return scratch_; }
  HUNCH_HOST_DEVICE const summed& last_sum() const { return last_sum_; }
  HUNCH_HOST_DEVICE void remember(const summed& what) { last_sum_ = what; }

 private:
  /// to[g] becomes the sum of group g of the elements [begin, end); returns their total.
  template <class F>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double group_sums(std::int64_t begin, std::int64_t end,
                                                          double* to, const F& f) {
    return on_processor<compiled_up_to<F>>(
        [begin, n = end - begin, to](const F& f) HUNCH_INLINED {
          const std::int32_t groups = groups_of(n);
          double total = 0.0;
          for (std::int32_t g = 0; g < groups; ++g) {
            to[g] = group_sum(n, g, f, begin);
            total += to[g];
          }
          return total;
        },
        f);
  }

  /// visit(i) for the i in [begin, end) with keep(i), in order: first the question about many at
  /// once, in a loop that vectorises, then those that are kept by the bits of a word: where they
  /// end is all that a processor cannot foresee.
  template <class Keep, class Visit>
  HUNCH_HOST_DEVICE static HUNCH_INLINE void visit_where(std::int64_t begin, std::int64_t end,
                                                         const Keep& keep, const Visit& visit) {
    constexpr std::int64_t block = 64;
    std::int64_t first = begin;
    for (; first + block <= end; first += block) {
      std::uint8_t kept[block];
      for (std::int64_t l = 0; l < block; ++l) {
        kept[l] = static_cast<std::uint8_t>(keep(first + l));
      }
      // Of eight bytes, 0 or 1 each, the bits in one byte, the uppermost of a product.
      std::uint64_t words[block / 8];
      std::uint8_t packed[block / 8];
      __builtin_memcpy(words, kept, sizeof kept);
      for (std::int64_t w = 0; w < block / 8; ++w) {
        packed[w] = static_cast<std::uint8_t>(words[w] * 0x0102040810204080u >> 56);
      }
      std::uint64_t bits;
      __builtin_memcpy(&bits, packed, sizeof bits);
      for (; bits != 0; bits &= bits - 1) { visit(first + kernel::lowest_of(bits)); }
    }
    for (; first < end; ++first) {
      if (keep(first)) { visit(first); }
    }
  }

  /// The total of a tile. Its frame is guessed to be that of the tile before: it seldom changes,
  /// and a tile that has another is read again. \param frame in, out.
  template <class Terms>
  HUNCH_HOST_DEVICE static HUNCH_INLINE soft_total<decltype(Terms::lowest)> total_of_tile(
      std::int64_t begin, std::int64_t end, frame_of<Terms>& frame, const Terms& terms) {
    soft_total<decltype(Terms::lowest)> tile;
    if (!is_quick_tile(begin, end, frame, terms, tile)) {
      tile.top = top_of(begin, end, terms);
      tile.sum = soft_tile(begin, end, tile.top, terms);
      frame = terms.frame(tile.top);
    }
    return tile;
  }

  /// The groups of `soft_sum` from the elements.
  template <class Terms>
  HUNCH_HOST_DEVICE static HUNCH_INLINE void add_tiles(std::int64_t n, const Terms& terms,
                                                       shared_scratch& scratch) {
    using key = decltype(terms.lowest);
    auto frame = terms.frame(terms.key(0));
    for (std::int32_t g = 0; g < groups_of(n); ++g) {
      soft_total<key> group{terms.lowest, 0.0};
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) HUNCH_INLINED {
        const soft_total<key> tile = total_of_tile(begin, end, frame, terms);
        group.add(tile.top, tile.sum, terms);
      });
      scratch.tops[g] = group.top;
      scratch.groups[g] = group.sum;
    }
  }

  /// Whether [begin, end) is a full tile that has this frame; then `tile` is its total.
  template <class Terms>
  HUNCH_HOST_DEVICE static HUNCH_INLINE bool is_quick_tile(
      std::int64_t begin, std::int64_t end, const frame_of<Terms>& frame, const Terms& terms,
      soft_total<decltype(Terms::lowest)>& tile) {
    if constexpr (QuickTerms<Terms>) {
      return begin + tile_elements == end && quick_tile(begin, frame, terms, tile);
    }
    return false;
  }

  /// The groups of `soft_sum` from the totals of its tiles.
  template <class Terms>
  HUNCH_HOST_DEVICE static HUNCH_INLINE void add_totals(std::int64_t n, const Terms& terms,
                                                        shared_scratch& scratch) {
    using key = decltype(terms.lowest);
    for (std::int32_t g = 0; g < groups_of(n); ++g) {
      soft_total<key> group{terms.lowest, 0.0};
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t) HUNCH_INLINED {
        const soft_total<key> tile = terms.tiles[begin / tile_elements];
        group.add(tile.top, tile.sum, terms);
      });
      scratch.tops[g] = group.top;
      scratch.groups[g] = group.sum;
    }
  }

  shared_scratch scratch_;
  summed last_sum_;
};

static_assert(Team<serial>);

}  // namespace hunch::team
