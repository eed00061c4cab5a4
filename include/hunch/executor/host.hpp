// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hunch/executor/executor.hpp>
#include <hunch/team/serial.hpp>

namespace hunch::executor {

/// Runs bodies on the calling thread, one after the other, with a `team::serial` each. A launch
/// returns when its bodies are done.
class host {
 public:
  template <class T>
  class buffer {
   public:
    buffer(host&, std::size_t n) : size_(n), data_(std::make_unique<T[]>(n)) {}

    T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

   private:
    std::size_t size_;
    std::unique_ptr<T[]> data_;
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    for (std::int32_t index = 0; index < count; ++index) {
      team::serial team;
      body(team, index);
    }
  }

  void synchronize() {}
};

static_assert(Executor<host>);

}  // namespace hunch::executor
