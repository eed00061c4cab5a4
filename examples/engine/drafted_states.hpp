// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/model/rows.hpp>

namespace engine {

/// What draft heads made of their inputs: row i * heads + j is that of head j for input i. A view:
/// valid until their next `forward`.
struct drafted_states {
  std::int32_t size = 0;   ///< rows
  std::int32_t heads = 0;  ///< rows of an input
  const float* states = nullptr;
  std::int32_t hidden_size = 0;
  std::int32_t stride = 0;

  /// [hidden] the input of the language-model head.
  hunch::row_view<const float> hidden(std::int32_t row) const {
    return {states + static_cast<std::ptrdiff_t>(row) * stride, hidden_size};
  }
  /// [context_width] what a router reads: the same.
  const float* context(std::int32_t row) const { return hidden(row).data; }
};

/// \throws std::out_of_range for rows that were not computed, naming `who`.
void check_rows(const char* who, const drafted_states& states, const hunch::head_rows<float>& rows);

/// \throws std::out_of_range for roots outside the vocabulary, naming `who`.
void check_roots(const char* who, const hunch::head_inputs& inputs, std::int32_t vocab_size);

}  // namespace engine
