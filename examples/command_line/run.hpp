// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace command_line {

/// What `main` returns for a program that is body(words of the command line): 0, 2 with one line of
/// complaint for flags that do not go, 1 with one for other exceptions, and where the output could
/// not be written.
int run(const char* program, int argc, char** argv,
        const std::function<void(const std::vector<std::string>&)>& body);

}  // namespace command_line
