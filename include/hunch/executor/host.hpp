// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <hunch/executor/executor.hpp>
#include <hunch/team/serial.hpp>

namespace hunch::executor {

/// Runs bodies on the calling thread, one after the other, with a `team::serial` each. A launch
/// returns when its bodies are done, and `repeat` when the loop has ended; what they throw passes
/// through.
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

  // A loop that lives on this executor lives on the calling thread.
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    std::copy_n(from, n, to);
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    std::copy_n(from, n, to);
  }
  template <class Step>
  void repeat(std::uint64_t, Step&& step, std::int32_t* again) {
    do { step(repeat_flag{again}); } while (*again != 0);
  }
};

static_assert(ResidentExecutor<host>);

}  // namespace hunch::executor
