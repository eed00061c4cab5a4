// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace test {

/// How often the program has called an allocation function; all of them are replaced.
long allocation_count();

}  // namespace test
