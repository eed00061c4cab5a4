// SPDX-License-Identifier: Apache-2.0
// expect: E must model hunch::Executor

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Runs bodies, and gives them no memory.
struct runner {
  template <class Body>
  void launch(std::int32_t, const Body&) {}
};

void compose() {
#ifdef WRONG
  using executor_type = runner;
#else
  using executor_type = executor::host;
#endif
  decoder d{target{},          hunch::drafter::none{}, selector::full{4},
            sampled{},         verifier::rejection{},  decoder_options{},
            random_source<>{}, executor_type{}};
}
