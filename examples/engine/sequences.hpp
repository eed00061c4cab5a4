// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>

/// \file
/// Which rows are cached and staged in which slot, and what a pass over rows must do.

namespace engine {

/// Streams beside a row at most: positions that a cache has beyond its context.
inline constexpr int max_streams = 8;

/// One row of a pass: of a token, or of a stream beside one.
struct planned_row {
  int slot = 0;
  int staged = 0;     ///< index among the staged rows of its slot
  int layers = 0;     ///< that a view of the first layers has computed for it before
  int length = 0;     ///< positions attended to: the cache and the path, itself included
  int position = 0;   ///< absolute position, for the rotary embedding
  int output = -1;    ///< index among the rows that are wanted and fit, or -1
  int main_row = -1;  ///< of a stream: the row of the token
  int stream = -1;    ///< of a stream: which one, from 0
  hunch::token token = 0;
  hunch::status status = hunch::status::ok;
};

struct pass_plan {
  std::vector<planned_row> rows;  ///< those of tokens, and then those of streams
  std::vector<int> output_rows;   ///< [outputs] the row of each output
  int streams = 0;                ///< beside each output

  /// How many rows are of tokens.
  int tokens() const {
    return static_cast<int>(rows.size()) - static_cast<int>(output_rows.size()) * streams;
  }
};

/// A row of a pass in some of its layers. What it attends to ends with the staged rows
/// path[path_begin .. path_end); what comes before them it shares with the row before it in these
/// layers.
struct layer_row {
  int row = 0;  ///< of the pass
  int path_begin = 0;
  int path_end = 0;
};

/// Rows [begin, end) of some layers, of one slot.
struct row_group {
  int slot = 0;
  int begin = 0;
  int end = 0;
};

/// Layers [first, last) of a pass: the rows that go through them.
struct layer_span {
  int first = 0;
  int last = 0;
  std::vector<layer_row> rows;
  int tokens = 0;  ///< the first of `rows`; the others are of streams
  std::vector<row_group> groups;
  int token_groups = 0;   ///< the first of `groups`
  std::vector<int> path;  ///< staged indices, see `layer_row`
};

/// The bookkeeping of all slots: cached lengths and staged rows.
///
/// Passes through the first layers only and passes through all stage their rows here. A deeper pass
/// that opens a step takes over what a shallower one has computed of the same rows: same slot,
/// position, token, and the same of all their ancestors, under whatever ids, for a tree may be cut
/// and numbered anew when it is drafted. What it does not take over is forgotten.
class sequences {
 public:
  sequences(int slots, int context, int vocab_size);

  int slots() const { return static_cast<int>(slots_.size()); }
  int length(int slot) const { return slots_[static_cast<std::size_t>(slot)].length; }
  int staged_count(int slot) const {
    return static_cast<int>(slots_[static_cast<std::size_t>(slot)].staged.size());
  }

  /// Stages the rows for a pass through layers [0, layers). Rows without room, and the later ones
  /// of their sequence, get `status::cache_full`. \throws std::out_of_range for slots and tokens
  /// outside their range, std::invalid_argument for
  ///         rows that break the rules of `hunch::rows`; nothing is staged then.
  void stage(const hunch::rows& rows, int layers, pass_plan& plan);

  /// \throws as `stage` does for such rows. What is staged stays.
  void check(const hunch::rows& rows, int layers);

  /// Stages `rows.streams` streams beside every wanted row of a plan that has room, which go
  /// through the layers from `first` on: stream j reads what its row reads, its row, and the
  /// streams before it. They are never committed.
  void stage_streams(int streams, int first, pass_plan& plan);

  /// The layers from `first` on through which the same rows of a pass to layer `last` go.
  void plan_layers(const pass_plan& plan, int first, int last, layer_span& span);

  /// Notes that the rows have gone through these layers.
  void went_through(const pass_plan& plan, const layer_span& span) noexcept;

  /// The staged index of row `id` if it went through `layers` layers, or -1. Rows without room have
  /// none.
  int staged_index(int slot, std::int32_t id, int layers) const noexcept;

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
    std::int32_t id = 0;  ///< below 0: a stream, which has none
    int parent = -1;      ///< staged index, or -1 for the end of the cache
    int depth = 0;        ///< rows on the path, itself included
    std::int32_t position = 0;
    hunch::token token = 0;
    int layers = 0;  ///< that it went through
    bool full = false;
    bool offered = false;  ///< of a shallower pass, and not taken over
  };
  struct slot_state {
    int length = 0;
    int layers = 0;  ///< of the pass that opened the step
    int offers = 0;  ///< the first of `staged`, which a shallower pass left
    std::vector<staged_row> staged;
    std::vector<int> index_of_id;  ///< -1 where the id is not staged
    std::uint64_t last_pass = 0;

    /// Whether a pass opens a step with row `id`.
    bool opens(std::int32_t id, int through) const { return id == 0 || layers != through; }
    const staged_row* find(std::int32_t id) const {
      const int index = id >= 0 && static_cast<std::size_t>(id) < index_of_id.size()
                            ? index_of_id[static_cast<std::size_t>(id)]
                            : -1;
      return index < 0 ? nullptr : &staged[static_cast<std::size_t>(index)];
    }
  };

  void check_group(const hunch::rows& rows, int begin, int end, int layers) const;
  void open(int slot, int layers);
  static int stage_row(slot_state& slot, staged_row& row);
  void stage_group(const hunch::rows& rows, int begin, int end, pass_plan& plan);
  void plan_path(const planned_row& row, layer_span& span);

  int context_;
  int vocab_size_;
  std::uint64_t pass_ = 0;
  std::vector<slot_state> slots_;
  std::vector<int> current_path_;
  std::vector<int> next_path_;
};

}  // namespace engine
