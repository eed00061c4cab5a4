// SPDX-License-Identifier: Apache-2.0
#include <hunch/core/float16.hpp>
#include <hunch/head/best_children.hpp>
#include <hunch/head/head_plan.hpp>
#include <hunch/head/multiply_strips.hpp>
#include <hunch/head/range_gemv.hpp>
#include <hunch/head/summarise_rows.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct head_of_floats;
struct head_of_bfloats;
struct head_of_bytes;
struct plan_of_a_head;
struct strips_of_floats;
struct strips_of_bfloats;
struct strips_of_bfloats_by_2;
struct strips_of_bfloats_by_4;
struct strips_of_halves;
struct strips_of_halves_by_2;
struct strips_of_halves_by_4;
struct strips_of_bytes;
struct strips_of_bytes_by_2;
struct strips_of_bytes_by_4;
struct strips_to_bfloats;
struct strips_to_bfloats_by_4;
struct summary_of_rows;
struct best_children;
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
    by_block<names::head_of_bfloats, head_row<bfloat16>>(),
    by_block<names::head_of_bytes, head_row<std::int8_t>>(),
    by_block<names::plan_of_a_head, kernel::prepare_head<bfloat16>>(),
    by_block<names::strips_of_floats, kernel::multiply_strips<float>>(),
    by_block<names::strips_of_bfloats, kernel::multiply_strips<bfloat16>>(),
    by_block<names::strips_of_bfloats_by_2, kernel::multiply_strips<bfloat16, float, 2>>(),
    by_block<names::strips_of_bfloats_by_4, kernel::multiply_strips<bfloat16, float, 4>>(),
    by_block<names::strips_of_halves, kernel::multiply_strips<float16>>(),
    by_block<names::strips_of_halves_by_2, kernel::multiply_strips<float16, float, 2>>(),
    by_block<names::strips_of_halves_by_4, kernel::multiply_strips<float16, float, 4>>(),
    by_block<names::strips_of_bytes, kernel::multiply_strips<std::int8_t>>(),
    by_block<names::strips_of_bytes_by_2, kernel::multiply_strips<std::int8_t, float, 2>>(),
    by_block<names::strips_of_bytes_by_4, kernel::multiply_strips<std::int8_t, float, 4>>(),
    by_block<names::strips_to_bfloats, kernel::multiply_strips<bfloat16, bfloat16>>(),
    by_block<names::strips_to_bfloats_by_4, kernel::multiply_strips<bfloat16, bfloat16, 4>>(),
    by_block<names::summary_of_rows, kernel::summarise_rows>(),
    by_block<names::best_children, kernel::best_children>(),
};

}  // namespace hunch::gate
