// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/hunch.hpp>

#include "generate/tree_shapes.hpp"

namespace generate {

/// What is drawn with: every stage that a flag sets.
using text_sampler =
    hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::allowed_tokens,
                             hunch::sampler::temperature, hunch::sampler::top_k,
                             hunch::sampler::top_p, hunch::sampler::min_p>;

}  // namespace generate
