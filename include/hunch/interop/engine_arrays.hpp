// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>

/// \file
/// Arrays and numbers of an engine in the forms that engines have them in: ids of 32 or 64 bits,
/// rows that lie apart, numbers that change between the replays of a graph. One kernel serves all
/// forms; which one it is, is known when it runs.

namespace hunch::interop {

/// A number of a call, or the place where bodies find it, each time that they run. A captured graph
/// keeps a number as it was at the capture, for all its replays; a place is read by each of them.
template <std::integral T>
class deferred {
 public:
  constexpr deferred() = default;
  template <std::integral N>
  HUNCH_HOST_DEVICE constexpr deferred(N number) : number_(static_cast<T>(number)) {}
  /// \param place [1] in memory that bodies reach.
  HUNCH_HOST_DEVICE constexpr deferred(const T* place) : place_(place) {}

  /// By a body, on any rank.
  HUNCH_HOST_DEVICE T get() const { return place_ != nullptr ? *place_ : number_; }

 private:
  T number_ = 0;
  const T* place_ = nullptr;
};

/// Token ids of 32 or 64 bits, read as tokens. A 64-bit number that is no token of any vocabulary
/// is read as `no_id`.
class id_array {
 public:
  /// An id that no vocabulary has, and that is not -1, which engines pad with.
  static constexpr token no_id = -2;

  constexpr id_array() = default;
  HUNCH_HOST_DEVICE constexpr id_array(std::nullptr_t) {}
  HUNCH_HOST_DEVICE constexpr id_array(const std::int32_t* ids) : narrow_(ids) {}
  HUNCH_HOST_DEVICE constexpr id_array(const std::int64_t* ids) : wide_(ids) {}

  HUNCH_HOST_DEVICE token operator[](std::int64_t i) const {
    if (wide_ == nullptr) { return narrow_[i]; }
    const std::int64_t id = wide_[i];
    return static_cast<token>(id) == id ? static_cast<token>(id) : no_id;
  }
  /// The array from its element `i` on.
  HUNCH_HOST_DEVICE id_array from(std::int64_t i) const {
    return wide_ != nullptr ? id_array(wide_ + i) : id_array(narrow_ + i);
  }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
};

/// Where token ids of 32 or 64 bits are written.
class id_output {
 public:
  constexpr id_output() = default;
  HUNCH_HOST_DEVICE constexpr id_output(std::nullptr_t) {}
  HUNCH_HOST_DEVICE constexpr id_output(std::int32_t* ids) : narrow_(ids) {}
  HUNCH_HOST_DEVICE constexpr id_output(std::int64_t* ids) : wide_(ids) {}

  HUNCH_HOST_DEVICE void put(std::int64_t i, token t) const {
    if (wide_ != nullptr) {
      wide_[i] = t;
    } else {
      narrow_[i] = t;
    }
  }
  /// The array from its element `i` on.
  HUNCH_HOST_DEVICE id_output from(std::int64_t i) const {
    return wide_ != nullptr ? id_output(wide_ + i) : id_output(narrow_ + i);
  }

 private:
  std::int32_t* narrow_ = nullptr;
  std::int64_t* wide_ = nullptr;
};

static_assert(std::is_trivially_copyable_v<deferred<std::uint64_t>> &&
              std::is_trivially_copyable_v<id_array> && std::is_trivially_copyable_v<id_output>);

/// Elements between the beginnings of two rows of `size` elements: `stride`, which is 0 where rows
/// follow each other.
HUNCH_HOST_DEVICE constexpr std::int64_t distance_of_rows(std::int64_t stride, std::int32_t size) {
  return stride > 0 ? stride : size;
}

}  // namespace hunch::interop
