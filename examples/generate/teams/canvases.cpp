// SPDX-License-Identifier: Apache-2.0
#include "generate/resident_canvas.hpp"
#include "generate/teams/platform.hpp"

namespace generate {

template struct canvas_loops<teams_platform>;

}  // namespace generate
