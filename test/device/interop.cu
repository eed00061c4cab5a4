// SPDX-License-Identifier: Apache-2.0
//
// The compile gate of the adapters: each of their bodies once, wrapped in a kernel with a
// block team; what draws its words from given uniforms and what from philox is shared out.

#include <hunch/interop/flashinfer.hpp>
#include <hunch/interop/sglang.hpp>
#include <hunch/interop/vllm.hpp>
#include <hunch/team/block.cuh>
#include <hunch/verifier/block.hpp>

namespace {

constexpr int threads = 256;
using team_type = hunch::team::block<threads>;
using source = hunch::random_source<>;

template <class Body>
__global__ void __launch_bounds__(threads) run(Body body) {
  __shared__ team_type::storage storage;
  team_type team(storage);
  body(team, static_cast<std::int32_t>(blockIdx.x));
}

template <class Body>
void launch(const Body& body) {
  run<<<1, threads>>>(body);
}

}  // namespace

void instantiate_adapters() {
  using namespace hunch;
  using namespace hunch::interop;
  using chain_uniforms = given_uniforms<flashinfer::chain_uniforms>;
  launch(flashinfer::chain_body<float, random_source<chain_uniforms>>{});
  launch(sglang::target_only_body<float, random_source<sglang::tree_uniforms>>{});
  launch(sglang::greedy_body{});
  launch(sglang::build_tree_body{});
  launch(vllm::rejection_body<float, source, true>{});
  launch(vllm::rejection_body<float, random_source<vllm::ragged_uniforms>, false>{});
  launch(vllm::logits_body<float, verifier::rejection, source, true>{});
  launch(vllm::logits_body<float, verifier::block, source, true>{});
}
