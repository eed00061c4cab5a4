// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <engine/masked_model.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>

#include "masked_texts.hpp"

/// Self-speculation with the engine's masked models unmasks what one token a pass unmasks.

TEST_CASE("drafts from a masked model's own logits change speed only") {
  for (const test::pattern p : {test::pattern::full, test::pattern::causal_prefix}) {
    for (const bool shifted : {false, true}) {
      for (const engine::arithmetic kind : test::arithmetics()) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(shifted);
        CAPTURE(static_cast<int>(kind));
        const engine::masked_config shape = test::masked(test::tiny_config(), p, shifted);
        const auto weights = test::random_checkpoint(shape.model, engine::dtype::i8);
        engine::masked_model m(shape, weights, {.kind = kind, .threads = 2, .max_batch = 2});
        const hunch::diffusion::self_speculation<6> drafts;
        const test::filled_texts stepwise = test::fill_two(m, drafts, 0);
        CHECK(stepwise.unmaskings.at(1).size() == 18);
        CHECK(stepwise.unmaskings.at(2).size() == 23);
        for (const int length : {1, 3, 6}) {
          const test::filled_texts drafted = test::fill_two(m, drafts, length);
          CHECK(drafted.unmaskings == stepwise.unmaskings);
          CHECK(drafted.passes < stepwise.passes);
        }
      }
    }
  }
}
