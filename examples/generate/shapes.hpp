// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/hunch.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// What is drawn with: every stage that a flag sets.
using text_sampler =
    hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::allowed_tokens,
                             hunch::sampler::temperature, hunch::sampler::top_k,
                             hunch::sampler::top_p, hunch::sampler::min_p>;

/// The shapes of trees that the flags name.
using chain_shape = hunch::tree::chain<max_draft_length>;
using dynamic_shape = hunch::tree::dynamic<4, 4, 10>;
using sampled_shape = hunch::tree::sampled<2, 1, 1, 1>;
inline constexpr hunch::tree::choices shipped_choices{{0},    {1},    {0, 0},   {2},
                                                      {0, 1}, {1, 0}, {0, 0, 0}};
using fixed_shape = hunch::tree::fixed<shipped_choices>;

}  // namespace generate
