// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../exact/exact.hpp"

namespace hunch::test {

/// What the requests of a test differ in.
struct variety {
  std::int32_t tokens = 40;          ///< that prompts are made of, from 0 on
  std::int32_t longest_prompt = 11;  ///< tokens at most
  std::int32_t longest_text = 23;    ///< likewise
};

/// Request n of a test: of many lengths, every third with stop tokens, every fourth at temperature
/// 0, each with a seed of its own.
inline request varied_request(std::int32_t n, const variety& of) {
  request r{{}, ask(1 + 5 * n % of.longest_text, n % 4 == 3 ? 0.0f : 0.8f)};
  for (std::int32_t t = 0; t <= 3 * n % of.longest_prompt; ++t) {
    r.prompt.push_back((7 * n + 3 * t) % of.tokens);
  }
  r.options.seed = static_cast<std::uint64_t>(500 + n);
  if (n % 3 == 0) { r.options.stop_tokens = {3, 11, 20}; }
  return r;
}

}  // namespace hunch::test
