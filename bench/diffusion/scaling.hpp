// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common.hpp"

namespace bench::diffusion {

/// Where self-speculation pays: the shipped masked model, widened until no cache holds it, for
/// batches of 1 to 32 and 0 to 4 canvases with drafts. What a pass over n canvases costs over one,
/// the speed-up, and what the planner says of both: of this machine and of an H200.
void measure_scaling(report& out, const std::filesystem::path& models);

}  // namespace bench::diffusion
