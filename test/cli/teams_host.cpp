// SPDX-License-Identifier: Apache-2.0

// What `generate --device teams` does, where a quick build has left it out of `generate`.

#include <command_line/run.hpp>

#include "generate/arguments.hpp"
#include "generate/teams.hpp"

int main(int argc, char** argv) {
  return command_line::run("teams_host", argc, argv, [](const auto& words) {
    generate::run_on_teams(generate::parse(words));
  });
}
