// SPDX-License-Identifier: Apache-2.0
// expect: the first argument of a decoder must model hunch::TargetModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A model that gives one row of logits, whatever rows it is asked for.
struct one_row {
  std::int32_t vocab_size() const { return 4; }
  row_view<float> evaluate(const rows&) { return {}; }
  void commit(const kept_rows&) noexcept {}
};

void compose() {
#ifdef WRONG
  decoder d{one_row{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#endif
}
