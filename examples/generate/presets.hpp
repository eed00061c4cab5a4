// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
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
/// ..., "--ignore-end": true}}. Paths are relative to its folder; other members are not looked at.
/// Its name is the file's. \param without flags that are passed over. \throws usage_error naming
/// the file and what is wrong with it.
preset preset_in(const std::string& file, const std::set<std::string>& without = {});

}  // namespace generate
