// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common.hpp"

namespace bench::diffusion {

/// Block caches (Fast-dLLM): the shipped masked model, its attention widened to the whole canvas,
/// without a cache, with that of the text before the block, and with that of what follows it, too.
/// Whether drafts change what is written under each of them, and how far each is from the model
/// without one.
void measure_caches(report& out, const std::filesystem::path& models);

}  // namespace bench::diffusion
