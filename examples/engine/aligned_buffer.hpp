// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

/// \file
/// Memory for weights, caches and workspaces.

namespace engine {

/// A zeroed array that only grows. Large ones are aligned to huge pages and ask for them: a
/// decode step reads every weight once, and with 4 KiB pages it would miss the TLB 64 times per
/// quarter of a mebibyte.
template <class T>
class aligned_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  aligned_buffer() = default;
  explicit aligned_buffer(std::size_t size) { grow(size); }
  aligned_buffer(aligned_buffer&& other) noexcept { swap(other); }
  aligned_buffer& operator=(aligned_buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~aligned_buffer() { release(); }

  /// At least `size` elements; keeps the old ones, zeroes the new ones. Grows by half at least, so
  /// that a use that grows slowly allocates rarely.
  void grow(std::size_t size) {
    if (size <= size_) { return; }
    const std::size_t wanted = data_ == nullptr ? size : std::max(size, size_ + size_ / 2);
    T* const larger = allocated(wanted);
    if (data_ != nullptr) { std::memcpy(larger, data_, size_ * sizeof(T)); }
    release();
    data_ = larger;
    size_ = wanted;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

  static std::align_val_t alignment(std::size_t bytes) {
    return std::align_val_t{bytes >= huge_page ? huge_page : 64};
  }

  static T* allocated(std::size_t size) {
    const std::size_t bytes = size * sizeof(T);
    void* const memory = ::operator new(bytes, alignment(bytes));
#if defined(__linux__)
    if (bytes >= huge_page) { madvise(memory, bytes, MADV_HUGEPAGE); }
#endif
    std::memset(memory, 0, bytes);
    return static_cast<T*>(memory);
  }

  void release() {
    if (data_ != nullptr) { ::operator delete(data_, alignment(size_ * sizeof(T))); }
  }

  void swap(aligned_buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace engine
