// SPDX-License-Identifier: Apache-2.0
//
// The compile gate of the device side: each kernel body of the library, wrapped in a kernel with
// a block team. What is instantiated here is what an executor for CUDA launches.

#include <hunch/drafter/drafter.hpp>
#include <hunch/kernel/draw_children.hpp>
#include <hunch/kernel/range_gemv.hpp>
#include <hunch/kernel/verify_rows.hpp>
#include <hunch/random.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/block.cuh>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>

namespace {

constexpr int threads = 256;
using team_type = hunch::team::block<threads>;
using source = hunch::random_source<hunch::philox>;
using stages = hunch::sampler::pipeline<hunch::sampler::temperature, hunch::sampler::top_k,
                                        hunch::sampler::top_p>;

template <class Weight>
struct head_row {
  hunch::kernel::head_weights<Weight> head;
  hunch::shortlist list;
  const float* hidden;
  hunch::row_view<float> logits;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    hunch::kernel::range_gemv(team, head, list, hidden, logits);
  }
};

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

void instantiate_bodies() {
  using namespace hunch;
  launch(kernel::make_laws<float, stages>{});
  launch(kernel::make_laws<float, sampler::greedy>{});
  launch(kernel::make_laws<double, stages>{});
  launch(kernel::draw_children<float, stages, source>{});
  launch(kernel::draw_children<float, sampler::greedy, source>{});
  launch(kernel::verify_sequences<float, verifier::rejection, source>{});
  launch(kernel::verify_sequences<double, verifier::rejection, source>{});
  launch(kernel::verify_sequences<float, verifier::greedy, source>{});
  launch(head_row<float>{});
  launch(head_row<bfloat16>{});
}
