// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <engine/device/team_multiply.hpp>

#include "generate/rules.hpp"
#include "generate/thread_teams.hpp"

namespace generate {

/// Teams of threads of the host.
struct teams_platform {
  using executor = thread_teams;
  using multiply = engine::device::team_multiply<executor>;
  using rules = all_rules;

  static bool ended(const executor&) { return true; }
};

}  // namespace generate
