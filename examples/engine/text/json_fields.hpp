// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <engine/config_object.hpp>
#include <engine/text/pattern.hpp>

/// \file
/// What the parts of a `tokenizer.json` have in common. All of it throws std::runtime_error naming
/// the file, the field and what was expected.

namespace engine::text {

/// The objects of a list.
std::vector<config_object> objects(const config_object& in, const std::string& key);

/// The parts of {"type": "Sequence", LIST: [...]}, and of those in it; else the object itself.
/// \param list  the name of the list
std::vector<config_object> in_sequence(const config_object& in, const std::string& list);

/// The value of "pattern": {"String": ...} or {"Regex": ...}.
pattern read_pattern(const config_object& in);

/// \throws what says that `type` is none of `supported`
[[noreturn]] void refuse_type(const config_object& in, const std::string& supported);

/// \throws unless it is missing, null, false, zero or empty: what this program does not do
void expect_nothing(const config_object& in, const std::string& key);

}  // namespace engine::text
