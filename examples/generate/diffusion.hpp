// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "generate/arguments.hpp"

namespace generate {

/// Text from a masked diffusion model, one token a pass and by self-speculation. On a terminal the
/// canvas fills in as positions are unmasked.
void run_diffusion(const arguments& a);

}  // namespace generate
