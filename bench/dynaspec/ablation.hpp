// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common.hpp"

namespace bench::dynaspec {

/// The paper's ablation, full vocabulary, FR-Spec and DynaSpec, each fixed and position-aware: of
/// chains along held-out text, and of EAGLE-2's trees of 60 nodes at places of it. Lists of all
/// have about as many rows in the mean over the levels of a draft as the preset dynaspec-paper,
/// FR-Spec's a few more.
void measure_ablation(report& out, const std::filesystem::path& models);

}  // namespace bench::dynaspec
