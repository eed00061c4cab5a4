// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common.hpp"

namespace bench::vocab {

/// What selectors leave of a drafter's whole vocabulary, along held-out text and in generation.
void measure_quality(report& out, const std::filesystem::path& models);

}  // namespace bench::vocab
