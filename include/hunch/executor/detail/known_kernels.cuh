// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include <cuda_runtime.h>

#include <hunch/executor/detail/launch.cuh>
#include <hunch/executor/executor.hpp>

namespace hunch::executor::detail {

/// The kernels that a program may launch, so that they can be loaded before a stream is captured.
/// Where modules are loaded lazily, the first launch of a kernel may wait for the device, and in a
/// capture nobody may.
class known_kernels {
 public:
  /// Loads the kernels of one body, and asks for their limits.
  using loader = void (*)(launch_limits&, cudaStream_t);

  /// Before main, and when a library is loaded.
  static bool add(loader load) {
    const std::scoped_lock lock(own().mutex);
    own().loaders.push_back(load);
    return true;
  }
  /// Loads those from number `first` on. Returns how many there are.
  static std::size_t load(std::size_t first, launch_limits& limits, cudaStream_t stream) {
    const std::scoped_lock lock(own().mutex);
    for (; first < own().loaders.size(); ++first) { own().loaders[first](limits, stream); }
    return first;
  }

 private:
  struct state {
    std::mutex mutex;
    std::vector<loader> loaders;
  };
  static state& own() {
    static state of_program;
    return of_program;
  }
};

template <class Body>
void load_kernels(launch_limits& limits, cudaStream_t stream) {
  limits.of(run_body<Body>, stream);
  if constexpr (reads_rows<Body>) { limits.of(run_body_by_cluster<Body>, stream); }
}

/// Made in every program that has code to launch `Body`.
template <class Body>
inline const bool is_known = known_kernels::add(load_kernels<Body>);

}  // namespace hunch::executor::detail
