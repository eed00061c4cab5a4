// SPDX-License-Identifier: Apache-2.0
#include <engine/sequences.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace engine {
namespace {

/// Staged ids index a table, so that they are bounded.
constexpr std::int32_t max_id = 1 << 20;

std::string row_name(int i) { return "engine::model: row " + std::to_string(i); }

/// The end of the rows of the sequence that row `begin` belongs to.
int group_end(const hunch::rows& rows, int begin) {
  int end = begin + 1;
  while (end < rows.size && rows.sequence[end] == rows.sequence[begin]) { ++end; }
  return end;
}

}  // namespace

sequences::sequences(int slots, int context, int vocab_size)
    : context_{context}, vocab_size_{vocab_size}, slots_(static_cast<std::size_t>(slots)) {}

int sequences::staged_index(int slot, std::int32_t id) const noexcept {
  if (slot < 0 || slot >= slots()) { return -1; }
  const slot_state& s = slots_[static_cast<std::size_t>(slot)];
  if (id < 0 || static_cast<std::size_t>(id) >= s.index_of_id.size()) { return -1; }
  const int index = s.index_of_id[static_cast<std::size_t>(id)];
  return index >= 0 && !s.staged[static_cast<std::size_t>(index)].full ? index : -1;
}

int sequences::append(int slot) noexcept {
  slot_state& s = slots_[static_cast<std::size_t>(slot)];
  return s.length < context_ ? s.length++ : -1;
}

void sequences::discard_staged(int slot) noexcept {
  slot_state& s = slots_[static_cast<std::size_t>(slot)];
  for (const staged_row& row : s.staged) { s.index_of_id[static_cast<std::size_t>(row.id)] = -1; }
  s.staged.clear();
}

void sequences::release(int slot) noexcept {
  discard_staged(slot);
  slots_[static_cast<std::size_t>(slot)].length = 0;
}

void sequences::check(const hunch::rows& rows) {
  ++pass_;
  for (int begin = 0; begin < rows.size;) {
    const int slot = rows.sequence[begin];
    if (slot < 0 || slot >= slots()) {
      throw std::out_of_range(row_name(begin) + " is of sequence " + std::to_string(slot) +
                              ", outside the " + std::to_string(slots()) + " slots");
    }
    std::uint64_t& last_pass = slots_[static_cast<std::size_t>(slot)].last_pass;
    if (last_pass == pass_) {
      throw std::invalid_argument(row_name(begin) + " is not adjacent to the rows of sequence " +
                                  std::to_string(slot));
    }
    last_pass = pass_;
    const int end = group_end(rows, begin);
    check_group(rows, begin, end);
    begin = end;
  }
}

void sequences::check_group(const hunch::rows& rows, int begin, int end) const {
  const slot_state& slot = slots_[static_cast<std::size_t>(rows.sequence[begin])];
  const bool opens_step = rows.id[begin] == 0;
  const auto was_staged = [&](std::int32_t id) {
    return !opens_step && static_cast<std::size_t>(id) < slot.index_of_id.size() &&
           slot.index_of_id[static_cast<std::size_t>(id)] >= 0;
  };
  for (int i = begin; i < end; ++i) {
    if (rows.tokens[i] < 0 || rows.tokens[i] >= vocab_size_) {
      throw std::out_of_range(row_name(i) + " has token " + std::to_string(rows.tokens[i]) +
                              ", outside the vocabulary of " + std::to_string(vocab_size_));
    }
    const std::int32_t id = rows.id[i];
    if (id < 0 || id >= max_id || (i > begin && id <= rows.id[i - 1]) || was_staged(id)) {
      throw std::invalid_argument(row_name(i) + " has staged id " + std::to_string(id) +
                                  ", which is used, out of order or out of range");
    }
    const std::int32_t parent = rows.parent[i];
    const bool known = parent == hunch::end_of_cache || (parent >= 0 && was_staged(parent)) ||
                       std::binary_search(rows.id + begin, rows.id + i, parent);
    if (!known) {
      throw std::invalid_argument(row_name(i) + " has parent " + std::to_string(parent) +
                                  ", which is not staged");
    }
    if (rows.position[i] < 0) {
      throw std::invalid_argument(row_name(i) + " has a negative position");
    }
  }
}

void sequences::stage(const hunch::rows& rows, pass_plan& plan) {
  check(rows);
  plan.rows.clear();
  plan.groups.clear();
  plan.path.clear();
  plan.output_rows.clear();
  for (int begin = 0; begin < rows.size;) {
    const int end = group_end(rows, begin);
    stage_group(rows, begin, end, plan);
    begin = end;
  }
}

void sequences::stage_group(const hunch::rows& rows, int begin, int end, pass_plan& plan) {
  const int slot_number = rows.sequence[begin];
  slot_state& slot = slots_[static_cast<std::size_t>(slot_number)];
  if (rows.id[begin] == 0) { discard_staged(slot_number); }
  const auto ids = static_cast<std::size_t>(rows.id[end - 1]) + 1;
  if (slot.index_of_id.size() < ids) { slot.index_of_id.resize(ids, -1); }

  current_path_.clear();
  bool full = false;
  for (int i = begin; i < end; ++i) {
    staged_row row{rows.id[i], -1, 1, false};
    if (rows.parent[i] != hunch::end_of_cache) {
      row.parent = slot.index_of_id[static_cast<std::size_t>(rows.parent[i])];
      const staged_row& parent = slot.staged[static_cast<std::size_t>(row.parent)];
      row.depth = parent.depth + 1;
      full = full || parent.full;
    }
    full = full || slot.length + row.depth > context_ || rows.position[i] >= context_;
    row.full = full;

    planned_row planned;
    planned.slot = slot_number;
    planned.staged = static_cast<int>(slot.staged.size());
    planned.length = slot.length + row.depth;
    planned.position = rows.position[i];
    planned.token = rows.tokens[i];
    planned.status = full ? hunch::status::cache_full : hunch::status::ok;
    if (!full && rows.wanted[i] != 0) {
      planned.output = static_cast<int>(plan.output_rows.size());
      plan.output_rows.push_back(i);
    }
    slot.index_of_id[static_cast<std::size_t>(row.id)] = planned.staged;
    slot.staged.push_back(row);
    plan.rows.push_back(planned);
    if (!full) { plan_path(slot, i, plan); }
  }
  plan.groups.push_back({slot_number, begin, end});
}

void sequences::plan_path(const slot_state& slot, int row, pass_plan& plan) {
  planned_row& planned = plan.rows[static_cast<std::size_t>(row)];
  const staged_row& staged = slot.staged[static_cast<std::size_t>(planned.staged)];
  planned.path_begin = static_cast<int>(plan.path.size());
  if (!current_path_.empty() && staged.parent == current_path_.back()) {
    planned.shared = static_cast<int>(current_path_.size());
    current_path_.push_back(planned.staged);
    plan.path.push_back(planned.staged);
  } else {
    next_path_.assign(static_cast<std::size_t>(staged.depth), 0);
    int at = planned.staged;
    for (int depth = staged.depth; depth > 0; --depth) {
      next_path_[static_cast<std::size_t>(depth) - 1] = at;
      at = slot.staged[static_cast<std::size_t>(at)].parent;
    }
    const auto fork = std::mismatch(current_path_.begin(), current_path_.end(), next_path_.begin(),
                                    next_path_.end());
    planned.shared = static_cast<int>(fork.second - next_path_.begin());
    plan.path.insert(plan.path.end(), fork.second, next_path_.end());
    current_path_.swap(next_path_);
  }
  planned.path_end = static_cast<int>(plan.path.size());
}

}  // namespace engine
