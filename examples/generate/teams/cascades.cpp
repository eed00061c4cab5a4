// SPDX-License-Identifier: Apache-2.0
#include "generate/resident_loops.hpp"
#include "generate/teams/platform.hpp"

namespace generate {

template struct tree_loops<teams_platform, cascaded_on<teams_platform>, chain_shape>;

}  // namespace generate
