// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the parts of device_test share. Each is a file of its own, for most of the time goes into
// compiling the kernels of its loops.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <hunch/executor/cuda.cuh>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include "../support/resident_runs.hpp"

namespace hunch::test {

using plain = sampler::pipeline<sampler::temperature>;
using stages = sampler::pipeline<sampler::penalties, sampler::bias, sampler::temperature,
                                 sampler::top_k, sampler::top_p, sampler::min_p>;

/// Checks that have been made, or would have been where there is a device.
struct device_checks {
  int made = 0;
  int failures = 0;
  bool has_device = false;
  bool brief = false;

  device_checks() : brief(std::getenv("HUNCH_TEST_SHORT") != nullptr) {
    int devices = 0;
    has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  }

  /// Calls `passes` where there is a device. After an error of the device nothing can run there.
  template <class Passes>
  void operator()(const std::string& what, Passes&& passes) {
    ++made;
    if (!has_device) { return; }
    bool passed = false;
    std::string why;
    try {
      passed = passes();
    } catch (const std::exception& error) { why = std::string(": ") + error.what(); }
    if (passed) { return; }
    ++failures;
    std::printf("FAILED: %s%s\n", what.c_str(), why.c_str());
    std::fflush(stdout);
    if (cudaDeviceSynchronize() != cudaSuccess) { std::exit(1); }
  }

  /// Watching tools know little of graphs; what they are to see are the bodies.
  std::vector<executor::looping> ways() const {
    if (brief) { return {executor::looping::launches}; }
    return {executor::looping::launches, executor::looping::graphs, executor::looping::on_device};
  }
};

inline std::string name_of(executor::looping how) {
  return ", looping " + std::to_string(static_cast<int>(how));
}

template <class By = by_frequency, class S, class V>
void same_texts(device_checks& check, const char* name, S sampler, V verifier, run_kind kind) {
  const std::int32_t count = check.brief ? 3 : 12;
  const std::vector<run_request> requests = run_requests_of(kind, count);
  const std::vector<std::int32_t> batches =
      check.brief ? std::vector<std::int32_t>{2} : std::vector<std::int32_t>{1, 3, count};
  for (const std::int32_t batch : batches) {
    for (const std::int32_t eager_rows : {0, 1000}) {
      for (const executor::looping how : check.ways()) {
        check(std::string(name) + ", batch " + std::to_string(batch) + ", eager rows " +
                  std::to_string(eager_rows) + name_of(how),
              [&] {
                return resident_texts<By>(executor::cuda{how}, sampler, verifier, requests, batch,
                                          batch == 3 ? 2 : 1000, eager_rows) ==
                       resident_texts<By>(executor::host{}, sampler, verifier, requests, batch,
                                          1000, eager_rows);
              });
      }
    }
  }
}

// The parts.
void check_texts_by_residuals(device_checks& check);
void check_texts_by_points(device_checks& check);
void check_texts_of_stages(device_checks& check);
void check_texts_of_routers(device_checks& check);

}  // namespace hunch::test
