// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>

namespace hunch::test {

/// What an executor was asked for.
struct executor_calls {
  std::int64_t launches = 0;
  std::int64_t uploads = 0;
  std::int64_t downloads = 0;
  std::int64_t waits = 0;

  friend bool operator==(const executor_calls&, const executor_calls&) = default;
  friend executor_calls operator-(const executor_calls& a, const executor_calls& b) {
    return {.launches = a.launches - b.launches,
            .uploads = a.uploads - b.uploads,
            .downloads = a.downloads - b.downloads,
            .waits = a.waits - b.waits};
  }
};

/// An executor that counts what it is asked for; copies share the count. \tparam Host
/// executor::host or what is derived from it.
template <class Host = executor::host>
struct counting : Host {
  std::shared_ptr<executor_calls> calls = std::make_shared<executor_calls>();

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    ++calls->launches;
    Host::launch(count, body);
  }
  void synchronize() {
    ++calls->waits;
    Host::synchronize();
  }
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    ++calls->uploads;
    Host::upload(to, from, n);
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    ++calls->downloads;
    Host::download(to, from, n);
  }
};
static_assert(ResidentExecutor<counting<>>);

}  // namespace hunch::test
