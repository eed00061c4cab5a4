// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace generate {

/// A composition that ships, by a name.
struct preset {
  std::string name;
  std::string line;                ///< what it is, for `--help`
  std::vector<std::string> flags;  ///< that choose it; all others stay free
};

/// All of them, that of a command line without flags first.
std::span<const preset> presets();

}  // namespace generate
