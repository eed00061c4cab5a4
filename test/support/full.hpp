// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string_view>

namespace hunch::test {

/// Whether this is one of the long runs of `test/run.sh --long`.
inline bool full_run() {
  const char* value = std::getenv("HUNCH_TEST_FULL");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace hunch::test
