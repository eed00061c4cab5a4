// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/model/rows.hpp>

namespace hunch {

/// One row of a pass; the fields are those of `rows`.
struct staged_row {
  std::int32_t slot = no_slot;
  std::int32_t id = 0;
  std::int32_t parent = end_of_cache;
  std::int32_t position = 0;
  token t = no_token;
  bool wanted = false;
};

/// The arrays of `rows`, [capacity] each, to be written. A trivially copyable view.
struct row_arrays {
  std::int32_t* slot = nullptr;
  std::int32_t* id = nullptr;
  std::int32_t* parent = nullptr;
  std::int32_t* position = nullptr;
  token* tokens = nullptr;
  std::uint8_t* wanted = nullptr;

  HUNCH_HOST_DEVICE void set(std::int32_t at, const staged_row& row) const {
    slot[at] = row.slot;
    id[at] = row.id;
    parent[at] = row.parent;
    position[at] = row.position;
    tokens[at] = row.t;
    wanted[at] = row.wanted ? 1 : 0;
  }
  HUNCH_HOST_DEVICE void pad(std::int32_t at) const { slot[at] = no_slot; }

  /// The first `size` of them, to be read.
  rows view(std::int32_t size, std::int32_t streams = 0) const {
    return {.size = size,
            .slot = slot,
            .id = id,
            .parent = parent,
            .position = position,
            .tokens = tokens,
            .wanted = wanted,
            .streams = streams};
  }
};

/// Owns the arrays of `rows`, buffers of an executor with a capacity fixed at construction: nothing
/// is allocated later, and nothing looks whether a row fits. `push` is for buffers that the host
/// reaches; where only bodies do, they write `arrays()`.
template <class Executor>
class staged_rows {
 public:
  staged_rows(Executor& executor, std::int32_t capacity)
      : slot_(executor, static_cast<std::size_t>(capacity)),
        id_(executor, static_cast<std::size_t>(capacity)),
        parent_(executor, static_cast<std::size_t>(capacity)),
        position_(executor, static_cast<std::size_t>(capacity)),
        tokens_(executor, static_cast<std::size_t>(capacity)),
        wanted_(executor, static_cast<std::size_t>(capacity)) {}

  void clear() { size_ = 0; }
  std::int32_t size() const { return size_; }
  std::size_t capacity() const { return slot_.size(); }

  /// Appends a row and returns its index.
  std::int32_t push(const staged_row& row) {
    arrays().set(size_, row);
    return size_++;
  }

  row_arrays arrays() const {
    return {.slot = slot_.data(),
            .id = id_.data(),
            .parent = parent_.data(),
            .position = position_.data(),
            .tokens = tokens_.data(),
            .wanted = wanted_.data()};
  }
  /// The rows so far. \param streams requested beside each wanted row.
  rows view(std::int32_t streams = 0) const { return arrays().view(size_, streams); }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::int32_t size_ = 0;
  buffer<std::int32_t> slot_;
  buffer<std::int32_t> id_;
  buffer<std::int32_t> parent_;
  buffer<std::int32_t> position_;
  buffer<token> tokens_;
  buffer<std::uint8_t> wanted_;
};

/// A staged row that stays in the cache; the fields are those of `kept_rows`.
struct kept_row {
  std::int32_t slot = no_slot;
  std::int32_t id = 0;
};

/// The arrays of `kept_rows`, to be written: [capacity] of `slot` and `id`, [max_batch] of
/// `released`. A trivially copyable view.
struct kept_arrays {
  std::int32_t* slot = nullptr;
  std::int32_t* id = nullptr;
  std::int32_t* released = nullptr;

  HUNCH_HOST_DEVICE void set(std::int32_t at, kept_row row) const {
    slot[at] = row.slot;
    id[at] = row.id;
  }
  HUNCH_HOST_DEVICE void pad(std::int32_t at) const { slot[at] = no_slot; }

  /// The first of them, to be read.
  kept_rows view(std::int32_t size, std::int32_t release_count) const {
    return {
        .size = size, .slot = slot, .id = id, .release_count = release_count, .released = released};
  }
};

/// Owns the arrays of `kept_rows`, as `staged_rows` owns those of `rows`. The rows of one sequence
/// are kept one after the other, the root first.
template <class Executor>
class kept_list {
 public:
  kept_list(Executor& executor, std::int32_t capacity, std::int32_t max_batch)
      : slot_(executor, static_cast<std::size_t>(capacity)),
        id_(executor, static_cast<std::size_t>(capacity)),
        released_(executor, static_cast<std::size_t>(max_batch)) {}

  void clear() { size_ = released_count_ = 0; }

  void keep(kept_row row) { arrays().set(size_++, row); }
  void release(std::int32_t slot) { released_.data()[released_count_++] = slot; }

  kept_arrays arrays() const {
    return {.slot = slot_.data(), .id = id_.data(), .released = released_.data()};
  }
  kept_rows view() const { return arrays().view(size_, released_count_); }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::int32_t size_ = 0;
  std::int32_t released_count_ = 0;
  buffer<std::int32_t> slot_;
  buffer<std::int32_t> id_;
  buffer<std::int32_t> released_;
};

}  // namespace hunch
