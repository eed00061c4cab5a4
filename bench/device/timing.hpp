// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>

#include <hunch/executor/cuda.cuh>

#include "../common.hpp"

/// \file
/// Times of what is enqueued on a stream, by events, and the bandwidth that they are held against.

namespace bench::device {

using hunch::executor::cuda;
using hunch::executor::detail::check;

/// \throws std::runtime_error where there is no device to measure.
inline void need_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    throw std::runtime_error("this suite needs a CUDA device, and there is none");
  }
}

/// Something to be timed.
struct candidate {
  std::function<void()> run;          ///< enqueues `count` pieces of work
  double count = 1.0;                 ///< of which one is reported
  std::function<void()> before = {};  ///< is enqueued before, not timed
};

/// Keeps the device busy for some twenty microseconds.
struct pause {
  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T&, std::int32_t) const {
#if defined(__CUDA_ARCH__)
    const long long start = clock64();
    while (clock64() - start < 40000) {}
#endif
  }
};

/// Two points of a stream.
class stopwatch {
 public:
  explicit stopwatch(cuda& executor) : executor_(executor), first_(made()), last_(made()) {}

  /// The device pauses first, so that the host is ahead of it and launching is not timed.
  void start() {
    executor_.launch(1, pause{});
    check(cudaEventRecord(first_.get(), executor_.stream()), "cudaEventRecord");
  }
  void stop() { check(cudaEventRecord(last_.get(), executor_.stream()), "cudaEventRecord"); }
  /// Seconds between them; waits for the second.
  double seconds() {
    float milliseconds = 0.0f;
    check(cudaEventSynchronize(last_.get()), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&milliseconds, first_.get(), last_.get()), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  struct destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy>;

  static event made() {
    cudaEvent_t raw = nullptr;
    check(cudaEventCreate(&raw), "cudaEventCreate");
    return event(raw);
  }

  cuda executor_;
  event first_;
  event last_;
};

/// Seconds of one piece of every candidate in every round, [candidate][round]. The candidates take
/// turns, after one round that is not counted, as in `interleave`.
inline timings interleave_on(cuda& executor, int rounds, const std::vector<candidate>& candidates) {
  stopwatch watch(executor);
  timings out(candidates.size());
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].before) { candidates[i].before(); }
      executor.synchronize();
      watch.start();
      candidates[i].run();
      watch.stop();
      const double time = watch.seconds() / candidates[i].count;
      if (round >= 0) { out[i].push_back(time); }
    }
  }
  return out;
}

/// A copy within the device's memory, much larger than its caches: the bandwidth that floors are
/// made of. It is timed in every section, in turn with what is held against it.
class memory_copy {
 public:
  explicit memory_copy(cuda& executor)
      : executor_(executor), from_(executor_, bytes), to_(executor_, bytes) {}

  candidate work() {
    return {[this] {
      check(cudaMemcpyAsync(to_.data(), from_.data(), bytes, cudaMemcpyDeviceToDevice,
                            executor_.stream()),
            "cudaMemcpyAsync");
    }};
  }
  /// Seconds of reading `size` bytes at the rate of a copy that took `seconds`.
  static double floor(double size, double seconds) { return size / (2.0 * bytes) * seconds; }
  /// Bytes read and written per second.
  static double bandwidth(double seconds) { return 2.0 * bytes / seconds; }

 private:
  static constexpr std::size_t bytes = std::size_t{1} << 30;

  cuda executor_;
  cuda::resident<std::byte> from_;
  cuda::resident<std::byte> to_;
};

/// The median over rounds of the floor over the time of a piece: 1 is the bandwidth of the copy.
inline double share_of_copy(double bytes, const std::vector<double>& copy,
                            const std::vector<double>& times) {
  std::vector<double> floors;
  for (const double seconds : copy) { floors.push_back(memory_copy::floor(bytes, seconds)); }
  return median_ratio(floors, times);
}

/// What was enqueued by `record()`, as a graph.
class recorded_work {
 public:
  template <class Record>
  recorded_work(cuda& executor, Record&& record) : stream_(executor.stream()) {
    namespace detail = hunch::executor::detail;
    cudaGraph_t raw = nullptr;
    check(cudaGraphCreate(&raw, 0), "cudaGraphCreate");
    const detail::graph graph(raw);
    check(cudaStreamBeginCaptureToGraph(stream_, raw, nullptr, nullptr, 0,
                                        cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCaptureToGraph");
    detail::capture_guard guard(stream_);
    record();
    guard.end("cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, raw, 0), "cudaGraphInstantiate");
    graph_.reset(executable);
  }

  void launch() { check(cudaGraphLaunch(graph_.get(), stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  hunch::executor::detail::executable graph_;
};

}  // namespace bench::device
