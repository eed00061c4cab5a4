// SPDX-License-Identifier: Apache-2.0
// A loop on a device that is one rank of several, by NCCL: all of its code, that of the host, too.
// Nothing here runs.
#include <cstdint>

#include <hunch/collective/nccl.cuh>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/executor/sharded_cuda.cuh>
#include <hunch/model/sharded_target.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/verifier/point_mass.hpp>

namespace hunch::gate {
namespace {

constexpr std::int32_t vocab = 128256;

/// A target whose logits a device has.
struct device_target {
  struct evaluation {
    float* data;

    row_view<float> logits(std::int32_t i) const { return {data + std::int64_t{i} * vocab, vocab}; }
    static hunch::status status(std::int32_t) { return hunch::status::ok; }
  };
  float* data = nullptr;

  std::int32_t vocab_size() const { return vocab; }
  evaluation evaluate(const rows&) const { return {data}; }
  void commit(const kept_rows&) noexcept {}
};

}  // namespace

void run_as_a_rank(ncclComm_t all, cudaStream_t stream) {
  using sampling = sampler::pipeline<sampler::temperature>;
  collective::nccl ranks(all, stream);
  ranks.all_gather_async(nullptr, 0, nullptr);
  const auto mine = vocab_shards::whole_tiles(vocab, ranks.size(), ranks.rank());
  const vocab_shards shards(ranks, static_cast<std::int32_t>(mine.begin),
                            static_cast<std::int32_t>(mine.end), vocab);
  const executor::sharded_cuda executor(ranks, shards);
  resident_decoder loop(sharded_target(device_target{}, ranks, shards), drafter::none{},
                        selector::full(vocab), sampling{}, verifier::point_mass{},
                        resident_options{}, random_source<>{}, executor);
  loop.run();
  loop.wait();
  decoder steps(sharded_target(device_target{}, ranks, shards), drafter::none{},
                selector::full(vocab), sampling{}, verifier::point_mass{}, decoder_options{},
                random_source<>{}, executor);
  steps.step();
}

}  // namespace hunch::gate
