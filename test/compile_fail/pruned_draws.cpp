// SPDX-License-Identifier: Apache-2.0
// expect: which is exact for ranked children only

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct stream_heads {
  std::int32_t vocab_size() const { return 4; }
  std::int32_t hidden_size() const { return 4; }
  std::int32_t heads() const { return 2; }
  std::uint64_t head_order() const { return 0; }
  head_inputs forward(const head_inputs& inputs) { return inputs; }
  void head(const head_inputs&, const head_rows<float>&) {}
};

struct first_layers : draft_model {
  static constexpr bool shares_target_cache = true;
};

#ifdef WRONG
using shape = tree::sampled<2, 1>;
#else
using shape = tree::dynamic<2, 2, 5>;
#endif

void compose() {
  hunch::drafter::pruned d{hunch::drafter::streaming{stream_heads{}, shape{}}, first_layers{}, 3};
}
