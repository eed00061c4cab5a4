// SPDX-License-Identifier: Apache-2.0

// On a GPU: ranks among which rows of logits are divided, as threads with a stream each on one
// device, write the texts of one rank on the host, bit for bit, driven by the host and repeated by
// the device. Their kernels exchange while they run, as those of several devices would, except that
// nothing crosses a link. Without a GPU nothing is run, and the program says so.

#define DOCTEST_CONFIG_DISABLE  // its checks are counted here

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <hunch/collective/peer_memory.hpp>
#include <hunch/collective/threads.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/core/cuda_error.cuh>
#include <hunch/executor/cuda.cuh>
#include <hunch/executor/sharded_cuda.cuh>
#include "../support/table_runs.hpp"

namespace hunch::test {
namespace {

/// Threads that reach each other's memory on a device that they share.
class threads_on_device : public collective::threads {
 public:
  using threads::threads;

  class shared_memory final : public collective::peer_memory {
   public:
    shared_memory(threads_on_device& ranks, std::size_t bytes)
        : all_(static_cast<std::size_t>(ranks.size())) {
      detail::check(cudaMalloc(&own_, bytes), "cudaMalloc");
      detail::check(cudaMemset(own_, 0, bytes), "cudaMemset");
      detail::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      ranks.all_gather(&own_, sizeof own_, all_.data());
    }
    ~shared_memory() override { cudaFree(own_); }
    shared_memory(const shared_memory&) = delete;
    shared_memory& operator=(const shared_memory&) = delete;

    void* of(std::int32_t rank) const override { return all_[static_cast<std::size_t>(rank)]; }

   private:
    void* own_ = nullptr;
    std::vector<void*> all_;
  };

  std::shared_ptr<const collective::peer_memory> share(std::size_t bytes) {
    return std::make_shared<shared_memory>(*this, bytes);
  }
};

static_assert(collective::SharesMemory<threads_on_device>);

class counted {
 public:
  void operator()(const std::string& what, bool so) {
    const std::lock_guard guard(mutex_);
    ++checks;
    if (so) { return; }
    ++failures;
    std::printf("FAILED: %s\n", what.c_str());
    std::fflush(stdout);
  }
  int checks = 0;
  int failures = 0;

 private:
  std::mutex mutex_;
};

/// Lines of the table, by one rank.
template <class Report>
void run_as(threads_on_device& rank, const vocab_shards& shards, cudaStream_t stream,
            Report report) {
  // As few blocks as a batch has: those of all ranks are on the device at once.
  const executor::sharded_cuda executor(rank, shards, executor::cuda(stream));
  table::runner run(executor, shards.vocab_size(), 3, 6, false, report);
  const length::fixed policy;
  run("autoregressive, chain", by_model(chain{}, policy), plain_sampler{}, verifier::rejection{},
      table::asked::little);
  run("autoregressive, sampled", by_model(sampled_tree{}, policy), every_stage{},
      verifier::rejection{}, table::asked::every_stage);
  run("autoregressive, block", by_model(chain{}, policy), plain_sampler{}, verifier::block{},
      table::asked::little);
  run(
      "lookup", [](auto&) { return drafter::lookup<3>{1}; }, every_stage{}, verifier::coupled{},
      table::asked::repetition);
}

void run_ranks(const std::vector<std::int32_t>& bounds, counted& report) {
  const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
  collective::threads::group group(ranks);
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const std::string name = "rank " + std::to_string(r) + " of " + std::to_string(ranks);
      try {
        threads_on_device rank(group, r);
        const vocab_shards shards(rank, bounds[static_cast<std::size_t>(r)],
                                  bounds[static_cast<std::size_t>(r) + 1], bounds.back());
        cudaStream_t stream = nullptr;
        detail::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                      "cudaStreamCreateWithFlags");
        run_as(rank, shards, stream,
               [&](const std::string& what, bool so) { report(name + ": " + what, so); });
        detail::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
      } catch (const std::exception& error) { report(name + ": " + error.what(), false); }
    });
  }
  for (std::thread& each : threads) { each.join(); }
}

}  // namespace
}  // namespace hunch::test

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("######## NO CUDA DEVICE: the ranks were NOT RUN on one ########\n");
    return 0;
  }
  hunch::test::counted report;
  hunch::test::run_ranks({0, 9003}, report);
  hunch::test::run_ranks({0, 4096, 9003}, report);
  hunch::test::run_ranks({0, 4096, 8192, 9003}, report);
  std::printf("%d device checks, %d failed\n", report.checks, report.failures);
  return report.failures == 0 ? 0 : 1;
}
