// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <hunch/rows.hpp>
#include <hunch/types.hpp>

/// \file
/// Which rows are cached and staged in which slot, and what a pass over rows must do.

namespace engine {

/// One row of a pass.
struct planned_row {
  int slot = 0;
  int staged = 0;    ///< index among the staged rows of its slot
  int length = 0;    ///< positions attended to: the cache and the path, itself included
  int position = 0;  ///< absolute position, for the rotary embedding
  int output = -1;   ///< index among the rows that are wanted and fit, or -1
  hunch::token token = 0;
  hunch::status status = hunch::status::ok;
  /// The path to this row shares its first `shared` staged rows with the row before it in the
  /// pass; the rest is path[path_begin .. path_end).
  int shared = 0;
  int path_begin = 0;
  int path_end = 0;
};

/// Rows [begin, end) of a pass, of one slot.
struct row_group {
  int slot = 0;
  int begin = 0;
  int end = 0;
};

struct pass_plan {
  std::vector<planned_row> rows;
  std::vector<row_group> groups;
  std::vector<int> path;         ///< staged indices, see `planned_row`
  std::vector<int> output_rows;  ///< [outputs] the row of each output
};

/// The bookkeeping of all slots: cached lengths and staged rows.
class sequences {
 public:
  sequences(int slots, int context, int vocab_size);

  int slots() const { return static_cast<int>(slots_.size()); }
  int length(int slot) const { return slots_[static_cast<std::size_t>(slot)].length; }
  int staged_count(int slot) const {
    return static_cast<int>(slots_[static_cast<std::size_t>(slot)].staged.size());
  }

  /// Stages the rows and says what to compute. Rows without room, and the later ones of their
  /// sequence, get `status::cache_full`.
  /// \throws std::out_of_range for slots and tokens outside their range, std::invalid_argument for
  ///         rows that break the rules of `hunch::rows`; nothing is staged then.
  void stage(const hunch::rows& rows, pass_plan& plan);

  /// The staged index of row `id`, or -1. Rows without room have none.
  int staged_index(int slot, std::int32_t id) const noexcept;

  /// The staged index of the row before a staged row, or -1 for the end of the cache.
  int parent(int slot, int staged) const {
    return slots_[static_cast<std::size_t>(slot)].staged[static_cast<std::size_t>(staged)].parent;
  }

  /// One more cached position; returns it, or -1 when the cache is full. Staged rows stay.
  int append(int slot) noexcept;
  void discard_staged(int slot) noexcept;
  void release(int slot) noexcept;

 private:
  struct staged_row {
    std::int32_t id = 0;
    int parent = -1;  ///< staged index, or -1 for the end of the cache
    int depth = 0;    ///< rows on the path, itself included
    bool full = false;
  };
  struct slot_state {
    int length = 0;
    std::vector<staged_row> staged;
    std::vector<int> index_of_id;  ///< -1 where the id is not staged
    std::uint64_t last_pass = 0;
  };

  void check(const hunch::rows& rows);
  void check_group(const hunch::rows& rows, int begin, int end) const;
  void stage_group(const hunch::rows& rows, int begin, int end, pass_plan& plan);
  void plan_path(const slot_state& slot, int begin, pass_plan& plan);

  int context_;
  int vocab_size_;
  std::uint64_t pass_ = 0;
  std::vector<slot_state> slots_;
  std::vector<int> current_path_;
  std::vector<int> next_path_;
};

}  // namespace engine
