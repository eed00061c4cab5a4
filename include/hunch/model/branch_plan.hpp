// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/model/rows.hpp>

namespace hunch {

/// A change of a cache whose cells belong to sequence ids, to be made in the order given.
///
/// With a source, what `source` has at positions [first, last) becomes a part of `sequence`, too:
/// `llama_memory_seq_cp(source, sequence, first, last)`. Without one, what `sequence` has from
/// `first` on is no longer a part of it: `llama_memory_seq_rm(sequence, first, -1)`.
struct cache_edit {
  static constexpr std::int32_t nothing = -1;

  std::int32_t source = nothing;
  std::int32_t sequence = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;

  bool removes() const { return source == nothing; }
  friend bool operator==(const cache_edit&, const cache_edit&) = default;
};

/// Staged and kept rows in the words of an engine that writes its cache in place, as it computes a
/// row, and in which a row attends to the cells that have its sequence id, up to its position. Each
/// slot has `MaxBranches` ids. The first one, `slot * MaxBranches`, is the trunk: the committed
/// text, and after it the branch of each first child. Each other leaf of the draft has an id of its
/// own, with which the cells of the path to it are marked.
///
/// Around a model's passes:
///
///     plan.stage(rows);          // in evaluate or forward: under which ids the rows are written
///     for (const cache_edit& e : plan.edits()) { ... }
///     plan.edited();
///     // row i of the pass has the ids plan.sequences(i) and the position rows.position[i]
///
///     plan.keep(kept);           // in commit: the branch that was decided becomes the trunk
///
/// Rows that are staged once more, because the engine had no room and is asked for fewer, replace
/// what was staged from the first of them on.
///
/// Edits wait until they are asked for: those of `keep` may be made before the next pass. A chain
/// costs one removal, of what was refused, before the pass after. A tree costs, for each branch but
/// the trunk, one copy of the text above it when it begins and a removal when it ends; and a copy
/// of the branch that won, where that is not the trunk.
///
/// Host only. Nothing is allocated after construction, but by `stage` where edits of passes that
/// failed wait.
/// \tparam MaxBranches leaves of a draft at most: `max_branches<Shape>`; of `drafter::cascade` and
///         `one_of` the largest of theirs, of an `ensemble` `max_nodes - 1`, of `pruned` that of
///         its drafter.
template <std::int32_t MaxBranches>
class branch_plan {
  static_assert(MaxBranches >= 1, "hunch: branch_plan<N> has at least the trunk");

 public:
  static constexpr std::int32_t max_branches = MaxBranches;

  /// \param max_rows of a pass. \param max_staged rows of one sequence between two commits: nodes
  /// of a draft and a chunk of a prompt.
  branch_plan(std::int32_t max_batch, std::int32_t max_rows, std::int32_t max_staged)
      : max_staged_(max_staged),
        slots_(static_cast<std::size_t>(max_batch)),
        staged_(static_cast<std::size_t>(max_batch) * static_cast<std::size_t>(max_staged)) {
    first_.resize(static_cast<std::size_t>(max_rows) + 1);
    sequences_.resize(static_cast<std::size_t>(max_rows) * MaxBranches);
    births_.reserve(static_cast<std::size_t>(max_batch) * MaxBranches);
    edits_.reserve(2 * room_for_keep() + room_for_stage());
  }
  /// Not copied: a copy would have no room.
  branch_plan(branch_plan&&) = default;
  branch_plan& operator=(branch_plan&&) = default;

  /// All ids are below.
  std::int32_t sequence_count() const {
    return static_cast<std::int32_t>(slots_.size()) * MaxBranches;
  }
  /// Tokens of a slot that are committed.
  std::int32_t length(std::int32_t slot) const { return at(slot).length; }

  /// Finds the ids of the rows of a pass. \throws std::length_error if they are more than there is
  /// room for, or the leaves of a draft are more than `MaxBranches`; then nothing is changed but
  /// what is staged.
  void stage(const rows& asked);

  /// The ids of row i of the pass that was staged last: those of the leaves of this pass that come
  /// after it, its own first. Stays until the next `stage`.
  std::span<const std::int32_t> sequences(std::int32_t i) const {
    const auto from = static_cast<std::size_t>(first_[static_cast<std::size_t>(i)]);
    const auto to = static_cast<std::size_t>(first_[static_cast<std::size_t>(i) + 1]);
    return std::span(sequences_).subspan(from, to - from);
  }

  /// Makes the branch that was kept the trunk, ends all others, and drops what was released.
  void keep(const kept_rows& kept) noexcept;

  /// What is still to be done to the cache.
  std::span<const cache_edit> edits() const { return edits_; }
  /// It has been done.
  void edited() { edits_.clear(); }

 private:
  static constexpr std::int32_t not_in_pass = -1;

  struct slot_state {
    std::int32_t length = 0;     ///< committed
    std::int32_t trunk_end = 0;  ///< positions that the trunk's cells reach to
    std::int32_t branches = 1;   ///< in use, the trunk included
    std::int32_t staged = 0;     ///< rows
    bool continued = false;      ///< whether a row follows the committed text
  };
  struct staged_row {
    std::int32_t parent = end_of_cache;
    std::int32_t position = 0;
    std::int32_t branch = 0;             ///< one that the row is on
    std::int32_t in_pass = not_in_pass;  ///< its index in the pass that was staged last
    bool continued = false;              ///< whether a child is on that branch
  };
  struct birth {
    std::int32_t slot = 0;
    std::int32_t id = 0;  ///< of the first row that only this branch has
  };

  slot_state& at(std::int32_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  const slot_state& at(std::int32_t slot) const { return slots_[static_cast<std::size_t>(slot)]; }
  staged_row& row(std::int32_t slot, std::int32_t id) {
    return staged_[static_cast<std::size_t>(slot) * static_cast<std::size_t>(max_staged_) +
                   static_cast<std::size_t>(id)];
  }
  static std::int32_t sequence(std::int32_t slot, std::int32_t branch) {
    return slot * MaxBranches + branch;
  }
  /// Edits of a pass: the branches of a step that was given up end, others begin.
  std::size_t room_for_stage() const { return slots_.size() * 2 * MaxBranches; }
  /// Edits of a `keep` and the releases after it.
  std::size_t room_for_keep() const { return slots_.size() * (2 * MaxBranches + 2); }

  void remove(std::int32_t slot, std::int32_t branch, std::int32_t first) {
    edits_.push_back({.sequence = sequence(slot, branch), .first = first});
  }
  void copy(std::int32_t slot, std::int32_t from, std::int32_t to, std::int32_t first,
            std::int32_t last) {
    if (first < last) {
      edits_.push_back({.source = sequence(slot, from),
                        .sequence = sequence(slot, to),
                        .first = first,
                        .last = last});
    }
  }
  /// Ends all branches but the trunk.
  void end_branches(std::int32_t slot) {
    slot_state& s = at(slot);
    for (std::int32_t b = 1; b < s.branches; ++b) { remove(slot, b, 0); }
    s.branches = 1;
  }
  /// A new step: what was staged is void.
  void begin_step(std::int32_t slot) {
    slot_state& s = at(slot);
    end_branches(slot);
    if (s.trunk_end > s.length) { remove(slot, 0, s.length); }
    s.trunk_end = s.length;
    s.staged = 0;
    s.continued = false;
  }
  /// Forgets the staged rows from `staged` on, which the engine has not read.
  void rewind(std::int32_t slot, std::int32_t staged);
  void add(std::int32_t slot, std::int32_t id, std::int32_t parent, std::int32_t position,
           std::int32_t in_pass);
  void list_sequences(const rows& asked);

  std::int32_t max_staged_;
  std::vector<slot_state> slots_;        ///< [max_batch]
  std::vector<staged_row> staged_;       ///< [max_batch, max_staged]
  std::vector<birth> births_;            ///< branches that began in the pass
  std::vector<std::int32_t> first_;      ///< [max_rows + 1] of the ids of a row
  std::vector<std::int32_t> sequences_;  ///< [first_]
  std::vector<cache_edit> edits_;
};

template <std::int32_t MaxBranches>
void branch_plan<MaxBranches>::stage(const rows& asked) {
  if (asked.size >= static_cast<std::int32_t>(first_.size())) {
    throw std::length_error(message(
        {"hunch::branch_plan: a pass of ", asked.size, " rows, and room for ", first_.size() - 1}));
  }
  edits_.reserve(edits_.size() + room_for_stage() + room_for_keep());
  // Rows of the pass before are no longer in the pass.
  for (std::int32_t i = 0; i < asked.size; ++i) {
    const std::int32_t slot = asked.slot[i];
    if (i > 0 && slot == asked.slot[i - 1]) { continue; }
    if (asked.id[i] != 0 && asked.id[i] < at(slot).staged) { rewind(slot, asked.id[i]); }
    for (std::int32_t id = 0; id < at(slot).staged; ++id) { row(slot, id).in_pass = not_in_pass; }
  }
  births_.clear();
  for (std::int32_t i = 0; i < asked.size; ++i) {
    add(asked.slot[i], asked.id[i], asked.parent[i], asked.position[i], i);
  }
  list_sequences(asked);
}

template <std::int32_t MaxBranches>
void branch_plan<MaxBranches>::rewind(std::int32_t slot, std::int32_t staged) {
  slot_state& s = at(slot);
  s.staged = staged;
  s.continued = false;
  s.trunk_end = s.length;
  std::int32_t branches = 1;
  for (std::int32_t id = 0; id < staged; ++id) {
    staged_row& r = row(slot, id);
    r.continued = false;
    (r.parent == end_of_cache ? s.continued : row(slot, r.parent).continued) = true;
    branches = std::max(branches, r.branch + 1);
    if (r.branch == 0) { s.trunk_end = r.position + 1; }
  }
  for (std::int32_t b = branches; b < s.branches; ++b) { remove(slot, b, 0); }
  s.branches = branches;
}

template <std::int32_t MaxBranches>
void branch_plan<MaxBranches>::add(std::int32_t slot, std::int32_t id, std::int32_t parent,
                                   std::int32_t position, std::int32_t in_pass) {
  if (id == 0) { begin_step(slot); }
  slot_state& s = at(slot);
  if (id >= max_staged_) {
    throw std::length_error(message({"hunch::branch_plan: staged id ", id, ", and room for ",
                                     max_staged_, " rows of a sequence"}));
  }
  bool& taken = parent == end_of_cache ? s.continued : row(slot, parent).continued;
  const std::int32_t above = parent == end_of_cache ? 0 : row(slot, parent).branch;
  std::int32_t branch = above;
  if (taken) {
    if (s.branches == MaxBranches) {
      throw std::length_error(message({"hunch::branch_plan: a draft of more than ", MaxBranches,
                                       " branches, see max_branches"}));
    }
    branch = s.branches++;
    births_.push_back({slot, id});
    // What is above it in this pass is written under its id, too; the rest is there.
    std::int32_t up = parent;
    while (up != end_of_cache && row(slot, up).in_pass != not_in_pass) {
      up = row(slot, up).parent;
    }
    if (up == end_of_cache) {
      copy(slot, 0, branch, 0, s.length);
    } else {
      copy(slot, row(slot, up).branch, branch, 0, row(slot, up).position + 1);
    }
  }
  taken = true;
  row(slot, id) = {.parent = parent, .position = position, .branch = branch, .in_pass = in_pass};
  s.staged = std::max(s.staged, id + 1);
  if (branch == 0) { s.trunk_end = position + 1; }
}

template <std::int32_t MaxBranches>
void branch_plan<MaxBranches>::list_sequences(const rows& asked) {
  const auto for_rows_above = [this](const birth& b, const auto& visit) {
    for (std::int32_t up = row(b.slot, b.id).parent;
         up != end_of_cache && row(b.slot, up).in_pass != not_in_pass;
         up = row(b.slot, up).parent) {
      visit(static_cast<std::size_t>(row(b.slot, up).in_pass));
    }
  };
  // first_[i + 1] counts the ids of row i, then is where the next of them goes, then where they
  // end.
  std::fill_n(first_.begin() + 1, asked.size, 1);
  for (const birth& b : births_) {
    for_rows_above(b, [this](std::size_t i) { ++first_[i + 1]; });
  }
  std::int32_t end = 0;
  for (std::int32_t i = 0; i < asked.size; ++i) {
    std::int32_t& next = first_[static_cast<std::size_t>(i) + 1];
    const std::int32_t count = next;
    next = end;
    end += count;
  }
  const auto put = [this](std::size_t i, std::int32_t id) {
    sequences_[static_cast<std::size_t>(first_[i + 1]++)] = id;
  };
  for (std::int32_t i = 0; i < asked.size; ++i) {
    const std::int32_t slot = asked.slot[i];
    put(static_cast<std::size_t>(i), sequence(slot, row(slot, asked.id[i]).branch));
  }
  for (const birth& b : births_) {
    const std::int32_t id = sequence(b.slot, row(b.slot, b.id).branch);
    for_rows_above(b, [&](std::size_t i) { put(i, id); });
  }
}

template <std::int32_t MaxBranches>
void branch_plan<MaxBranches>::keep(const kept_rows& kept) noexcept {
  for (std::int32_t i = 0; i < kept.size;) {
    const std::int32_t slot = kept.slot[i];
    std::int32_t last = i;
    while (last + 1 < kept.size && kept.slot[last + 1] == slot) { ++last; }
    slot_state& s = at(slot);
    const std::int32_t branch = row(slot, kept.id[last]).branch;
    const std::int32_t length = s.length + last + 1 - i;
    if (branch != 0) {
      if (s.trunk_end > s.length) { remove(slot, 0, s.length); }
      copy(slot, branch, 0, s.length, length);
      s.trunk_end = length;
    }
    end_branches(slot);
    s.length = length;
    s.staged = 0;
    i = last + 1;
  }
  for (std::int32_t i = 0; i < kept.release_count; ++i) {
    const std::int32_t slot = kept.released[i];
    end_branches(slot);
    // A slot that nothing was read of has nothing to remove, however often it is released.
    if (at(slot).trunk_end > 0) { remove(slot, 0, 0); }
    at(slot) = {};
  }
}

}  // namespace hunch
