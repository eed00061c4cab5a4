// SPDX-License-Identifier: Apache-2.0
#pragma once

// The compile gate of the device side: bodies of the library as the kernels that the executor for
// CUDA launches, each under a name by which budget.txt and the tests know it. Nothing here runs.

#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/verifier/verify_rows.hpp>

namespace hunch::gate {

/// A body with a name. \tparam Name a type in the namespace `names`.
template <class Name, class Body>
struct named : Body {};

using kernel_pointer = const void*;

/// The kernel of a body by a block.
template <class Name, class Body>
kernel_pointer by_block() {
  return reinterpret_cast<kernel_pointer>(executor::detail::run_body<named<Name, Body>>);
}

/// And by a cluster.
template <class Name, class Body>
kernel_pointer by_cluster() {
  return reinterpret_cast<kernel_pointer>(executor::detail::run_body_by_cluster<named<Name, Body>>);
}

using source = random_source<philox>;
using plain = sampler::pipeline<sampler::temperature>;
using stages =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

/// Rule V over laws that have been made.
template <class V>
using verified = kernel::verify_sequences<logits_view<float>, V, source>;

}  // namespace hunch::gate
