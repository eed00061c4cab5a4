// SPDX-License-Identifier: Apache-2.0
#include "counted_new.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0};

void* try_allocate(std::size_t size, std::size_t alignment) noexcept {
  ++allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size != 0 ? size : 1)
                                                : std::aligned_alloc(alignment, rounded);
}

void* allocate(std::size_t size, std::size_t alignment) {
  void* const p = try_allocate(size, alignment);
  if (p == nullptr) { throw std::bad_alloc{}; }
  return p;
}

}  // namespace

long test::allocation_count() { return allocations; }

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new[](std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
// AddressSanitizer has forms of its own that do not throw: they must not meet the deletes below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return try_allocate(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return try_allocate(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
