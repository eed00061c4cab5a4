// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/team/worker.hpp>

/// \file
/// Sixteen rows of a head times a few hidden states by the tensor cores of a worker. One row of
/// hidden states or many: a logit is added up in one order, whatever else is computed beside it,
/// and the products that are left empty cost nothing beside reading the weights.
///
/// Of each block of 64 bytes of a row, thread t of four reads 16 bytes at once: elements that lie
/// side by side, though the instruction would have it every second and eighth. Which product an
/// element is in does not matter as long as the hidden state is read in the same order.
///
/// A hidden state is a float and weights are not. It is two columns, what a half holds of it and
/// the rest, so that little more is lost than in products of floats: 16 bits stay with bfloat16 and
/// 22 with float16, whose values end at 65,504. It is split once, not by every worker that needs
/// it: that would be more instructions than all else.

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

  /// The elements from `first` on, of which the row has `left`; if that is negative, none.
  /// \param whole whether `first` is aligned and the row has all of them.
  HUNCH_HOST_DEVICE HUNCH_INLINE static row_piece read(const Weight* first, std::int64_t left,
                                                       bool whole) {
    row_piece out;
    if (whole) {
#if defined(__CUDA_ARCH__)
      const uint4 x = __ldcs(reinterpret_cast<const uint4*>(first));  // read once, not to be kept
      return {{x.x, x.y, x.z, x.w}};
#else
      __builtin_memcpy(out.words, first, sizeof out.words);
      return out;
#endif
    }
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

/// The two rows of a lane, from what it reads first on: g and g + 8 of the strip, or in the place
/// of one that nobody wants some other, which is read anyway.
template <class Weight>
struct lane_rows {
  const Weight* of[2];
};

/// Elements of a hidden state whose factors lie side by side, in 32 words: what halves hold of
/// them, two in a word, then the rest.
inline constexpr std::int32_t split_elements = 32;

/// Words of the factors of a hidden state. After its end they are 0, to the end of a block of 64
/// bytes of a row.
HUNCH_HOST_DEVICE constexpr std::int64_t split_words(std::int32_t width) {
  return (static_cast<std::int64_t>(width) + 63) / 64 * 64;
}

/// Writes 32 words of the factors of a hidden state, those of its elements from 32 `piece` on.
template <class Half, class Worker>
HUNCH_HOST_DEVICE void split_piece(Worker& worker, const float* hidden, std::int32_t width,
                                   std::int64_t piece, std::uint32_t* words) {
  constexpr std::int32_t pairs = split_elements / 2;
  worker.each([=](std::int32_t lane) {
    Half y[2];
    HUNCH_UNROLLED
    for (int i = 0; i < 2; ++i) {
      const std::int64_t k = piece * split_elements + lane % pairs * 2 + i;
      const float x = k < width ? hidden[k] : 0.0f;
      const Half high = rounded(x, Half{});
      y[i] = lane < pairs ? high : rounded(x - widened(high), Half{});
    }
    words[piece * split_elements + lane] = pair_of(y[0], y[1]);
  });
}

/// The columns of a lane, from what it reads first on: factors of a hidden state in every tile, of
/// some other state where there is none.
template <int Tiles>
struct lane_columns {
  const std::uint32_t* words[Tiles];
};

/// Where the factors begin that a lane reads: those of the upper halves in even columns and of the
/// rest in odd ones, of the elements of its `row_piece`.
template <class Weight>
HUNCH_HOST_DEVICE std::int32_t column_offset(std::int32_t lane) {
  const std::int32_t k = lane % 4 * row_piece<Weight>::elements;
  const std::int32_t odd = lane / 4 % 2;
  return k / split_elements * split_elements + (odd * split_elements + k % split_elements) / 2;
}

/// The factors in a column of the elements of a `row_piece`.
template <class Weight>
struct column_piece {
  static constexpr int size = row_piece<Weight>::elements / 2;
  std::uint32_t words[size];

  HUNCH_HOST_DEVICE HUNCH_INLINE static column_piece read(const std::uint32_t* from) {
    column_piece out;
#if defined(__CUDA_ARCH__)
    HUNCH_UNROLLED
    for (int i = 0; i < size; i += 4) {
      const uint4 x = *reinterpret_cast<const uint4*>(from + i);
      out.words[i] = x.x, out.words[i + 1] = x.y, out.words[i + 2] = x.z, out.words[i + 3] = x.w;
    }
#else
    __builtin_memcpy(out.words, from, sizeof out.words);
#endif
    return out;
  }
};

/// Adds the products over `Blocks` blocks of 64 bytes from element k on.
template <class Weight, int Tiles, int Blocks, class Worker>
HUNCH_HOST_DEVICE HUNCH_INLINE void add_blocks(
    Worker& worker, typename Worker::template per_lane<lane_rows<Weight>>& rows,
    typename Worker::template per_lane<lane_columns<Tiles>>& columns, std::int64_t k,
    std::int64_t width, bool whole,
    typename Worker::template per_lane<team::product_sums> (&sums)[Tiles]) {
  using piece = row_piece<Weight>;
  constexpr int block = 4 * piece::elements;
  struct two_pieces {
    piece of[2];
  };
  typename Worker::template per_lane<two_pieces> pieces[Blocks];
  HUNCH_UNROLLED
  for (int u = 0; u < Blocks; ++u) {
    worker.each(
        [&](std::int32_t lane, const lane_rows<Weight>& from, two_pieces& to) {
          const std::int64_t left = width - k - u * block - lane % 4 * piece::elements;
          to.of[0] = piece::read(from.of[0] + k + u * block, left, whole);
          to.of[1] = piece::read(from.of[1] + k + u * block, left, whole);
        },
        rows, pieces[u]);
  }
  worker.sync();  // all of these loads are under way
  HUNCH_UNROLLED
  for (int u = 0; u < Blocks; ++u) {
    HUNCH_UNROLLED
    for (int n = 0; n < Tiles; ++n) {
      typename Worker::template per_lane<column_piece<Weight>> column;
      worker.each(
          [&](std::int32_t, const lane_columns<Tiles>& from, column_piece<Weight>& to) {
            // As many words as elements: an element is two halves.
            to = column_piece<Weight>::read(from.words[n] + k + u * block);
          },
          columns, column);
      HUNCH_UNROLLED
      for (int i = 0; i < piece::elements / 4; ++i) {
        typename Worker::template per_lane<team::factor_rows> left;
        typename Worker::template per_lane<team::factor_columns> right;
        worker.each(
            [&](std::int32_t, const two_pieces& rows_of, const column_piece<Weight>& column_of,
                team::factor_rows& to_left, team::factor_columns& to_right) {
              to_left = {{rows_of.of[0].pair(2 * i), rows_of.of[1].pair(2 * i),
                          rows_of.of[0].pair(2 * i + 1), rows_of.of[1].pair(2 * i + 1)}};
              to_right = {{column_of.words[2 * i], column_of.words[2 * i + 1]}};
            },
            pieces[u], column, left, right);
        worker.multiply_add(sums[n], left, right, factor<Weight>{});
      }
    }
  }
}

/// Sums over whole rows. The columns 2 j and 2 j + 1 of a tile are both halves of a hidden state:
/// lane 4 g + t ends with that of rows g and g + 8 for the states 4 n + t.
/// \param aligned whether all rows begin at multiples of 16 bytes.
template <class Weight, int Tiles, class Worker>
HUNCH_HOST_DEVICE HUNCH_INLINE void add_strip(
    Worker& worker, typename Worker::template per_lane<lane_rows<Weight>>& rows,
    typename Worker::template per_lane<lane_columns<Tiles>>& columns, std::int64_t width,
    bool aligned, typename Worker::template per_lane<team::product_sums> (&sums)[Tiles]) {
  constexpr std::int64_t block = 4 * row_piece<Weight>::elements;
  // A lane has two loads of 16 bytes in flight for each; more would not fit into its registers.
  constexpr int blocks = Tiles == 1            ? 64 / row_piece<Weight>::elements
                         : sizeof(Weight) == 2 ? 3
                                               : 2;
  std::int64_t k = 0;
  if (aligned) {
    HUNCH_ROLLED
    for (; k + blocks * block <= width; k += blocks * block) {
      add_blocks<Weight, Tiles, blocks>(worker, rows, columns, k, width, true, sums);
    }
    HUNCH_ROLLED
    for (; k + block <= width; k += block) {
      add_blocks<Weight, Tiles, 1>(worker, rows, columns, k, width, true, sums);
    }
  }
  HUNCH_ROLLED
  for (; k < width; k += block) {
    add_blocks<Weight, Tiles, 1>(worker, rows, columns, k, width, false, sums);
  }
}

}  // namespace hunch::kernel::detail
