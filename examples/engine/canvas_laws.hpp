// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <engine/canvas_plan.hpp>
#include <engine/pointwise.hpp>

namespace engine {

/// Rows of a pass over canvases, and room for its results. \tparam Implementation a
/// `model::implementation`.
template <class Implementation>
void reserve_canvases(Implementation& m, const canvas_plan& plan) {
  m.reserve_rows(plan.rows.rows.size());
  for (const row_group& group : m.span.groups) {
    m.cache.reserve_staged(group.slot, group.end - group.begin);
  }
  m.reserve_outputs(plan.outputs.size());
}

/// Hidden states and logits of the wanted positions, as far as they are `thread`'s.
/// \param last_state last_state(slot): the state of a position that the pass has no row of.
template <class Implementation, class LastState>
void write_canvas_laws(Implementation& m, const std::vector<canvas_output>& outputs,
                       const LastState& last_state, int thread) {
  const auto count = static_cast<int>(outputs.size());
  const auto mine = m.part(count, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const canvas_output& from = outputs[static_cast<std::size_t>(i)];
    float* const out = m.result.hidden.data() + static_cast<std::ptrdiff_t>(i) * m.hidden_stride;
    if (from.row < 0) {
      std::copy_n(last_state(from.slot), m.hidden_stride, out);
    } else {
      rms_norm(m.residual(from.row), m.weights.final_norm().data(), m.shape.hidden,
               m.shape.norm_epsilon, out);
    }
  }
  m.pool.barrier();
  m.write_logits(count, thread);
}

}  // namespace engine
