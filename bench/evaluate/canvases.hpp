// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "common.hpp"
#include "evaluate/categories.hpp"
#include "evaluate/scores.hpp"

namespace bench::evaluate {

/// The presets of masked diffusion models beside one token a pass. \param categories  as the target
/// of the other presets orders them, which has the same tokens.
void measure_canvases(report& out, const std::filesystem::path& models,
                      const std::vector<category>& categories, const extent& much);

}  // namespace bench::evaluate
