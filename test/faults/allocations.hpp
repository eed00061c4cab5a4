// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hunch::test {

/// Counts allocations of this program while it is told to, and fails one of them. The replaced
/// operator new is in allocations.cpp.
struct allocations {
  static inline bool counting = false;
  static inline std::int64_t count = 0;
  static inline std::int64_t fail_at = -1;

  /// Runs `body` with counting on; allocation number `fail` throws std::bad_alloc.
  template <class Body>
  static std::int64_t during(Body&& body, std::int64_t fail = -1) {
    struct scope {
      ~scope() { counting = false; }
    } off;
    count = 0;
    fail_at = fail;
    counting = true;
    body();
    return count;
  }

  /// Stops counting for a while: what a model allocates is its own affair.
  struct pause {
    bool was = counting;
    pause() { counting = false; }
    ~pause() { counting = was; }
  };
};

}  // namespace hunch::test
