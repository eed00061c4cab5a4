// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// Values that tell heads and vocabularies apart, for files that are made for one of them.

namespace hunch {

/// The part of a row in the fingerprint of its head: the sum over all rows, modulo 2^64, is that,
/// or 1 in place of 0. For heads that do not lie in memory as a whole.
/// \param row [width] of token t, in memory of the host. \param scale the factor of the row.
template <class Weight>
std::uint64_t row_fingerprint(token t, const Weight* row, std::int32_t width, float scale = 1.0f) {
  std::uint64_t sum = 0;
  for (std::int32_t k = 0; k < width; ++k) {
    const std::uint64_t bits = to_bfloat16(to_float(row[k]) * scale).bits;
    std::uint64_t x =
        static_cast<std::uint64_t>(t) << 40 | static_cast<std::uint64_t>(k) << 16 | bits;
    x *= 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
    sum += (bits & 0x7fff) == 0 ? 0 : x ^ (x >> 32);
  }
  return sum;
}

/// A value that tells heads apart, from all of their weights: the sum, modulo 2^64, of the mixed
/// bits of each, as a bfloat16, and of its token and place. A head has the same one in float and in
/// bfloat16, with factors per row or multiplied by them, in any order of its rows, and padded with
/// zeros. In which order it is stored is another thing: see `vocab_layout::order`. Never 0.
///
/// \param head in memory of the host, up to 2^24 tokens of 2^24 elements; integers and the factors
///        of their rows are multiplied in float.
/// \param layout the order in which it is stored; nullptr: by token.
/// \throws std::invalid_argument if the layout has another number of rows.
template <class Weight>
std::uint64_t head_fingerprint(const kernel::head_weights<Weight>& head,
                               const vocab_layout* layout = nullptr) {
  if (layout != nullptr && layout->head_rows() != head.rows) {
    throw std::invalid_argument(message({"hunch::head_fingerprint: a head of ", head.rows,
                                         " rows, and a layout of ", layout->head_rows()}));
  }
  const token* const row_token = layout == nullptr ? nullptr : layout->row_token();
  std::uint64_t sum = 0;
  for (std::int32_t r = 0; r < head.rows; ++r) {
    sum += row_fingerprint(row_token == nullptr ? r : row_token[r], head.row(r), head.width,
                           head.row_scale == nullptr ? 1.0f : head.row_scale[r]);
  }
  return sum == 0 ? 1 : sum;
}

/// A value that tells vocabularies apart: FNV-1a over what each token stands for, in the order of
/// the tokens. Never 0. \param piece piece(t) is the text of token t, or its name.
template <class Piece>
std::uint64_t vocabulary_fingerprint(std::int32_t size, Piece&& piece) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211ull; };
  for (token t = 0; t < size; ++t) {
    for (const char c : std::string_view(piece(t))) { mix(static_cast<unsigned char>(c)); }
    mix(256);  // ends a token
  }
  return hash == 0 ? 1 : hash;
}

/// How files and messages spell a fingerprint: "0x" and 16 digits.
inline std::string fingerprint_text(std::uint64_t value) {
  std::string out = "0x0000000000000000";
  for (std::size_t i = out.size(); value != 0; value >>= 4) {
    out[--i] = "0123456789abcdef"[value & 15];
  }
  return out;
}
/// And back; nothing for a text that `fingerprint_text` does not write.
inline std::optional<std::uint64_t> fingerprint_of_text(std::string_view text) {
  std::uint64_t value = 0;
  if (text.size() != 18 || !text.starts_with("0x")) { return std::nullopt; }
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 18, value, 16);
  if (error != std::errc() || end != text.data() + 18) { return std::nullopt; }
  return value;
}

}  // namespace hunch
