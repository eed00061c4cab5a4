// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/rows.hpp>

namespace hunch {

/// The arrays behind `rows`, with a capacity fixed at construction.
template <class Executor>
class staged_rows {
 public:
  staged_rows(Executor& executor, std::int32_t capacity)
      : sequence_(executor, static_cast<std::size_t>(capacity)),
        id_(executor, static_cast<std::size_t>(capacity)),
        parent_(executor, static_cast<std::size_t>(capacity)),
        position_(executor, static_cast<std::size_t>(capacity)),
        tokens_(executor, static_cast<std::size_t>(capacity)),
        wanted_(executor, static_cast<std::size_t>(capacity)) {}

  void clear() { size_ = 0; }
  std::int32_t size() const { return size_; }

  /// Appends a row and returns its index.
  std::int32_t push(std::int32_t sequence, std::int32_t id, std::int32_t parent,
                    std::int32_t position, token t, bool wanted) {
    sequence_.data()[size_] = sequence;
    id_.data()[size_] = id;
    parent_.data()[size_] = parent;
    position_.data()[size_] = position;
    tokens_.data()[size_] = t;
    wanted_.data()[size_] = wanted ? 1 : 0;
    return size_++;
  }

  rows view() const {
    return {size_,          sequence_.data(), id_.data(), parent_.data(), position_.data(),
            tokens_.data(), wanted_.data()};
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::int32_t size_ = 0;
  buffer<std::int32_t> sequence_;
  buffer<std::int32_t> id_;
  buffer<std::int32_t> parent_;
  buffer<std::int32_t> position_;
  buffer<token> tokens_;
  buffer<std::uint8_t> wanted_;
};

/// The arrays behind `kept_rows`, with a capacity fixed at construction.
template <class Executor>
class kept_list {
 public:
  kept_list(Executor& executor, std::int32_t capacity, std::int32_t max_batch)
      : sequence_(executor, static_cast<std::size_t>(capacity)),
        id_(executor, static_cast<std::size_t>(capacity)),
        released_(executor, static_cast<std::size_t>(max_batch)) {}

  void clear() { size_ = released_count_ = 0; }

  void keep(std::int32_t sequence, std::int32_t id) {
    sequence_.data()[size_] = sequence;
    id_.data()[size_++] = id;
  }
  void release(std::int32_t sequence) { released_.data()[released_count_++] = sequence; }

  kept_rows view() const {
    return {size_, sequence_.data(), id_.data(), released_count_, released_.data()};
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::int32_t size_ = 0;
  std::int32_t released_count_ = 0;
  buffer<std::int32_t> sequence_;
  buffer<std::int32_t> id_;
  buffer<std::int32_t> released_;
};

}  // namespace hunch
