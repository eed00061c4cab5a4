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
  while (end < rows.size && rows.slot[end] == rows.slot[begin]) { ++end; }
  return end;
}

}  // namespace

sequences::sequences(int slots, int context, int vocab_size)
    : context_{context}, vocab_size_{vocab_size}, slots_(static_cast<std::size_t>(slots)) {}

int sequences::staged_index(int slot, std::int32_t id, int layers) const noexcept {
  if (slot < 0 || slot >= slots()) { return -1; }
  const slot_state& s = slots_[static_cast<std::size_t>(slot)];
  const staged_row* const row = s.find(id);
  const bool there = row != nullptr && !row->full && row->layers == layers;
  return there ? static_cast<int>(row - s.staged.data()) : -1;
}

int sequences::append(int slot) noexcept {
  slot_state& s = slots_[static_cast<std::size_t>(slot)];
  return s.length < context_ ? s.length++ : -1;
}

void sequences::discard_staged(int slot) noexcept {
  slot_state& s = slots_[static_cast<std::size_t>(slot)];
  for (const staged_row& row : s.staged) {
    if (row.id >= 0) { s.index_of_id[static_cast<std::size_t>(row.id)] = -1; }
  }
  s.staged.clear();
  s.offers = 0;
}

void sequences::release(int slot) noexcept {
  discard_staged(slot);
  slots_[static_cast<std::size_t>(slot)].length = 0;
}

void sequences::check(const hunch::rows& rows, int layers) {
  ++pass_;
  for (int begin = 0; begin < rows.size;) {
    const int slot = rows.slot[begin];
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
    check_group(rows, begin, end, layers);
    begin = end;
  }
}

void sequences::check_group(const hunch::rows& rows, int begin, int end, int layers) const {
  const slot_state& slot = slots_[static_cast<std::size_t>(rows.slot[begin])];
  const bool opens_step = slot.opens(rows.id[begin], layers);
  const auto was_staged = [&](std::int32_t id) { return !opens_step && slot.find(id) != nullptr; };
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

void sequences::stage(const hunch::rows& rows, int layers, pass_plan& plan) {
  check(rows, layers);
  plan.rows.clear();
  plan.output_rows.clear();
  plan.streams = 0;
  for (int begin = 0; begin < rows.size;) {
    const int end = group_end(rows, begin);
    const int slot = rows.slot[begin];
    if (slots_[static_cast<std::size_t>(slot)].opens(rows.id[begin], layers)) {
      open(slot, layers);
    }
    stage_group(rows, begin, end, plan);
    begin = end;
  }
}

void sequences::open(int slot, int layers) {
  slot_state& s = slots_[static_cast<std::size_t>(slot)];
  if (s.layers < layers) {
    for (staged_row& row : s.staged) {
      row.offered = true;
      s.index_of_id[static_cast<std::size_t>(row.id)] = -1;
    }
  } else {
    discard_staged(slot);
  }
  s.layers = layers;
  s.offers = static_cast<int>(s.staged.size());
}

/// The staged index of a row: that of one like it which is on offer, and whose layers it has then,
/// or a new one.
int sequences::stage_row(slot_state& slot, staged_row& row) {
  const auto end = slot.staged.begin() + slot.offers;
  const auto offer = std::find_if(slot.staged.begin(), end, [&](const staged_row& other) {
    return other.offered && other.parent == row.parent && other.position == row.position &&
           other.token == row.token && other.full == row.full;
  });
  int& index = slot.index_of_id[static_cast<std::size_t>(row.id)];
  if (offer == end) {
    index = static_cast<int>(slot.staged.size());
    slot.staged.push_back(row);
  } else {
    index = static_cast<int>(offer - slot.staged.begin());
    row.layers = offer->layers;
    *offer = row;
  }
  return index;
}

void sequences::stage_group(const hunch::rows& rows, int begin, int end, pass_plan& plan) {
  slot_state& slot = slots_[static_cast<std::size_t>(rows.slot[begin])];
  const auto ids = static_cast<std::size_t>(rows.id[end - 1]) + 1;
  if (slot.index_of_id.size() < ids) { slot.index_of_id.resize(ids, -1); }

  bool full = false;
  for (int i = begin; i < end; ++i) {
    staged_row row;
    row.id = rows.id[i];
    row.depth = 1;
    row.position = rows.position[i];
    row.token = rows.tokens[i];
    if (rows.parent[i] != hunch::end_of_cache) {
      row.parent = slot.index_of_id[static_cast<std::size_t>(rows.parent[i])];
      const staged_row& parent = slot.staged[static_cast<std::size_t>(row.parent)];
      row.depth = parent.depth + 1;
      full = full || parent.full;
    }
    full = full || slot.length + row.depth > context_ || rows.position[i] >= context_;
    row.full = full;

    planned_row planned;
    planned.slot = rows.slot[i];
    planned.staged = stage_row(slot, row);
    planned.layers = row.layers;
    planned.length = slot.length + row.depth;
    planned.position = row.position;
    planned.token = row.token;
    planned.status = full ? hunch::status::cache_full : hunch::status::ok;
    if (!full && rows.wanted[i] != 0) {
      planned.output = static_cast<int>(plan.output_rows.size());
      plan.output_rows.push_back(i);
    }
    plan.rows.push_back(planned);
  }
}

void sequences::stage_streams(int streams, int first, pass_plan& plan) {
  plan.streams = streams;
  for (const int main_row : plan.output_rows) {
    const planned_row of = plan.rows[static_cast<std::size_t>(main_row)];
    slot_state& slot = slots_[static_cast<std::size_t>(of.slot)];
    staged_row row = slot.staged[static_cast<std::size_t>(of.staged)];
    row.id = -1;
    row.layers = first;
    row.parent = of.staged;
    planned_row planned = of;
    planned.layers = first;
    planned.output = -1;
    planned.main_row = main_row;
    for (int j = 0; j < streams; ++j) {
      ++row.depth;
      planned.staged = static_cast<int>(slot.staged.size());
      planned.length = of.length + 1 + j;
      planned.position = std::min(of.position + 1 + j, context_ - 1);
      planned.stream = j;
      slot.staged.push_back(row);
      row.parent = planned.staged;
      plan.rows.push_back(planned);
    }
  }
}

void sequences::plan_layers(const pass_plan& plan, int first, int last, layer_span& span) {
  span.first = first;
  span.last = last;
  span.rows.clear();
  span.groups.clear();
  span.path.clear();
  span.tokens = span.token_groups = 0;
  for (int i = 0; i < static_cast<int>(plan.rows.size()); ++i) {
    const planned_row& row = plan.rows[static_cast<std::size_t>(i)];
    if (row.layers > first) {
      span.last = std::min(span.last, row.layers);
      continue;
    }
    const int at = static_cast<int>(span.rows.size());
    const bool first_stream = row.stream >= 0 && span.tokens == at;
    if (at == 0 || first_stream || span.groups.back().slot != row.slot) {
      span.groups.push_back({row.slot, at, at});
      current_path_.clear();
    }
    span.groups.back().end = at + 1;
    span.rows.push_back({i, 0, 0});
    if (row.stream < 0) {
      span.tokens = at + 1;
      span.token_groups = static_cast<int>(span.groups.size());
    }
    if (row.status == hunch::status::ok) { plan_path(row, span); }
  }
}

void sequences::plan_path(const planned_row& row, layer_span& span) {
  const slot_state& slot = slots_[static_cast<std::size_t>(row.slot)];
  const staged_row& staged = slot.staged[static_cast<std::size_t>(row.staged)];
  layer_row& planned = span.rows.back();
  planned.path_begin = static_cast<int>(span.path.size());
  if (!current_path_.empty() && staged.parent == current_path_.back()) {
    current_path_.push_back(row.staged);
    span.path.push_back(row.staged);
  } else {
    next_path_.assign(static_cast<std::size_t>(staged.depth), 0);
    int at = row.staged;
    for (int depth = staged.depth; depth > 0; --depth) {
      next_path_[static_cast<std::size_t>(depth) - 1] = at;
      at = slot.staged[static_cast<std::size_t>(at)].parent;
    }
    const auto fork = std::mismatch(current_path_.begin(), current_path_.end(), next_path_.begin(),
                                    next_path_.end());
    span.path.insert(span.path.end(), fork.second, next_path_.end());
    current_path_.swap(next_path_);
  }
  planned.path_end = static_cast<int>(span.path.size());
}

void sequences::went_through(const pass_plan& plan, const layer_span& span) noexcept {
  for (const layer_row& in : span.rows) {
    const planned_row& row = plan.rows[static_cast<std::size_t>(in.row)];
    slots_[static_cast<std::size_t>(row.slot)].staged[static_cast<std::size_t>(row.staged)].layers =
        span.last;
  }
}

}  // namespace engine
