// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <hunch/executor/host.hpp>
#include <hunch/team/serial.hpp>
#include "operations.hpp"

#if defined(HUNCH_TORCH_CUDA)
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

/// \file
/// Where operations run: on torch's threads, or on torch's current stream.

namespace hunch_torch {

/// torch's threads as an executor: sequences are independent, so each is a task of its own.
struct torch_threads : hunch::executor::host {
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        hunch::team::serial team;
        body(team, static_cast<std::int32_t>(i));
      }
    });
  }
  /// Into so many parts the product of a head is divided.
  template <class Body>
  std::int32_t teams_at_once(const Body&) const {
    return at::get_num_threads();
  }
};

template <class Operation>
void launch([[maybe_unused]] const at::Device& device, const Operation& what) {
#if defined(HUNCH_TORCH_CUDA)
  if (device.is_cuda()) {
    const c10::cuda::CUDAGuard guard(device);
    return launch_on_stream(c10::cuda::getCurrentCUDAStream(), what);
  }
#endif
  torch_threads threads;
  launch_on<torch_threads>{threads}(what);
}

}  // namespace hunch_torch
