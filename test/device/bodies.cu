// SPDX-License-Identifier: Apache-2.0
//
// The compile gate of the device side: each kernel body of the library, wrapped in a kernel with
// a block team. What is instantiated here is what an executor for CUDA launches.

#include <hunch/drafter/drafter.hpp>
#include <hunch/kernel/draw_children.hpp>
#include <hunch/kernel/log_probabilities.hpp>
#include <hunch/kernel/range_gemv.hpp>
#include <hunch/kernel/verify_rows.hpp>
#include <hunch/random.hpp>
#include <hunch/resident/drafting.hpp>
#include <hunch/resident/step.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/block.cuh>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>

namespace {

constexpr int threads = 256;
using team_type = hunch::team::block<threads>;
using source = hunch::random_source<hunch::philox>;
using stages =
    hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::bias,
                             hunch::sampler::allowed_tokens, hunch::sampler::temperature,
                             hunch::sampler::top_k, hunch::sampler::top_p, hunch::sampler::min_p>;

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

template <class Real, class S, class V>
void verify() {
  using view =
      hunch::verify_view<hunch::sampled_laws<Real, S>, hunch::stored_drafts<hunch::law<Real>>>;
  launch(hunch::kernel::verify_sequences<view, V, source>{});
}

using written = hunch::probabilities<float>;
using probability_view =
    hunch::verify_view<hunch::stored_laws<written>, hunch::stored_drafts<written>>;

/// The bodies of a resident step with this sampler and rule.
template <class S, class V>
void resident_step() {
  using namespace hunch;
  constexpr int nodes = 6;
  using draw = child_draw<source, V::shares_noise>;
  using chooser = selector::prefix_chooser;
  launch(resident::plant_root<float>{});
  launch(resident::begin_chain<float, chooser>{});
  launch(resident::grow_chain<float, chooser, S, draw>{});
  launch(resident::place_rows<float, S, nodes>{});
  launch(resident::make_laws<float, S, nodes>{});
  launch(resident::settle<float, S, V, source, nodes>{});
  launch(resident::go_on{});
}

}  // namespace

void instantiate_bodies() {
  using namespace hunch;
  launch(kernel::make_laws<float, stages>{});
  launch(kernel::make_laws<float, sampler::greedy>{});
  launch(kernel::draw_children<float, stages, child_draw<source, false>>{});
  launch(kernel::draw_children<float, stages, child_draw<source, true>>{});
  launch(kernel::draw_children<float, sampler::greedy, child_draw<source, false>>{});
  verify<float, stages, verifier::rejection>();
  verify<float, sampler::greedy, verifier::greedy>();
  verify<float, stages, verifier::point_mass>();
  verify<float, stages, verifier::coupled>();
  verify<float, stages, verifier::block>();
  verify<float, stages, verifier::typical>();
  verify<float, stages, verifier::top_k>();
  launch(kernel::verify_sequences<probability_view, verifier::rejection, source>{});
  launch(kernel::report_log_probabilities<float>{});
  resident_step<stages, verifier::rejection>();
  resident_step<sampler::greedy, verifier::greedy>();
  launch(head_row<float>{});
  launch(head_row<bfloat16>{});
  launch(head_row<std::int8_t>{});
}
