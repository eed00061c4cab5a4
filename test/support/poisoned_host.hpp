// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hunch/executor/host.hpp>

namespace hunch::test {

/// An executor whose memory, and whose teams' scratch, begins as 0xFF bytes: NaNs, -1s and wild
/// pointers. Whatever is read before it is written shows.
class poisoned_host : public executor::host {
 public:
  template <class T>
  class buffer : public executor::host::buffer<T> {
    static_assert(std::is_trivially_copyable_v<T>);

   public:
    buffer(poisoned_host& executor, std::size_t n) : executor::host::buffer<T>(executor, n) {
      std::memset(static_cast<void*>(this->data()), 0xff, n * sizeof(T));
    }
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    executor::host::launch(count, [&body](team::serial& team, std::int32_t index) {
      std::memset(const_cast<team::shared_scratch*>(&team.scratch()), 0xff,
                  sizeof(team::shared_scratch));
      body(team, index);
    });
  }
};

static_assert(Executor<poisoned_host>);

}  // namespace hunch::test
