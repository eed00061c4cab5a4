// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "generate/arguments.hpp"

namespace generate {

/// The program of a CUDA device on teams of host threads: as slow as it is alike.
void run_on_teams(const arguments& a);

}  // namespace generate
