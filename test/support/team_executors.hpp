// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/simulated_warp.hpp>
#include <hunch/team/team.hpp>
#include "thread_launch.hpp"

namespace hunch::test {

/// Bodies by teams of threads.
struct threads : executor::host {
  std::int32_t blocks = 1;
  std::int32_t ranks = 1;
  std::int32_t teams = 1;

  template <class Body>
  void launch(std::int32_t count, const Body& body) const {
    launch_threads(blocks, ranks, count, body);
  }
  template <class Body>
  std::int32_t teams_at_once(const Body&) const {
    return teams;
  }
};

/// The same, with resident memory that is not their buffers: the host reads nothing that a step
/// makes.
struct hidden_threads : threads {
  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(hidden_threads& e, std::size_t n) : executor::host::buffer<T>(e, n) {}
  };
};
static_assert(ResidentExecutor<hidden_threads>);
static_assert(host_reads<step_memory<threads>>);
static_assert(!host_reads<step_memory<hidden_threads>>);

/// A team of one thread whose worker is a simulated warp.
struct warp_team : team::serial {
  using worker_type = team::simulated_warp;

  template <class F>
  void for_each_worker(std::int32_t n, F&& f) {
    team::simulated_warp worker;
    for (std::int32_t i = 0; i < n; ++i) { f(worker, i); }
  }
  template <class F>
  void fill_by_worker(std::int32_t n, F&& f) {
    team::simulated_warp worker;
    const auto put = [this](std::int32_t k, std::int64_t value) { this->put(k, value); };
    for (std::int32_t i = 0; i < n; ++i) { f(worker, i, put); }
  }
};
static_assert(Team<warp_team>);

/// Bodies by simulated warps.
struct warps : executor::host {
  std::int32_t teams = 1;

  template <class Body>
  void launch(std::int32_t count, const Body& body) const {
    for (std::int32_t index = 0; index < count; ++index) {
      warp_team team;
      body(team, index);
    }
  }
  template <class Body>
  std::int32_t teams_at_once(const Body&) const {
    return teams;
  }
};

}  // namespace hunch::test
