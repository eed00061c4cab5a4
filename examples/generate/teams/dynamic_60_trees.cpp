// SPDX-License-Identifier: Apache-2.0
#include "generate/resident_loops.hpp"
#include "generate/teams/platform.hpp"

namespace generate {

template struct tree_loops<teams_platform, models_on<teams_platform>, dynamic_60_shape>;
template struct tree_loops<teams_platform, heads_on<teams_platform>, dynamic_60_shape>;

}  // namespace generate
