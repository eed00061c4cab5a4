// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <hunch/executor/executor.hpp>

namespace hunch {

/// Values that the host appends and bodies read: a buffer of an executor with room for as many as
/// are announced when it is made. Empty, without room, if nothing is announced.
template <class T, Executor E>
class sized_buffer {
 public:
  sized_buffer() = default;
  sized_buffer(E& executor, std::size_t capacity)
      : room_(std::make_unique<buffer>(executor, capacity)) {}
  /// With these values to begin with, and room for `more`.
  sized_buffer(E& executor, std::span<const T> values, std::size_t more = 0)
      : sized_buffer(executor, values.size() + more) {
    append(values);
  }

  /// Within the room: nothing is allocated, and nothing looks whether a value fits.
  void push_back(const T& value) noexcept { room_->data()[size_++] = value; }
  void append(std::span<const T> values) noexcept {
    for (const T& value : values) { push_back(value); }
  }

  /// The same for as long as this has its room, wherever it is moved.
  T* data() const noexcept { return room_ != nullptr ? room_->data() : nullptr; }
  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t i) const noexcept { return data()[i]; }

 private:
  using buffer = typename E::template buffer<T>;

  std::size_t size_ = 0;
  std::unique_ptr<buffer> room_;  // a buffer need not be movable
};

}  // namespace hunch
