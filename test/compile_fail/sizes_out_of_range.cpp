// SPDX-License-Identifier: Apache-2.0
// expect: hunch: tree::dynamic: 1 <= top-k <= 32
// expect: hunch: tree::dynamic: depth >= 1 and total >= 2
// expect: hunch: tree::dynamic: more than 2048 candidates
// expect: hunch: tree::fixed: ranks are below 32
// expect: hunch: tree::sampled<W...> has at least one depth, and 1 to 64 children per node
// expect: hunch: such a tree::sampled has more than 4096 nodes
// expect: hunch: drafter::lookup<N> drafts N tokens
// expect: hunch: drafter::lookup<N, Longest> looks for a tail
// expect: hunch: kernel::find_match looks for tails of 1 to 16 tokens
// expect: hunch: diffusion::self_speculation<N> has N drafts in a round
// expect: hunch: diffusion::model_drafts<N> has N drafts in a round

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Of a composition: the widest, deepest or longest that it may have, or one that it may not.
constexpr std::int32_t size(std::int32_t which, std::int32_t right, std::int32_t wrong) {
#ifdef WRONG
  return which == WRONG ? wrong : right;
#else
  return which > 0 ? right : wrong;
#endif
}

constexpr tree::choices ranked{{0}, {size(4, 31, 32)}};

void compose() {
  hunch::drafter::autoregressive wide{draft_model{}, tree::dynamic<size(1, 32, 33), 1, 5>{}};
  hunch::drafter::autoregressive one{draft_model{}, tree::dynamic<2, 1, size(2, 2, 1)>{}};
  hunch::drafter::autoregressive many{draft_model{}, tree::dynamic<32, size(3, 2, 4), 60>{}};
  hunch::drafter::autoregressive fixed{draft_model{}, tree::fixed<ranked>{}};
  hunch::drafter::autoregressive drawn{draft_model{}, tree::sampled<2, size(5, 64, 0)>{}};
  hunch::drafter::autoregressive large{draft_model{}, tree::sampled<64, size(6, 62, 63)>{}};
  const hunch::drafter::lookup<size(7, 63, 64)> copied{};
  const kernel::find_match<size(9, 16, 17)> match{nullptr};
  const hunch::drafter::lookup<8, size(8, 16, 17)> tailed{};
  const diffusion::self_speculation<size(10, 63, 64)> itself{};
  const auto another = diffusion::drafted_by<size(11, 63, 64)>(masked{});
  static_cast<void>(copied), static_cast<void>(match), static_cast<void>(tailed);
  static_cast<void>(itself), static_cast<void>(another);
}
