// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/ring.hpp>

#include "generate/measure.hpp"
#include "generate/run_to_end.hpp"

namespace generate {

/// Runs `batch` requests to their ends, like `run_requests`, as `run_to_end` does.
/// \throws std::runtime_error if a request ends with an error, when all have ended: the loop can be
/// used again.
template <class Decoder, class Ended, class OnToken>
run run_resident(Decoder& decoder, const std::vector<std::vector<hunch::token>>& prompts,
                 hunch::generation_options options, std::int32_t batch, Ended&& ended,
                 OnToken&& on_token) {
  run out;
  out.tokens.resize(static_cast<std::size_t>(batch));
  hunch::request_id first = 0;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const hunch::request_id id = decoder.add(prompts[i % prompts.size()], options);
    first = i == 0 ? id : first;
    ++options.seed;
  }
  const auto start = std::chrono::steady_clock::now();
  run_to_end(
      decoder, ended,
      [&](const hunch::ring_entry& e) {
        if (e.finish == hunch::finish_reason::error) {
          throw std::runtime_error(std::string("a request failed: ") + to_string(e.status));
        }
        const auto request = static_cast<std::size_t>(e.id - first);
        out.tokens[request].push_back(e.t);
        on_token(request, e.t, e.origin);
        ++out.timed;
      },
      [] {});
  out.time = seconds(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace generate
