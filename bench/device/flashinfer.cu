// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>
#include <flashinfer/sampling.cuh>

/// \file
/// FlashInfer's verification of a chain as compare.py calls it: its two kernels one after the
/// other, as its Python functions `softmax` and `chain_speculative_sampling` launch them.

extern "C" {

/// Enqueues both on `stream`; 0 after an error.
/// \param logits [batch, length + 1, vocab], \param target probabilities of them, written.
/// \param draft [batch, length, vocab] probabilities, \param drafted [batch, length] tokens.
/// \param out [batch, length + 1] tokens, -1 behind the last, \param counts 2 x [batch], added to.
/// \param work memory of its own, of `work_bytes`.
std::int32_t flashinfer_verify(cudaStream_t stream, std::int32_t batch, std::int32_t length,
                               std::int32_t vocab, float* logits, float* target, float* draft,
                               std::int32_t* drafted, std::int32_t* out, std::int32_t* counts,
                               std::uint64_t seed, void* work, std::size_t work_bytes) {
  namespace from = flashinfer::sampling;
  const auto rows = static_cast<std::uint32_t>(batch * (length + 1));
  const auto d = static_cast<std::uint32_t>(vocab);
  cudaError_t status = from::OnlineSoftmax<float>(logits, target, rows, d, nullptr, 1.0f, work,
                                                  work_bytes, false, stream);
  if (status != cudaSuccess) { return 0; }
  status = from::ChainSpeculativeSampling<float, std::int32_t>(
      draft, drafted, target, out, counts, counts + batch, static_cast<std::uint32_t>(batch),
      static_cast<std::uint32_t>(length), d, true, nullptr, seed, nullptr, 0, stream);
  return status == cudaSuccess ? 1 : 0;
}

}  // extern "C"
