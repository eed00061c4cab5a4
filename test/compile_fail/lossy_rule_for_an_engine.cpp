// SPDX-License-Identifier: Apache-2.0
// expect: rejection_sample on logits verifies chains against draft laws

#include <hunch/interop/vllm_logits.hpp>
#include "models.hpp"

using namespace hunch;

void compose() {
  executor::host host;
  const interop::vllm::logits_arguments<float> arguments{};
#ifdef WRONG
  interop::vllm::rejection_sample(host, arguments, verifier::typical{});
#else
  interop::vllm::rejection_sample(host, arguments, verifier::block{});
#endif
}
