// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include <hunch/executor/executor.hpp>
#include <hunch/team/serial.hpp>

namespace hunch::test {

/// An executor whose memory, and whose teams' scratch, begins as 0xFF bytes: NaNs, -1s and wild
/// pointers. Whatever is read before it is written shows.
class poisoned_host {
 public:
  template <class T>
  class buffer {
    static_assert(std::is_trivially_copyable_v<T>);

   public:
    buffer(poisoned_host&, std::size_t n) : size_(n), data_(std::make_unique<T[]>(n)) {
      std::memset(static_cast<void*>(data_.get()), 0xff, n * sizeof(T));
    }
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
      std::memset(&team.scratch(), 0xff, sizeof(team::shared_scratch));
      body(team, index);
    }
  }

  void synchronize() {}
};

static_assert(Executor<poisoned_host>);

}  // namespace hunch::test
