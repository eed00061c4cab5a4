// SPDX-License-Identifier: Apache-2.0
#include <engine/packed_matrix.hpp>

#include <algorithm>
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

std::size_t packed_matrix::bytes(arithmetic kind, int outputs, int inputs) {
  const auto tiles = static_cast<std::size_t>((outputs + lanes - 1) / lanes);
  const auto steps = static_cast<std::size_t>(kind == arithmetic::f32 ? inputs : (inputs + 1) / 2);
  return tiles * steps * 64;
}

packed_matrix::packed_matrix(arithmetic kind, const std::vector<weight_row>& rows, int inputs,
                             std::byte* where)
    : kind_{kind}, outputs_{static_cast<int>(rows.size())}, inputs_{inputs}, data_{where} {
  std::memset(data_, 0, bytes(kind, outputs_, inputs));
  const bool scaled =
      kind != arithmetic::f32 && std::any_of(rows.begin(), rows.end(), [](const weight_row& r) {
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
    for (int k = 0; k < inputs; ++k) {
      const float value = values[static_cast<std::size_t>(k)];
      std::byte* const to = data_ + offset(output, k);
      if (kind == arithmetic::f32) {
        const float product = value * scale;
        std::memcpy(to, &product, sizeof product);
      } else {
        const std::uint16_t bits = to_bf16(value);
        std::memcpy(to, &bits, sizeof bits);
      }
    }
  }
}

std::size_t packed_matrix::offset(int output, int k) const {
  const int block = output / outputs_per_block;
  const int tile = output % outputs_per_block / lanes;
  const int width = std::min(tiles_per_block, tiles() - block * tiles_per_block);
  const int step = kind_ == arithmetic::f32 ? k : k / 2;
  const std::size_t registers =
      static_cast<std::size_t>(block) * tiles_per_block * static_cast<std::size_t>(steps()) +
      static_cast<std::size_t>(step) * static_cast<std::size_t>(width) +
      static_cast<std::size_t>(tile);
  const int in_register = output % lanes * 4 + (kind_ == arithmetic::f32 ? 0 : k % 2 * 2);
  return registers * 64 + static_cast<std::size_t>(in_register);
}

void packed_matrix::read_row(int output, float* out) const {
  for (int k = 0; k < inputs_; ++k) {
    const std::byte* const from = data_ + offset(output, k);
    if (kind_ == arithmetic::f32) {
      std::memcpy(out + k, from, sizeof(float));
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from, sizeof bits);
      out[k] = from_bf16(bits);
    }
  }
}

}  // namespace engine
