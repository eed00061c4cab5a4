// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>

namespace hunch::test {

/// An executor that runs on the host what nobody reads there: its resident memory is not its
/// buffers, as on a device. Steps are launched with padding.
struct hidden_host : executor::host {
  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(hidden_host& executor, std::size_t n) : executor::host::buffer<T>(executor, n) {}
  };
};

static_assert(ResidentExecutor<hidden_host>);
static_assert(host_reads<step_memory<executor::host>>);
static_assert(!host_reads<step_memory<hidden_host>>);

}  // namespace hunch::test
