// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <cstdio>
#include <exception>

#include <cuda_runtime.h>

#include <hunch/distribution/random.hpp>

#include "chains.hpp"

/// \file
/// Verification of chains of five as compare.py calls it, on the tensors of torch.

namespace {

using chains = bench::device::chain_batch<hunch::random_source<>>;

template <class Use>
auto guarded(Use&& use) -> decltype(use()) {
  try {
    return use();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return {};
  }
}

}  // namespace

extern "C" {

/// A batch of drafts on `stream`; nullptr after an error, which is printed. After it the laws of
/// the draft are known, as a drafter leaves them.
/// \param target [batch, 6, vocab], \param draft [batch, 5, vocab] logits that stay in place.
/// \param drafted [batch, 5] tokens.
void* hunch_chains_create(cudaStream_t stream, std::int32_t batch, std::int32_t vocab,
                          float* target, const float* draft, const std::int32_t* drafted) {
  return guarded([&]() -> void* {
    hunch::executor::cuda executor(stream);
    return new chains(executor, batch, vocab, target, draft, drafted, {});
  });
}

void hunch_chains_destroy(void* handle) { delete static_cast<chains*>(handle); }

/// Enqueues a verification from logits; `side_by_side` says whether the laws of all rows are made
/// first. 0 after an error.
std::int32_t hunch_chains_verify(void* handle, std::int32_t side_by_side) {
  return guarded([&]() -> std::int32_t {
    auto& all = *static_cast<chains*>(handle);
    all.forget();
    if (side_by_side != 0) { all.make_laws(); }
    all.verify();
    return 1;
  });
}

/// Accepted drafts of the last verification, all chains together; -1 if one has an error.
std::int32_t hunch_chains_accepted(void* handle) {
  return guarded([&]() -> std::int32_t {
    std::int32_t accepted = 0;
    for (const hunch::verdict& v : static_cast<chains*>(handle)->verdicts()) {
      if (v.status != hunch::status::ok) { return -1; }
      accepted += v.accepted;
    }
    return accepted;
  });
}

}  // extern "C"
