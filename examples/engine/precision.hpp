// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <engine/packed_matrix.hpp>

namespace engine {

/// In how many bits the weights of a model's matrices are kept, which need not be those of its
/// checkpoint: see `arithmetic`.
enum class precision { bf16, f32, int8, int4 };

inline arithmetic arithmetic_of(precision p) {
  switch (p) {
    case precision::bf16:
      return preferred_bf16();
    case precision::f32:
      return arithmetic::f32;
    case precision::int8:
      return arithmetic::int8;
    case precision::int4:
      return arithmetic::int4;
  }
  return preferred_bf16();
}

}  // namespace engine
