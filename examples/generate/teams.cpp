// SPDX-License-Identifier: Apache-2.0
#include "generate/teams.hpp"

#include <engine/device/team_multiply.hpp>

#include "generate/on_executor.hpp"
#include "generate/rules.hpp"
#include "generate/thread_teams.hpp"

namespace generate {
namespace {

struct teams_platform {
  using executor = thread_teams;
  using multiply = engine::device::team_multiply<executor>;
  using rules = all_rules;

  static bool ended(const executor&) { return true; }
};

}  // namespace

void run_on_teams(const arguments& a) { run_on_executor<teams_platform>(a, {}); }

}  // namespace generate
