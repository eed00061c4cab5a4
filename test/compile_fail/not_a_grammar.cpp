// SPDX-License-Identifier: Apache-2.0
// expect: Grammar

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Says what is allowed, and not what comes after a token.
struct stuck {
  using state = int;
  static state start() { return 0; }
#ifndef WRONG
  static state advance(state s, token) noexcept { return s; }
#endif
  static void allowed(state, std::uint32_t*) noexcept {}
};

void compose() { any_grammar g(stuck{}); }
