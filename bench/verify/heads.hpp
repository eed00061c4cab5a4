// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common.hpp"

namespace bench {

/// The products of the draft head with each set of flags, from memory and in a cache.
void measure_heads(report& out);

}  // namespace bench
