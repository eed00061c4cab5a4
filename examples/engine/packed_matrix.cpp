// SPDX-License-Identifier: Apache-2.0
#include <engine/packed_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace engine {

bool has_bf16_dot() {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  return true;
#else
  return false;
#endif
}

arithmetic preferred_bf16() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  if (has_bf16_dot() && __builtin_cpu_is("amd")) { return arithmetic::bf16_dot; }
#endif
  return arithmetic::bf16_fma;
}

namespace {

constexpr std::uint16_t zero = 0;  // as bf16

/// Where value `i` of a group of 4-bit integers is: four bytes of a lane are four neighbours, and
/// the upper halves of the same bytes are the next four.
int place_in_group(int i) { return i / 8 * 64 + i % 4; }
int nibble_shift(int i) { return i % 8 / 4 * 4; }

/// The same of bytes.
int byte_in_group(int i) { return i / 4 * 64 + i % 4; }

/// Makes integers of values, the largest of which becomes 127 or -127, and returns their scale:
/// that of weights that are no numbers is none, and so are their products.
float round_to_bytes(std::vector<float>& values) {
  float largest = 0.0f;
  bool finite = true;
  for (const float v : values) {
    largest = std::max(largest, std::fabs(v));
    finite = finite && std::isfinite(v);
  }
  const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  for (float& v : values) {
    v = scale > 0.0f ? std::clamp(std::nearbyint(v / scale), -127.0f, 127.0f) : 0.0f;
  }
  return scale;
}

}  // namespace

std::size_t packed_matrix::bytes(arithmetic kind, int outputs, int inputs) {
  const int tiles = (outputs + lanes - 1) / lanes;
  const int last = tiles % tiles_per_block;
  const auto steps = static_cast<std::size_t>((inputs + step_inputs(kind) - 1) / step_inputs(kind));
  const auto whole_blocks = static_cast<std::size_t>(tiles / tiles_per_block);
  return steps * (whole_blocks * static_cast<std::size_t>(step_bytes(kind, tiles_per_block)) +
                  static_cast<std::size_t>(step_bytes(kind, last)));
}

packed_matrix::packed_matrix(arithmetic kind, const std::vector<weight_row>& rows, int inputs,
                             std::byte* where)
    : kind_{kind}, outputs_{static_cast<int>(rows.size())}, inputs_{inputs}, data_{where} {
  std::memset(data_, 0, bytes(kind, outputs_, inputs));
  const bool keeps_scales = kind != arithmetic::f32 && kind != arithmetic::int4;
  const bool scaled =
      kind == arithmetic::int8 ||
      (keeps_scales && std::any_of(rows.begin(), rows.end(), [](const weight_row& r) {
         return r.source != nullptr && r.source->scale != nullptr;
       }));
  // Bytes that nobody writes are no zeros in int8.
  if (scaled) { scale_.assign(static_cast<std::size_t>(tiles()) * lanes, 0.0f); }
  std::vector<float> values(static_cast<std::size_t>(inputs));
  for (int output = 0; output < outputs_; ++output) {
    const weight_row& from = rows[static_cast<std::size_t>(output)];
    if (from.source == nullptr) { continue; }
    from.source->read_row(from.row, values.data());
    float scale = from.source->scale_of(from.row);
    if (kind == arithmetic::int8 && from.source->type != dtype::i8) {
      scale = round_to_bytes(values);
    }
    if (scaled) { scale_[static_cast<std::size_t>(output)] = scale; }
    if (!keeps_scales) {
      for (float& value : values) { value *= scale; }
    }
    put_row(output, values.data());
  }
}

packed_matrix::places packed_matrix::places_of(int output) const {
  const int block = output / outputs_per_block;
  const int size = step_bytes(kind_, tiles_in(block));
  const auto before = static_cast<std::size_t>(block) * static_cast<std::size_t>(steps());
  std::byte* const first =
      data_ + before * static_cast<std::size_t>(step_bytes(kind_, tiles_per_block));
  const int in_block = output % outputs_per_block;
  return {.lane = first + in_block / lanes * tile_bytes(kind_) + in_block % lanes * 4,
          .scale = first + tiles_in(block) * 256 + in_block * 2,
          .step = size};
}

void packed_matrix::put_row(int output, const float* values) {
  const places to = places_of(output);
  for (int k = 0; k < inputs_; k += step_inputs(kind_)) {
    std::byte* const at = to.lane + k / step_inputs(kind_) * to.step;
    const int count = std::min(step_inputs(kind_), inputs_ - k);
    if (kind_ == arithmetic::f32) {
      std::memcpy(at, values + k, sizeof(float));
    } else if (kind_ == arithmetic::int8) {
      for (int i = 0; i < count; ++i) {
        at[byte_in_group(i)] = static_cast<std::byte>(static_cast<int>(values[k + i]) + 128);
      }
    } else if (kind_ != arithmetic::int4) {
      const std::uint16_t pair[2] = {to_bf16(values[k]), count > 1 ? to_bf16(values[k + 1]) : zero};
      std::memcpy(at, pair, sizeof pair);
    } else {
      float group[group_size] = {};
      std::copy_n(values + k, count, group);
      const quantised_group q = quantise(group);
      std::memcpy(to.scale + k / group_size * to.step, &q.scale, sizeof q.scale);
      for (int i = 0; i < group_size; ++i) {
        at[place_in_group(i)] |= static_cast<std::byte>((q.values[i] + 8) << nibble_shift(i));
      }
    }
  }
}

void packed_matrix::read_row(int output, float* out) const {
  const places from = places_of(output);
  for (int k = 0; k < inputs_; ++k) {
    const std::byte* const at = from.lane + k / step_inputs(kind_) * from.step;
    std::uint16_t bits = 0;
    switch (kind_) {
      case arithmetic::f32:
        std::memcpy(out + k, at, sizeof(float));
        break;
      case arithmetic::bf16_fma:
      case arithmetic::bf16_dot:
        std::memcpy(&bits, at + k % 2 * 2, sizeof bits);
        out[k] = from_bf16(bits);
        break;
      case arithmetic::int8:
        out[k] = static_cast<float>(std::to_integer<int>(at[byte_in_group(k % group_size)]) - 128);
        break;
      case arithmetic::int4:
        const int i = k % group_size;
        const int value = std::to_integer<int>(at[place_in_group(i)]) >> nibble_shift(i) & 15;
        std::memcpy(&bits, from.scale + k / group_size * from.step, sizeof bits);
        out[k] = from_bf16(bits) * static_cast<float>(value - 8);
        break;
    }
  }
}

}  // namespace engine
