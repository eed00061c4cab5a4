// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>

namespace bench {

/// A canvas that was filled.
struct filled_canvas {
  std::vector<hunch::token> answer;
  std::vector<hunch::diffusion::unmasking> unmaskings;  ///< in their order
  double time = 0.0;                                    ///< seconds

  double rate() const { return static_cast<double>(unmaskings.size()) / time; }
};

/// Fills the canvas after a prompt. \param on_round()  is called after each round.
/// \throws std::runtime_error if the logits of a position are not numbers.
template <class Decoder, class OnRound>
filled_canvas fill_canvas(Decoder& d, const std::vector<hunch::token>& prompt,
                          const hunch::generation_options& request, std::int32_t block_length,
                          OnRound&& on_round) {
  filled_canvas out;
  const auto start = std::chrono::steady_clock::now();
  d.add(prompt, request, {.block_length = block_length, .answer = {}});
  while (d.running() > 0) {
    for (const hunch::diffusion::emission& e : d.step()) {
      out.unmaskings.insert(out.unmaskings.end(), e.unmaskings.begin(), e.unmaskings.end());
      if (e.finish == hunch::finish_reason::error) {
        throw std::runtime_error("the logits of a canvas are not numbers");
      }
      if (e.finish != hunch::finish_reason::none) {
        out.answer.assign(e.answer.begin(), e.answer.end());
      }
    }
    on_round();
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  out.time = passed.count();
  return out;
}

template <class Decoder>
filled_canvas fill_canvas(Decoder& d, const std::vector<hunch::token>& prompt,
                          const hunch::generation_options& request, std::int32_t block_length) {
  return fill_canvas(d, prompt, request, block_length, [] {});
}

}  // namespace bench
