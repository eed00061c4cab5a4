// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <engine/masked_model.hpp>
#include <hunch/diffusion/decoder.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/self_speculation.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>

#include "tiny_masked.hpp"

/// Self-speculation with the engine's masked models writes what one token a pass writes.

namespace {

using texts = std::map<hunch::request_id, std::vector<hunch::diffusion::write>>;

/// The writes of two requests with at most `drafts` drafts a round, and the passes that it took.
std::pair<texts, std::int64_t> write(const engine::masked_config& shape,
                                     const engine::checkpoint& weights, engine::arithmetic kind,
                                     int drafts) {
  engine::masked_model m(shape, weights, {.kind = kind, .threads = 2, .max_batch = 2});
  hunch::diffusion::decoder d(
      m, hunch::diffusion::order::confidence{},
      hunch::sampler::pipeline<hunch::sampler::temperature>{},
      hunch::diffusion::verifier::stepwise_exact{}, hunch::diffusion::self_speculation<6>{},
      hunch::diffusion::decoder_options{.max_batch = 2, .max_canvas = 64, .draft_length = drafts});
  static_assert(decltype(d)::lossless);
  const auto add = [&](int prompt, int length, float temperature) {
    const auto tokens = test::some_tokens(prompt, shape.mask_token, 5);
    hunch::generation_options options;
    options.max_new_tokens = length;
    options.temperature = temperature;
    options.seed = 3;
    d.add(tokens, options, {.block_length = shape.block_length});
  };
  add(5, 18, 0.0f);
  add(9, 23, 0.7f);
  texts out;
  while (d.running() > 0) {
    for (const hunch::diffusion::emission& e : d.step()) {
      CHECK(e.status == hunch::status::ok);
      out[e.id].insert(out[e.id].end(), e.writes.begin(), e.writes.end());
    }
  }
  for (const int slot : {0, 1}) { CHECK(m.length(slot) == 0); }
  return {out, d.stats().target_passes};
}

}  // namespace

TEST_CASE("drafts from a masked model's own logits change speed only") {
  for (const test::pattern p : {test::pattern::full, test::pattern::causal_prefix}) {
    for (const bool shifted : {false, true}) {
      for (const engine::arithmetic kind : test::arithmetics()) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(shifted);
        CAPTURE(static_cast<int>(kind));
        const engine::masked_config shape = test::masked(test::tiny_config(), p, shifted);
        const auto weights = test::random_checkpoint(shape.model, engine::dtype::i8);
        const auto [stepwise, passes] = write(shape, weights, kind, 0);
        CHECK(stepwise.at(1).size() == 18);
        CHECK(stepwise.at(2).size() == 23);
        for (const int drafts : {1, 3, 6}) {
          const auto [drafted, fewer] = write(shape, weights, kind, drafts);
          CHECK(drafted == stepwise);
          CHECK(fewer < passes);
        }
      }
    }
  }
}
