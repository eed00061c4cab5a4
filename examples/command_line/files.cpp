// SPDX-License-Identifier: Apache-2.0
#include <command_line/files.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <command_line/flags.hpp>

namespace command_line {

namespace {

namespace fs = std::filesystem;

/// Why the last call failed, after a colon, where that is known.
std::string reason() { return errno != 0 ? std::string(": ") + std::strerror(errno) : ""; }

std::runtime_error cannot_write(const std::string& flag, const std::string& path) {
  return std::runtime_error(flag + ": cannot write '" + path + "'" + reason());
}

}  // namespace

void check_writable(const std::string& flag, const std::string& path) {
  std::error_code unknown;  // then the file cannot be opened either, which says why
  const fs::file_status status = fs::status(path, unknown);
  // To open a pipe and to close it again means something to its reader.
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) { return; }
  errno = 0;
  if (!std::ofstream(path, std::ios::app)) { throw cannot_write(flag, path); }
  if (status.type() == fs::file_type::not_found) { fs::remove(path, unknown); }
}

void write_file(const std::string& flag, const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) { throw cannot_write(flag, path); }
}

std::string read_file(const std::string& flag, const std::string& path, std::size_t most) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) { throw usage_error(flag + ": '" + path + "' is a folder"); }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(most + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof())) {
    throw usage_error(flag + ": cannot read '" + path + "'" + reason());
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most) {
    throw usage_error(flag + ": '" + path + "' is longer than " + std::to_string(most) + " bytes");
  }
  return text;
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    // Nothing says why a write failed that came before this one.
    throw std::runtime_error("the output cannot be written" + reason());
  }
}

}  // namespace command_line
