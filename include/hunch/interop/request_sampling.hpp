// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>

/// \file
/// The sampling parameters of requests as the arrays that engines keep: one element for each state.
/// All of them are read when bodies run, by every replay of a captured graph.

namespace hunch::interop {

/// Parameters by state. An array that is null is that of a stage which no request uses.
struct parameter_arrays {
  const float* temperature = nullptr;         ///< [states] 0: greedy decoding; null: 1
  const std::int32_t* top_k = nullptr;        ///< [states] 0: off
  const float* top_p = nullptr;               ///< [states] 1: off
  const float* min_p = nullptr;               ///< [states] 0: off
  const float* repetition_penalty = nullptr;  ///< [states] 1: off
  const float* presence_penalty = nullptr;    ///< [states] 0: off
  const float* frequency_penalty = nullptr;   ///< [states] 0: off

  /// Whether nothing but the temperature is given.
  HUNCH_HOST_DEVICE constexpr bool only_temperature() const {
    return top_k == nullptr && top_p == nullptr && min_p == nullptr && !penalises();
  }
  HUNCH_HOST_DEVICE constexpr bool penalises() const {
    return repetition_penalty != nullptr || presence_penalty != nullptr ||
           frequency_penalty != nullptr;
  }

  HUNCH_HOST_DEVICE float temperature_of(std::int32_t state) const {
    return temperature != nullptr ? temperature[state] : sampling_parameters{}.temperature;
  }
  HUNCH_HOST_DEVICE sampling_parameters of(std::int32_t state) const {
    sampling_parameters p;
    p.temperature = temperature_of(state);
    if (top_k != nullptr) { p.top_k = top_k[state]; }
    if (top_p != nullptr) { p.top_p = top_p[state]; }
    if (min_p != nullptr) { p.min_p = min_p[state]; }
    if (repetition_penalty != nullptr) { p.repetition_penalty = repetition_penalty[state]; }
    if (presence_penalty != nullptr) { p.presence_penalty = presence_penalty[state]; }
    if (frequency_penalty != nullptr) { p.frequency_penalty = frequency_penalty[state]; }
    return p;
  }
};

/// Which tokens rows of logits may give, as bits: token t is bit t % 32 of word t / 32 of a mask.
struct allowed_arrays {
  const std::uint32_t* words = nullptr;  ///< [masks, ceil(vocab / 32)]; null: all tokens everywhere
  std::int32_t masks = 0;
  std::int64_t stride = 0;  ///< words between masks; 0: they follow each other
  /// [rows of logits] the mask of a row, -1: all tokens; null: row i has mask i.
  const std::int32_t* mask_of_row = nullptr;

  /// Finds the mask of a row of logits, null where it has none. False if there is no such mask.
  HUNCH_HOST_DEVICE bool find(std::int32_t row, std::int32_t vocab,
                              const std::uint32_t*& mask) const {
    mask = nullptr;
    if (words == nullptr) { return true; }
    const std::int32_t which = mask_of_row != nullptr ? mask_of_row[row] : row;
    if (which == -1) { return true; }
    if (which < 0 || which >= masks) { return false; }
    mask = words + which * (stride > 0 ? stride : (static_cast<std::int64_t>(vocab) + 31) / 32);
    return true;
  }
};

/// What makes a law where nothing but the temperature is given.
using scaled_logits = sampler::pipeline<sampler::temperature>;
/// And where something else is. Min-p comes before top-k and top-p, as in the samplers of engines.
using sampled_logits =
    sampler::pipeline<sampler::penalties, sampler::allowed_tokens, sampler::temperature,
                      sampler::min_p, sampler::top_k, sampler::top_p>;

}  // namespace hunch::interop
