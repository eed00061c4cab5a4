// SPDX-License-Identifier: Apache-2.0
#include "generate/teams.hpp"

#include "generate/resident.hpp"
#include "generate/teams/platform.hpp"

namespace generate {

void run_on_teams(const arguments& a) { resident_program<teams_platform>(a, {}).run(); }

}  // namespace generate
