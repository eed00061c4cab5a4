// SPDX-License-Identifier: Apache-2.0
#include <engine/packed_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

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

/// The bit of its byte at which value `k` of a group begins: four bytes of a lane are four
/// neighbours, and the upper halves of the same bytes are the next four.
int nibble_shift(int k) { return k % 8 / 4 * 4; }

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
  const bool keeps_scales = kind == arithmetic::bf16_fma || kind == arithmetic::bf16_dot;
  const bool scaled =
      keeps_scales && std::any_of(rows.begin(), rows.end(), [](const weight_row& r) {
        return r.source != nullptr && r.source->scale != nullptr;
      });
  if (scaled) { scale_.assign(static_cast<std::size_t>(tiles()) * lanes, 1.0f); }
  std::vector<float> values(static_cast<std::size_t>(inputs));
  for (int output = 0; output < outputs_; ++output) {
    const weight_row& from = rows[static_cast<std::size_t>(output)];
    if (from.source == nullptr) { continue; }
    from.source->read_row(from.row, values.data());
    const float scale = from.source->scale_of(from.row);
    if (scaled) { scale_[static_cast<std::size_t>(output)] = scale; }
    if (!keeps_scales) {
      for (float& value : values) { value *= scale; }
    }
    put_row(output, values.data());
  }
}

std::byte* packed_matrix::step(int output, int k) const {
  const int block = output / outputs_per_block;
  const auto size = static_cast<std::size_t>(step_bytes(kind_, tiles_in(block)));
  const auto before = static_cast<std::size_t>(block) * static_cast<std::size_t>(steps());
  return data_ + before * static_cast<std::size_t>(step_bytes(kind_, tiles_per_block)) +
         static_cast<std::size_t>(k / step_inputs(kind_)) * size;
}

std::byte* packed_matrix::at(int output, int k) const {
  const int tile = output % outputs_per_block / lanes;
  std::byte* const lane = step(output, k) + output % lanes * 4;
  switch (kind_) {
    case arithmetic::f32:
      return lane + tile * 64;
    case arithmetic::bf16_fma:
    case arithmetic::bf16_dot:
      return lane + tile * 64 + k % 2 * 2;
    case arithmetic::int4:
      return lane + tile * 256 + k % group_size / 8 * 64 + k % 4;
  }
  return nullptr;
}

std::byte* packed_matrix::group_scale(int output, int k) const {
  const int block = output / outputs_per_block;
  return step(output, k) + tiles_in(block) * 256 + output % outputs_per_block * 2;
}

void packed_matrix::put_row(int output, const float* values) {
  for (int k = 0; k < inputs_; ++k) {
    if (kind_ == arithmetic::f32) {
      std::memcpy(at(output, k), values + k, sizeof(float));
    } else if (kind_ != arithmetic::int4) {
      const std::uint16_t bits = to_bf16(values[k]);
      std::memcpy(at(output, k), &bits, sizeof bits);
    } else if (k % group_size == 0) {
      put_group(output, k, values + k);
    }
  }
}

void packed_matrix::put_group(int output, int first, const float* values) {
  float group[group_size] = {};
  std::copy_n(values, std::min(group_size, inputs_ - first), group);
  const quantised_group q = quantise(group);
  std::memcpy(group_scale(output, first), &q.scale, sizeof q.scale);
  for (int k = 0; k < group_size; ++k) {
    *at(output, first + k) |= static_cast<std::byte>((q.values[k] + 8) << nibble_shift(k));
  }
}

void packed_matrix::read_row(int output, float* out) const {
  for (int k = 0; k < inputs_; ++k) {
    const std::byte* const from = at(output, k);
    std::uint16_t bits = 0;
    switch (kind_) {
      case arithmetic::f32:
        std::memcpy(out + k, from, sizeof(float));
        break;
      case arithmetic::bf16_fma:
      case arithmetic::bf16_dot:
        std::memcpy(&bits, from, sizeof bits);
        out[k] = from_bf16(bits);
        break;
      case arithmetic::int4:
        std::memcpy(&bits, group_scale(output, k), sizeof bits);
        out[k] = from_bf16(bits) *
                 static_cast<float>((std::to_integer<int>(*from) >> nibble_shift(k) & 15) - 8);
        break;
    }
  }
}

}  // namespace engine
