// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/team/simulated.hpp>

namespace generate {

/// A host that runs bodies as a device does: by teams of threads, and with memory for loops of
/// which no host reads anything between two launches.
struct thread_teams : hunch::executor::host {
  static constexpr std::int32_t threads = 2;

  template <class T>
  struct buffer : hunch::executor::host::buffer<T> {
    buffer(thread_teams& executor, std::size_t n) : hunch::executor::host::buffer<T>(executor, n) {}
  };
  template <class T>
  struct resident : hunch::executor::host::buffer<T> {
    resident(thread_teams& executor, std::size_t n)
        : hunch::executor::host::buffer<T>(executor, n) {}
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    if (count > 0) { hunch::team::simulated::launch(threads, count, body); }
  }
};

static_assert(hunch::ResidentExecutor<thread_teams>);
static_assert(!hunch::host_reads<hunch::step_memory<thread_teams>>);

}  // namespace generate
