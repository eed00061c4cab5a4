// SPDX-License-Identifier: Apache-2.0
// expect: LengthPolicy

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Learns by observing, and may throw while it does.
struct careless : length::ewma {
#ifdef WRONG
  void observe(memory&, std::int32_t, std::int32_t) const {}
#else
  void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
#endif
};

void compose() {
  decoder d{target{}, hunch::drafter::lookup<4, 4, careless>{}, selector::full{4}, sampled{},
            verifier::point_mass{}};
}
