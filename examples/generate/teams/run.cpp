// SPDX-License-Identifier: Apache-2.0
#include "generate/teams.hpp"

#include "generate/on_executor.hpp"
#include "generate/teams/platform.hpp"

namespace generate {

void run_on_teams(const arguments& a) { run_on_executor<teams_platform>(a, {}); }

}  // namespace generate
