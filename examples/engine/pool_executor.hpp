// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/thread_pool.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/team/serial.hpp>

namespace engine {

/// Bodies of the library on the threads of a pool, each on one of them. A launch returns when they
/// are done.
class pool_executor : public hunch::executor::host {
 public:
  /// The pool outlives it.
  explicit pool_executor(thread_pool& pool) : pool_{&pool} {}

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    const auto share = [this, count](std::int32_t thread) { return count * thread / threads(); };
    auto run = [&](int thread) {
      for (std::int32_t index = share(thread); index < share(thread + 1); ++index) {
        hunch::team::serial team;
        body(team, index);
      }
    };
    pool_->run(run);
  }

  template <class Body>
  std::int32_t teams_at_once(const Body&) const {
    return threads();
  }

 private:
  std::int32_t threads() const { return pool_->size(); }

  thread_pool* pool_;
};

static_assert(hunch::ResidentExecutor<pool_executor>);

}  // namespace engine
