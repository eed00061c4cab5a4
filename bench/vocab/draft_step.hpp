// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common.hpp"

namespace bench {

/// A draft step of the size that DynaSpec was published for: one EAGLE layer of Llama-3-8B and its
/// head of 128,256 x 4,096, bfloat16, on all processors. What it takes with the full head, with
/// FR-Spec's 32,768 rows and with 27,000 routed rows and the router, against reading the same
/// bytes. Weights are random, the shapes are not: nothing but time is measured.
void measure_draft_step(report& out);

}  // namespace bench
