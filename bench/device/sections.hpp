// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/executor/cuda.cuh>

#include "../common.hpp"
#include "timing.hpp"

/// \file
/// The parts of the suite `device`, a file each, so that they compile side by side.

namespace bench::device {

/// The draft head over all rows, and over a shortlist of clusters.
void measure_heads(report& out, cuda& executor, memory_copy& copy);
/// A law of one row, and a draw from it.
void measure_laws(report& out, cuda& executor, memory_copy& copy);
/// Verification of chains, from logits to the verdict.
void measure_verification(report& out, cuda& executor, memory_copy& copy);
/// Requests in the arrays of an engine, on logits.
void measure_adapters(report& out, cuda& executor, memory_copy& copy);
/// A step of the resident loop with models that cost nothing.
void measure_steps(report& out);

}  // namespace bench::device
