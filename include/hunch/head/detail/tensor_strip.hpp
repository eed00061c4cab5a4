// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/core/opaque.hpp>
#include <hunch/team/worker.hpp>

/// \file
/// Strips of a head times up to 64 hidden states by the tensor cores of a worker. One hidden state
/// or many: a logit is added up in one order, whatever else is computed beside it, and the products
/// that are left empty cost nothing beside reading the weights.
///
/// Weights are the right factor: eight rows of the head are its columns, sixteen states the rows of
/// the left one. What a lane reads of a row at once is then in the registers that the instruction
/// wants, side by side. Of each block of 64 bytes of a row, thread t of four reads 16 bytes:
/// elements that lie side by side, though the instruction would have it every second and eighth.
/// Which product an element is in does not matter as long as the states are read in the same order.
///
/// A hidden state is a float and weights are not. It is multiplied twice, what a half holds of it
/// and then the rest, to the same sum, so that little more is lost than in products of floats: 16
/// bits stay with bfloat16 and 22 with float16, whose values end at 65,504. It is split once, not
/// by every worker that needs it: that would be more instructions than all else.
///
/// What bounds it are bytes. Weights are read once, by lanes that have the next ones under way
/// while they multiply. Halves of the states come from the first cache; with the most states a
/// worker has two strips where it has the registers, or that cache would be slower than the memory.
/// Workers begin with different tiles of states, so that what the others need next has been asked
/// for when they come to it.

namespace hunch::kernel::detail {

/// The type that weights are multiplied in: themselves, and bytes as float16, which holds them all.
template <class Weight>
struct factor_of {
  using type = Weight;
};
template <>
struct factor_of<std::int8_t> {
  using type = float16;
};
template <class Weight>
using factor = typename factor_of<Weight>::type;

HUNCH_HOST_DEVICE HUNCH_INLINE bfloat16 rounded(float x, bfloat16) {
#if defined(__CUDA_ARCH__)
  bfloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  return to_bfloat16(x);
#endif
}
HUNCH_HOST_DEVICE HUNCH_INLINE float16 rounded(float x, float16) {
#if defined(__CUDA_ARCH__)
  float16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  return to_float16(x);
#endif
}
HUNCH_HOST_DEVICE HUNCH_INLINE float widened(bfloat16 x) { return to_float(x); }
HUNCH_HOST_DEVICE HUNCH_INLINE float widened(float16 x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return to_float(x);
#endif
}

template <class Half>
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t bits_of(Half x) {
  return x.bits;
}
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t bits_of(std::int8_t x) {
  return static_cast<std::uint8_t>(x);
}

/// The bits of a weight, which is read once and not to be kept.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t bits_at(const Weight* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Weight) == 2) {
    return __ldcs(reinterpret_cast<const unsigned short*>(from));
  } else {
    return __ldcs(reinterpret_cast<const unsigned char*>(from));
  }
#else
  return bits_of(*from);
#endif
}

/// Two halves in a word, the first in its lower end.
template <class Half>
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t pair_of(Half first, Half second) {
  return bits_of(second) << 16 | bits_of(first);
}

/// The bytes 2 i and 2 i + 1 of a word as float16.
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t pair_of_bytes(std::uint32_t word, int i) {
#if defined(__CUDA_ARCH__)
  // 0x6400 + b is 1024 + b: so one exchange of bytes and one subtraction convert two of them.
  const std::uint32_t shifted =
      __byte_perm(word ^ 0x80808080u, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
  std::uint32_t pair;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(shifted), "r"(0x64806480u));
  return pair;
#else
  const auto number = [word](int byte) {
    return to_float16(to_float(static_cast<std::int8_t>(word >> (8 * byte) & 0xffu)));
  };
  return pair_of(number(2 * i), number(2 * i + 1));
#endif
}

/// What a lane reads of a row at once.
template <class Weight>
struct row_piece {
  static constexpr int elements = 16 / static_cast<int>(sizeof(Weight));
  std::uint32_t words[4] = {};

  /// The elements from `first` on, which is aligned. `Rest`: the row is read on from here, soon,
  /// by pieces that are too small for a memory that opens a page for each.
  template <bool Rest>
  HUNCH_HOST_DEVICE HUNCH_INLINE static row_piece read(const Weight* first) {
    row_piece out;
#if defined(__CUDA_ARCH__)
    // Read once, not to be kept.
    if constexpr (Rest) {
      asm("ld.global.cs.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
          : "=r"(out.words[0]), "=r"(out.words[1]), "=r"(out.words[2]), "=r"(out.words[3])
          : "l"(__cvta_generic_to_global(first)));
    } else {
      const uint4 x = __ldcs(reinterpret_cast<const uint4*>(first));
      out = {{x.x, x.y, x.z, x.w}};
    }
#else
    __builtin_memcpy(out.words, first, sizeof out.words);
#endif
    return out;
  }
  /// The elements from `first` on, of which the row has `left`; if that is negative, none.
  HUNCH_HOST_DEVICE HUNCH_INLINE static row_piece read(const Weight* first, std::int64_t left,
                                                       bool aligned) {
    if (aligned && left >= elements) { return read<false>(first); }
    row_piece out;
    constexpr int in_word = elements / 4;
    constexpr int bits = 32 / in_word;
    HUNCH_UNROLLED
    for (int w = 0; w < 4; ++w) {
      HUNCH_ROLLED
      for (int i = 0; i < in_word; ++i) {
        const int at = w * in_word + i;
        if (at < left) { out.words[w] |= bits_at(first + at) << (bits * i); }
      }
    }
    return out;
  }

  /// Elements 2 i and 2 i + 1.
  HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t pair(int i) const {
    if constexpr (sizeof(Weight) == 2) {
      return words[i];
    } else {
      return pair_of_bytes(words[i / 2], i % 2);
    }
  }
};

/// The rows of a lane, from what it reads first on: g and g + 8 of each strip, or in the place of
/// one that nobody wants some other, which is read anyway.
template <class Weight, int Strips>
struct lane_rows {
  const Weight* upper[Strips];
  std::int32_t lower[Strips];  ///< elements from there to the other

  HUNCH_HOST_DEVICE HUNCH_INLINE const Weight* at(int r, std::int32_t k) const {
    // Opaque: or the address of the other would lie in registers beside it.
    const std::int64_t on = r % 2 == 0 ? 0 : lower[r / 2];
    return upper[r / 2] + k + on;
  }
};

/// States that a tensor core multiplies at once, two in each column of their factors.
inline constexpr std::int32_t tile_states = 16;
inline constexpr std::int32_t tile_columns = tile_states / 2;

/// Elements of a product of a tensor core.
inline constexpr std::int32_t product_elements = 16;

/// Words of the factors of a hidden state. After its end they are 0, to the end of a block of 64
/// bytes of a row.
HUNCH_HOST_DEVICE constexpr std::int64_t split_words(std::int32_t width) {
  return (static_cast<std::int64_t>(width) + 63) / 64 * 64;
}

/// Tiles of `states` states, 1 to 64, as workers multiply them.
HUNCH_HOST_DEVICE constexpr std::int32_t tiles_for(std::int32_t states) {
  return states <= tile_states ? 1 : states <= 2 * tile_states ? 2 : 4;
}
/// Columns of their factors: full tiles, but of a single one only what there is.
HUNCH_HOST_DEVICE constexpr std::int32_t columns_for(std::int32_t states) {
  return states <= tile_states ? (states + 1) / 2 : tile_columns * tiles_for(states);
}

/// The factors of the states of a plan, [products, tiles, 2, columns of a tile, 16] words: what
/// halves hold of two states, then the rest. What the lanes of a warp read at once lies side by
/// side.
struct state_factors {
  static constexpr std::int32_t column_words = 16;  ///< in a product, of one half

  std::uint32_t* words = nullptr;
  std::int32_t columns = 0;  ///< columns_for(states)
  std::int32_t tiles = 0;    ///< in which there are states

  /// Where those of a column begin that are for a product.
  HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t* at(std::int64_t product,
                                                   std::int32_t column) const {
    return words + product * columns * (2 * column_words) +
           column / tile_columns * (2 * tile_columns * column_words) +
           column % tile_columns * column_words;
  }
  /// From there to those of the rest.
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t to_rest() const {
    return (columns < tile_columns ? columns : tile_columns) * column_words;
  }
};

/// Writes a column for product `product`, of the hidden states `of` it, of which any may be
/// nullptr: zeros.
template <class Weight, class Worker>
HUNCH_HOST_DEVICE void split_product(Worker& worker, const float* const (&of)[2],
                                     std::int32_t width, std::int64_t product,
                                     const state_factors& to, std::int32_t column) {
  using half = factor<Weight>;
  constexpr std::int64_t elements = row_piece<Weight>::elements;
  constexpr std::int64_t products = elements / 4;  // of a block of 64 bytes of a row
  std::uint32_t* const words = to.at(product, column);
  const std::int32_t to_rest = to.to_rest();
  worker.each([=](std::int32_t lane) {
    const std::int32_t t = lane / 4 % 4;
    const float* const hidden = lane % 2 == 0 ? of[0] : of[1];
    half y[2];
    HUNCH_UNROLLED
    for (int i = 0; i < 2; ++i) {
      const std::int64_t k = product / products * (4 * elements) + t * elements +
                             product % products * 4 + lane % 4 / 2 * 2 + i;
      const float x = hidden != nullptr && k < width ? hidden[k] : 0.0f;
      const half high = rounded(x, half{});
      y[i] = lane < 16 ? high : rounded(x - widened(high), half{});
    }
    words[lane / 16 * to_rest + lane % 16] = pair_of(y[0], y[1]);
  });
}

/// The factors of a lane for a product, of one half of its states: at a number of bytes, for which
/// a device needs half the registers of a pointer, and `on` from there.
HUNCH_HOST_DEVICE HUNCH_INLINE team::factor_rows factors_at(const std::uint32_t* words,
                                                            std::uint32_t bytes, std::int64_t on) {
  const char* const from = reinterpret_cast<const char*>(words) + bytes + on;
#if defined(__CUDA_ARCH__)
  const uint4 x = *reinterpret_cast<const uint4*>(from);
  return {{x.x, x.y, x.z, x.w}};
#else
  team::factor_rows out;
  __builtin_memcpy(out.of, from, sizeof out.of);
  return out;
#endif
}

/// `Strips` strips times `Tiles` tiles of states, by a worker.
///
/// The sums: lane 4 g + t has those of states 2 g and 2 g + 1 of a tile, for the rows 2 t and
/// 2 t + 1 of the eight. Place n of them is tile n ^ `turn`.
template <class Weight, int Tiles, int Strips, class Worker>
class strip_product {
  using piece = row_piece<Weight>;
  template <class T>
  using per_lane = typename Worker::template per_lane<T>;

 public:
  using sums = per_lane<team::product_sums>[2 * Strips][Tiles];

  /// \param aligned whether all rows begin at multiples of 16 bytes.
  HUNCH_HOST_DEVICE HUNCH_INLINE static void add(Worker& worker,
                                                 per_lane<lane_rows<Weight, Strips>>& rows,
                                                 const state_factors& states, std::int32_t turn,
                                                 std::int32_t width, bool aligned, sums& to) {
    per_lane<std::uint32_t> places;
    worker.each(
        [&](std::int32_t lane, std::uint32_t& mine) {
          const std::int32_t g = lane / 4;
          const std::int32_t column = Tiles > 1 || g < states.columns ? g : states.columns - 1;
          mine = opaque(static_cast<std::uint32_t>(turn * tile_bytes + column * column_bytes +
                                                   lane % 4 * 16));
        },
        places);
    const factors_of from{states.words,
                          places,
                          Tiles > 1 ? Tiles * tile_columns : states.columns,
                          Tiles > 1 ? tile_columns * column_bytes : 4 * states.to_rest(),
                          turn,
                          states.tiles};
    held_rows first;
    held_rows second;
    std::int32_t left = width;
    read(worker, rows, left, aligned, first);
    HUNCH_ROLLED
    while (true) {
      if (left > step) { read(worker, rows, left, aligned, second, step); }
      multiply(worker, first, rows, from, left, to);
      left -= step;
      if (left <= 0) { break; }
      if (left > step) { read(worker, rows, left, aligned, first, step); }
      multiply(worker, second, rows, from, left, to);
      left -= step;
      if (left <= 0) { break; }
    }
  }

 private:
  static constexpr std::int32_t block = 4 * piece::elements;
  /// Blocks that are multiplied while as many are under way: what there are registers for.
  static constexpr int step_blocks = Strips == 2 ? 1 : Tiles == 4 ? 2 : 4;
  static constexpr std::int32_t step = step_blocks * block;

  struct lane_pieces {
    piece of[step_blocks][2 * Strips];
  };
  using held_rows = per_lane<lane_pieces>;

  static constexpr std::int32_t column_bytes = 4 * state_factors::column_words;
  static constexpr std::int32_t tile_bytes = 2 * tile_columns * column_bytes;

  struct factors_of {
    const std::uint32_t* words;
    per_lane<std::uint32_t>& places;  ///< bytes in front of what a lane reads first, of its turn
    std::int32_t columns;
    std::int32_t to_rest;  ///< bytes
    std::int32_t turn;
    std::int32_t tiles;  ///< in which there are states

    HUNCH_HOST_DEVICE std::int32_t product_bytes() const { return 2 * columns * column_bytes; }
  };

  /// What comes `on` elements after the first of those that are left.
  HUNCH_HOST_DEVICE HUNCH_INLINE static void read(Worker& worker,
                                                  per_lane<lane_rows<Weight, Strips>>& rows,
                                                  std::int32_t left, bool aligned, held_rows& to,
                                                  std::int32_t on = 0) {
    if (aligned && left >= on + step) {
      worker.each(
          [=](std::int32_t, const lane_rows<Weight, Strips>& from, lane_pieces& mine) {
            HUNCH_UNROLLED
            for (int r = 0; r < 2 * Strips; ++r) {
              HUNCH_UNROLLED
              for (int u = 0; u < step_blocks; ++u) {
                mine.of[u][r] = piece::template read<(step_blocks < 4)>(from.at(r, on + u * block));
              }
            }
          },
          rows, to);
    } else {
      worker.each(
          [=](std::int32_t lane, const lane_rows<Weight, Strips>& from, lane_pieces& mine) {
            HUNCH_UNROLLED
            for (int r = 0; r < 2 * Strips; ++r) {
              HUNCH_UNROLLED
              for (int u = 0; u < step_blocks; ++u) {
                const std::int32_t at = on + u * block;
                mine.of[u][r] =
                    piece::read(from.at(r, at), left - at - lane % 4 * piece::elements, aligned);
              }
            }
          },
          rows, to);
    }
    worker.sync();  // all of these loads are under way
  }

  /// Adds the products of a step: to each sum one after the other, first with what halves hold of
  /// the states, then with the rest. And goes on behind them.
  HUNCH_HOST_DEVICE HUNCH_INLINE static void multiply(Worker& worker, held_rows& held,
                                                      per_lane<lane_rows<Weight, Strips>>& rows,
                                                      const factors_of& from, std::int32_t left,
                                                      sums& to) {
    constexpr int products = piece::elements / 4;
    // Tile by tile; but bytes are made factors once for all tiles.
    constexpr int at_once = sizeof(Weight) == 1 ? 1 : products;
    HUNCH_UNROLLED
    for (int u = 0; u < step_blocks; ++u) {
      if (left <= u * block) { break; }  // and factors of one block at a time are under way
      HUNCH_UNROLLED
      for (int first = 0; first < products; first += at_once) {
        HUNCH_UNROLLED
        for (int n = 0; n < Tiles; ++n) {
          // A tile without states; and factors of one tile at a time are under way.
          if (Tiles > 2 && (n ^ from.turn) >= from.tiles) { continue; }
          HUNCH_UNROLLED
          for (int i = first; i < first + at_once; ++i) {
            HUNCH_UNROLLED
            for (int h = 0; h < 2; ++h) { add_half(worker, held, from, u, i, n, h, to); }
          }
        }
      }
    }
    const auto bytes = static_cast<std::uint32_t>(step / product_elements * from.product_bytes());
    worker.each(
        [=](std::int32_t, lane_rows<Weight, Strips>& mine, std::uint32_t& place) {
          HUNCH_UNROLLED
          for (int s = 0; s < Strips; ++s) { mine.upper[s] += step; }
          place += bytes;
        },
        rows, from.places);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE static void add_half(Worker& worker, held_rows& held,
                                                      const factors_of& from, int u, int i, int n,
                                                      int h, sums& to) {
    const std::int64_t on =
        (u * (block / product_elements) + i) * from.product_bytes() + h * from.to_rest;
    per_lane<team::factor_rows> left;
    worker.each(
        [&](std::int32_t, const std::uint32_t& place, team::factor_rows& mine) {
          // Tile n ^ turn: the bits of a tile's number are its own.
          const std::uint32_t at = opaque(place) ^ static_cast<std::uint32_t>(n * tile_bytes);
          mine = factors_at(from.words, at, on);
        },
        from.places, left);
    add_products(worker, held, left, u, i, to, n);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE static void add_products(Worker& worker, held_rows& held,
                                                          per_lane<team::factor_rows>& left, int u,
                                                          int i, sums& to, int n) {
    HUNCH_UNROLLED
    for (int r = 0; r < 2 * Strips; ++r) {
      per_lane<team::factor_columns> right;
      worker.each(
          [&](std::int32_t, const lane_pieces& of, team::factor_columns& mine) {
            mine = {{of.of[u][r].pair(2 * i), of.of[u][r].pair(2 * i + 1)}};
          },
          held, right);
      worker.multiply_add(to[r][n], left, right, factor<Weight>{});
    }
  }
};

}  // namespace hunch::kernel::detail
