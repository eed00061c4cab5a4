// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/thread_pool.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/head/multiply_strips.hpp>
#include <hunch/team/serial.hpp>

namespace engine {

/// Bodies of the library on the threads of a pool. Those that divide one piece of work among their
/// teams are shared by the threads; what prepares them runs on the calling one: to meet at one more
/// barrier takes longer. A launch returns when its bodies are done.
class pool_executor : public hunch::executor::host {
 public:
  /// The pool outlives it.
  explicit pool_executor(thread_pool& pool) : pool_{&pool} {}

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    if constexpr (hunch::divides_work<Body>) {
      auto run = [&, threads = threads()](int thread) {
        for (std::int32_t index = thread; index < count; index += threads) {
          hunch::team::serial team;
          body(team, index);
        }
      };
      pool_->run(run);
    } else {
      host::launch(count, body);
    }
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
static_assert(hunch::divides_work<hunch::kernel::multiply_strips<float>>);

}  // namespace engine
