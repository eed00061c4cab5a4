// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <hunch/executor/executor.hpp>

namespace hunch {

/// Owns the arrays that views of one object point to, each an allocation of its own in an
/// executor's memory, so that an array is named twice: in the view, and here where it is made.
template <class E>
class owned_arrays {
 public:
  /// \param executor outlives this.
  explicit owned_arrays(E& executor) : executor_(&executor) {}

  E& executor() const { return *executor_; }

  /// Points each of `at` to an array of n new values, a buffer of the executor. They live as long
  /// as this object.
  template <class... T>
  void give(std::int64_t n, T*&... at) {
    ((at = keep<typename E::template buffer<T>>(n)), ...);
  }

  /// The same for what the host writes, or reads, on executors whose buffers it does not reach too.
  template <class... T>
  void give_host_written(std::int64_t n, T*&... at) {
    ((at = keep<host_written<E, T>>(n)), ...);
  }

 private:
  template <class Buffer>
  auto* keep(std::int64_t n) {
    auto made = std::make_unique<Buffer>(*executor_, static_cast<std::size_t>(n));
    auto* const data = made->data();
    array kept(made.release(), [](void* of) { delete static_cast<Buffer*>(of); });
    arrays_.push_back(std::move(kept));
    return data;
  }

  using array = std::unique_ptr<void, void (*)(void*)>;  // a shared_ptr is four times the code

  E* executor_;
  std::vector<array> arrays_;
};

}  // namespace hunch
