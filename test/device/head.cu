// SPDX-License-Identifier: Apache-2.0
#include <hunch/kernel/range_gemv.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct head_of_floats;
struct head_of_halves;
struct head_of_bytes;
}  // namespace names

template <class Weight>
struct head_row {
  kernel::head_weights<Weight> head;
  shortlist list;
  const float* hidden;
  row_view<float> logits;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    kernel::range_gemv(team, head, list, hidden, logits);
  }
};

kernel_pointer heads[] = {
    by_block<names::head_of_floats, head_row<float>>(),
    by_block<names::head_of_halves, head_row<bfloat16>>(),
    by_block<names::head_of_bytes, head_row<std::int8_t>>(),
};

}  // namespace hunch::gate
