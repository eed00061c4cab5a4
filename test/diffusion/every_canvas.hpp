// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "../support/recorded_rows.hpp"
#include "fill.hpp"

namespace hunch::test {

/// What became of the runs over many canvases.
struct tally {
  std::int64_t runs = 0;
  std::int64_t wrong = 0;
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
};

/// Whether a decoder's result is right.
using canvas_judge = std::function<bool(const canvas_task&, const fill_result&)>;

/// All canvases of up to `longest` positions and several block lengths by a decoder; for each of
/// them is_right(task, result). All else is as in `like`.
inline void fill_every_canvas(any_canvas_decoder& d, const canvas_world& world,
                              std::int32_t longest, const canvas_task& like, tally& sum,
                              const canvas_judge& is_right) {
  std::int64_t failed = 0;
  for (std::int32_t length = 1; length <= longest; ++length) {
    for (const std::vector<token>& canvas : all_canvases(length)) {
      for (const std::int32_t block : {1, 2, 3, longest}) {
        canvas_task task = like;
        task.canvas = canvas;
        task.block_length = block;
        task.seed = static_cast<std::uint64_t>(sum.runs % 7);
        const fill_result found = fill(d, task);
        sum.wrong += is_right(task, found) ? 0 : 1;
        failed += found.failed != status::ok ? 1 : 0;
        ++sum.runs;
      }
    }
  }
  const any_canvas_decoder::counters s = d.stats();
  sum.accepted += s.accepted;
  sum.refused += s.drafted - s.accepted;
  CHECK(s.target_rows == s.steps + s.drafted);
  CHECK(s.emitted == s.steps + s.accepted - failed);
  CHECK((failed > 0) == (world.rows.bad != 0));
}

/// Compares with one token a pass.
inline canvas_judge as_stepwise(const canvas_world& world) {
  return [&world](const canvas_task& task, const fill_result& found) {
    return agrees(found, fill_stepwise(world, task));
  };
}

template <TypedCanvasDecoder Decoder>
void fill_every_canvas(Decoder& d, const canvas_world& world, std::int32_t longest,
                       const canvas_task& like, tally& sum, const canvas_judge& is_right) {
  if (world.rows.bad != 0) { recorded_rows().insert(spelled_out<Decoder>()); }
  canvas_decoder_of any(d);
  fill_every_canvas(any, world, longest, like, sum, is_right);
}

/// Likewise, compared with one token a pass.
template <TypedCanvasDecoder Decoder>
void fill_every_canvas(Decoder& d, const canvas_world& world, std::int32_t longest,
                       const canvas_task& like, tally& sum) {
  fill_every_canvas(d, world, longest, like, sum, as_stepwise(world));
}

}  // namespace hunch::test
