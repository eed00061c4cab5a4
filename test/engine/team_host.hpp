// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/executor/host.hpp>
#include "../support/thread_launch.hpp"

namespace test {

/// A host whose bodies are run by `Ranks` threads each.
template <std::int32_t Ranks>
struct team_host : hunch::executor::host {
  template <class T>
  struct buffer : hunch::executor::host::buffer<T> {
    buffer(team_host& h, std::size_t n) : hunch::executor::host::buffer<T>(h, n) {}
  };
  template <class T>
  using resident = buffer<T>;
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    hunch::test::launch_threads(1, Ranks, count, body);
  }
};

}  // namespace test
