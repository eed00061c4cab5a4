// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/decoder.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/resident_decoder.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/distribution/random.hpp>
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

/// Two requests for a batch: 18 positions at temperature 0, and 23 above it.
template <class Decoder, class Model>
void add_two(Decoder& d, const Model& target) {
  const auto add = [&](int prompt, int answer, float temperature) {
    hunch::generation_options options;
    options.max_new_tokens = answer;
    options.temperature = temperature;
    options.seed = 3;
    d.add(some_tokens(prompt, target.mask_token(), 5), options,
          {.block_length = target.shape().block_length, .answer = {}});
  };
  add(5, 18, 0.0f);
  add(9, 23, 0.7f);
}

/// Their unmaskings, with at most `length` drafts a round.
template <class Model, class Drafts>
filled_texts fill_two(Model& target, Drafts drafts, int length) {
  hunch::diffusion::decoder d(
      target, hunch::diffusion::order::confidence{},
      hunch::sampler::pipeline<hunch::sampler::temperature>{},
      hunch::diffusion::verifier::stepwise_exact{}, std::move(drafts),
      hunch::diffusion::decoder_options{.max_batch = 2, .max_canvas = 64, .draft_length = length});
  static_assert(decltype(d)::lossless);
  add_two(d, target);
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

/// The same in a loop on an executor.
template <class E, class Model, class Drafts>
filled_texts fill_two_in_a_loop(E executor, Model& target, Drafts drafts, int length) {
  filled_texts out;
  {
    hunch::diffusion::resident_decoder d(
        target, hunch::diffusion::order::confidence{},
        hunch::sampler::pipeline<hunch::sampler::temperature>{},
        hunch::diffusion::verifier::stepwise_exact{}, std::move(drafts),
        hunch::diffusion::resident_options{.max_batch = 2,
                                           .max_canvas = 32,
                                           .max_block = target.shape().block_length,
                                           .draft_length = length,
                                           .max_bias = 0,
                                           .max_stop_tokens = 0,
                                           .ring = 8},
        hunch::random_source<>{}, executor);
    static_assert(decltype(d)::lossless);
    add_two(d, target);
    while (d.running() > 0) {
      d.run();
      d.poll([&](const hunch::ring_entry& e) {
        CHECK(e.status == hunch::status::ok);
        if (e.t != hunch::no_token) { out.unmaskings[e.id].push_back({e.position, e.t}); }
      });
    }
    out.passes = d.stats().target_passes;
    out.accepted = d.stats().accepted;
  }
  for (const int slot : {0, 1}) { CHECK(target.length(slot) == 0); }
  return out;
}

}  // namespace test
