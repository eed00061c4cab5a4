// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common.hpp"

namespace bench {

/// The head over a fifth of 128,256 tokens and over all of them, on one thread, against reading the
/// same bytes; what choosing the fifth costs; and what others would do. All weights come from
/// memory.
void measure_vocab_speed(report& out);

}  // namespace bench
