// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../exact/exact.hpp"
#include "padded_models.hpp"
#include "rereading_draft.hpp"
#include "toy_streams.hpp"

namespace hunch::test {

/// Models for every drafter, over the worlds of a case.
struct grid_models {
  grid_models(const exact_case& c, const vocab_layout& layout)
      : target(c.target),
        draft(c.draft, layout),
        heads(c.draft, 3, layout),
        streams(c.draft, 3, layout),
        view(target, {c.draft.vocab, 77, flavour::smooth, 0, nullptr, c.draft.bad}, layout) {}

  toy_stream_target<> target;
  toy_draft<> draft;
  toy_heads<> heads;
  toy_stream_head<> streams;
  toy_view<toy_stream_target<>> view;  ///< of the target's first layers, over its cache
};

/// The models of a grid, and one that reads accepted tokens again, as an EAGLE head does.
struct grid_and_eagle : grid_models {
  grid_and_eagle(const exact_case& c, const vocab_layout& layout)
      : grid_models(c, layout), eagle(c.draft, layout) {}

  rereading_draft<> eagle;
};

/// The same for a loop that does not see what is padding.
struct padded_grid_models {
  using view_type = toy_view<toy_stream_target<>>;

  explicit padded_grid_models(grid_and_eagle& m, std::int32_t batch, std::int32_t max_rows)
      : target(m.target, max_rows, 3),
        draft(m.draft),
        eagle(m.eagle),
        heads(m.heads, batch),
        streams(m.streams, batch),
        view(m.view) {}

  padded_target<> target;
  resident_draft<double> draft;
  resident_draft<double, rereading_draft<>> eagle;
  padded_heads<toy_heads<>> heads;
  padded_heads<toy_stream_head<>> streams;
  resident_draft<double, view_type, false> view;
};

}  // namespace hunch::test
