// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

/// \file
/// Files that flags name. What cannot be written is to be seen before the run, where that is
/// possible, and never goes opaque.

namespace command_line {

/// \throws std::runtime_error naming the flag if there can be no file of that name. Leaves what is
/// there as it is.
void check_writable(const std::string& flag, const std::string& path);

/// \throws std::runtime_error naming the flag, also where a disk is full.
void write_file(const std::string& flag, const std::string& path, const std::string& text);

/// \throws usage_error naming the flag for what is no file, cannot be read, or is longer than
/// `most` bytes.
std::string read_file(const std::string& flag, const std::string& path, std::size_t most);

/// Writes out what was printed. \throws std::runtime_error if that fails.
void flush_output();

}  // namespace command_line
