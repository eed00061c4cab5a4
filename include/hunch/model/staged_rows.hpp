// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/types.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/list_by_slot.hpp>

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
  staged_rows(Executor& executor, std::int32_t capacity) : owned_(executor) {
    owned_.give(capacity, arrays_.slot, arrays_.id, arrays_.parent, arrays_.position,
                arrays_.tokens, arrays_.wanted);
  }

  void clear() { size_ = 0; }
  std::int32_t size() const { return size_; }

  /// Appends a row and returns its index.
  std::int32_t push(const staged_row& row) {
    arrays_.set(size_, row);
    return size_++;
  }

  const row_arrays& arrays() const { return arrays_; }
  /// The rows so far. \param streams requested beside each wanted row.
  rows view(std::int32_t streams = 0) const { return arrays_.view(size_, streams); }

 private:
  owned_arrays<Executor> owned_;
  row_arrays arrays_;
  std::int32_t size_ = 0;
};

/// What a pass says of its rows, for bodies; on executors whose memory the host reads. Returns
/// whether there was room for all.
template <class Pass>
bool take_statuses(Pass& pass, std::int32_t size, status* to) {
  bool all = true;
  for (std::int32_t i = 0; i < size; ++i) {
    to[i] = pass.status(i);
    all = all && to[i] == status::ok;
  }
  return all;
}

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

/// Lists which slots are free, in those that `released` holds. Returns whether this one is.
/// Collective.
template <Team T, class Ends>
HUNCH_HOST_DEVICE bool list_released(T& team, const team::slot_part& part, const kept_arrays& kept,
                                     const Ends& ends) {
  const team::slot_entries listed = team::list_by_slot(
      team, part, [&](std::int32_t slot) { return ends(slot) ? 1 : 0; },
      [&](std::int32_t at, std::int32_t) { kept.released[at] = part.slot; },
      [&](std::int32_t at) { kept.released[at] = no_slot; });
  return listed.size > 0;
}

/// Owns the arrays of `kept_rows`, as `staged_rows` owns those of `rows`. The rows of one sequence
/// are kept one after the other, the root first.
template <class Executor>
class kept_list {
 public:
  kept_list(Executor& executor, std::int32_t capacity, std::int32_t max_batch) : owned_(executor) {
    owned_.give(capacity, arrays_.slot, arrays_.id);
    owned_.give(max_batch, arrays_.released);
  }

  void clear() { size_ = released_count_ = 0; }

  void keep(kept_row row) { arrays_.set(size_++, row); }
  void release(std::int32_t slot) { arrays_.released[released_count_++] = slot; }

  const kept_arrays& arrays() const { return arrays_; }
  kept_rows view() const { return arrays_.view(size_, released_count_); }

 private:
  owned_arrays<Executor> owned_;
  kept_arrays arrays_;
  std::int32_t size_ = 0;
  std::int32_t released_count_ = 0;
};

}  // namespace hunch
