// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

void* operator new(std::size_t size) {
  using hunch::test::allocations;
  if (allocations::counting && allocations::count++ == allocations::fail_at) {
    throw std::bad_alloc();
  }
  if (void* p = std::malloc(size > 0 ? size : 1)) { return p; }
  throw std::bad_alloc();
}

// The sanitizers' own array forms would not come through the one above.
void* operator new[](std::size_t size) { return operator new(size); }

void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
