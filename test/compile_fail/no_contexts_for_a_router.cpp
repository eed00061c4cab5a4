// SPDX-License-Identifier: Apache-2.0
// expect: asks the draft model for contexts: context_width(), and contexts(rows) before a pass
// expect: asks the draft model for contexts of all rows: contexts(rows) before a pass

#include "../support/hidden_host.hpp"
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Tells of one row at a time, for which the host must know which rows there are.
struct told_by_row : evaluation {
  const float* context(std::int32_t) const { return nullptr; }
};
struct telling_model : draft_model {
  static std::int32_t context_width() { return 2; }
  told_by_row forward(const rows&) { return {}; }
};

#if defined(WRONG) && WRONG == 1
using model = draft_model;
#else
using model = telling_model;
#endif
#if defined(WRONG) && WRONG == 2
using host = test::hidden_host;
#else
using host = executor::host;
#endif

void compose() {
  decoder d{
      target{},
      hunch::drafter::autoregressive{model{}, tree::chain<1>{}},
      selector::clustered{vocab_layout::identity(4).clustered({0, 2, 4}),
                          router::mlp<float>{{nullptr, 2, 2}, nullptr, {nullptr, 2, 2}, nullptr},
                          budget::fixed{1}},
      sampled{},
      verifier::rejection{},
      decoder_options{},
      random_source<>{},
      host{}};
  d.step();
}
