// SPDX-License-Identifier: Apache-2.0
#include "common.hpp"
#include "vocab/draft_step.hpp"
#include "vocab/quality.hpp"
#include "vocab/speed.hpp"

/// \file
/// What it costs to draft over a part of the vocabulary.

int main(int argc, char** argv) {
  return bench::run(
      "vocab", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        bench::vocab::measure_quality(out, of.models);
        bench::measure_vocab_speed(out);
        bench::measure_draft_step(out);
      },
      HUNCH_BENCH_MODELS);
}
