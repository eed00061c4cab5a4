// SPDX-License-Identifier: Apache-2.0
#include <command_line/run.hpp>

#include <cstdio>
#include <exception>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>

namespace command_line {

int run(const char* program, int argc, char** argv,
        const std::function<void(const std::vector<std::string>&)>& body) {
  const auto complain = [&](const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
  };
  try {
    try {
      body({argv + 1, argv + argc});
    } catch (const help_wanted& help) { std::fputs(help.text.c_str(), stdout); }
    flush_output();
    return 0;
  } catch (const usage_error& error) {
    complain(error);
    return 2;
  } catch (const std::exception& error) {
    complain(error);
    return 1;
  }
}

}  // namespace command_line
