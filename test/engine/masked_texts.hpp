// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <engine/masked_model.hpp>
#include <hunch/diffusion/decoder.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>

#include "tiny_masked.hpp"

namespace test {

/// What is unmasked for each request, position by position.
using texts = std::map<hunch::request_id, std::vector<hunch::diffusion::unmasking>>;

struct filled_texts {
  texts unmaskings;
  std::int64_t passes = 0;
  std::int64_t accepted = 0;  ///< drafts
};

/// The unmaskings of two requests in a batch, with at most `length` drafts a round: 18 positions at
/// temperature 0, and 23 above it.
template <class Drafts>
filled_texts fill_two(engine::masked_model& target, Drafts drafts, int length) {
  hunch::diffusion::decoder d(
      target, hunch::diffusion::order::confidence{},
      hunch::sampler::pipeline<hunch::sampler::temperature>{},
      hunch::diffusion::verifier::stepwise_exact{}, std::move(drafts),
      hunch::diffusion::decoder_options{.max_batch = 2, .max_canvas = 64, .draft_length = length});
  static_assert(decltype(d)::lossless);
  const auto add = [&](int prompt, int answer, float temperature) {
    hunch::generation_options options;
    options.max_new_tokens = answer;
    options.temperature = temperature;
    options.seed = 3;
    d.add(some_tokens(prompt, target.mask_token(), 5), options,
          {.block_length = target.shape().block_length});
  };
  add(5, 18, 0.0f);
  add(9, 23, 0.7f);
  filled_texts out;
  while (d.running() > 0) {
    for (const hunch::diffusion::emission& e : d.step()) {
      CHECK(e.status == hunch::status::ok);
      auto& all = out.unmaskings[e.id];
      all.insert(all.end(), e.unmaskings.begin(), e.unmaskings.end());
    }
  }
  for (const int slot : {0, 1}) { CHECK(target.length(slot) == 0); }
  out.passes = d.stats().target_passes;
  out.accepted = d.stats().accepted;
  return out;
}

}  // namespace test
