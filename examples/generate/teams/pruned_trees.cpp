// SPDX-License-Identifier: Apache-2.0
#include "generate/resident_loops.hpp"
#include "generate/teams/platform.hpp"

namespace generate {

template struct tree_loops<teams_platform, pruned_on<teams_platform>, dynamic_shape>;
template struct tree_loops<teams_platform, pruned_on<teams_platform>, fixed_shape>;

}  // namespace generate
