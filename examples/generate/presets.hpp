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

/// One that is not shipped, of a JSON file: {"line": "what it is", "flags": {"--model": "DIR",
/// ...}}. Paths are relative to its folder; other members are not looked at. Its name is the
/// file's. \throws usage_error naming the file and what is wrong with it.
preset preset_in(const std::string& file);

}  // namespace generate
