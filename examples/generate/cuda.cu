// SPDX-License-Identifier: Apache-2.0

#include "generate/cuda.hpp"

#include <engine/device/cublaslt_multiply.cuh>
#include <hunch/executor/cuda.cuh>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>

#include "generate/ended.cuh"
#include "generate/resident.hpp"

namespace generate {
namespace {

using text_sampler =
    hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::temperature,
                             hunch::sampler::top_k, hunch::sampler::top_p, hunch::sampler::min_p>;

struct cuda_platform {
  using executor = hunch::executor::cuda;
  using multiply = engine::device::cublaslt_multiply;

  static bool ended(const executor& where) { return generate::ended(where); }

  /// Without a draft there is nothing to judge, so that block verification needs no plain decoding
  /// of its own.
  template <class Use>
  static void with_policies(const arguments& a, Use&& use) {
    using namespace hunch::verifier;
    switch (a.verifier) {
      case verifier_kind::rejection:
        return use(text_sampler{}, rejection{}, rejection{});
      case verifier_kind::block:
        return use(text_sampler{}, block{}, rejection{});
      case verifier_kind::coupled:
        return use(text_sampler{}, coupled{}, coupled{});
      case verifier_kind::point_mass:
        return use(text_sampler{}, point_mass{}, rejection{});
      case verifier_kind::greedy:
        return use(hunch::sampler::greedy{}, greedy{}, greedy{});
    }
  }
};

}  // namespace

void run_on_cuda(const arguments& a) {
  resident_program<cuda_platform>(a, hunch::executor::cuda{}).run();
}

}  // namespace generate
