// SPDX-License-Identifier: Apache-2.0

// On a GPU: every line of the table of compositions writes the texts that it writes on the host,
// bit for bit, driven by the host and repeated by the device. Without a GPU nothing is run, and the
// program says so. With HUNCH_TEST_SHORT=1 only so much is run as makes every body run once, for
// tools that watch each access to memory; with the size of a batch, only that one.

#define DOCTEST_CONFIG_DISABLE  // its checks are counted here

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <hunch/executor/cuda.cuh>
#include "../support/table_runs.hpp"

int main(int argc, char** argv) {
  using namespace hunch;
  const bool brief = std::getenv("HUNCH_TEST_SHORT") != nullptr;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("######## NO CUDA DEVICE: the compositions were NOT RUN on one ########\n");
    return 0;
  }
  int checks = 0;
  int failures = 0;
  const auto report = [&](const std::string& what, bool so) {
    ++checks;
    if (!so) {
      ++failures;
      std::printf("FAILED: %s\n", what.c_str());
      std::fflush(stdout);
      if (cudaDeviceSynchronize() != cudaSuccess) { std::exit(1); }  // nothing can run any more
    }
  };
  const std::int32_t requests = brief ? 3 : 12;
  // A device that watching tools slow down is given a small vocabulary; else one of two tiles.
  const std::int32_t vocab = brief ? 60 : 5003;
  const std::int32_t only = argc > 1 ? std::atoi(argv[1]) : 0;
  int run_batches = 0;
  for (const std::int32_t batch : {1, 3, 17}) {
    if (brief && batch != 3) { continue; }
    if (argc > 1 && only != batch) { continue; }
    ++run_batches;
    const executor::cuda device(brief ? executor::looping::launches : executor::looping::on_device);
    test::table::runner run(device, vocab, batch, requests, !brief, report);
    test::table::for_each_line(run);
  }
  if (run_batches == 0) {
    std::printf("no batch is called %s: 1, 3 and 17 are\n", argv[1]);
    return 2;
  }
  std::printf("%d device checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
