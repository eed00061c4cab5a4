// SPDX-License-Identifier: Apache-2.0
#include <engine/block_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace engine {
namespace {

using hunch::diffusion::canvases;

/// That of a model whose rows see everything, whatever it keeps.
masked_config full(masked_config shape) {
  shape.pattern = masked_config::attention::full;
  return shape;
}

[[noreturn]] void refuse(std::int32_t i, const char* why) {
  throw std::invalid_argument("engine::block_cached_model: canvas " + std::to_string(i) + why);
}

}  // namespace

block_planner::block_planner(const masked_config& shape, int slots, int context, block_cache kept)
    : checks_{full(shape), slots, context},
      cache_{kept},
      shift_{shape.shifted ? 1 : 0},
      slots_(static_cast<std::size_t>(slots)) {}

void block_planner::check_opened(const canvases& all, std::int32_t i) const {
  const std::int32_t size = all.first[i + 1] - all.first[i];
  const std::int32_t known = all.known[i];
  const std::int32_t end = all.block_end[i];
  if (end <= known || end > size) { refuse(i, " has no block"); }
  const auto wanted = all.wanted_of(i);
  if (wanted.size > 0 && (wanted[0] < known || wanted[wanted.size - 1] >= end)) {
    refuse(i, " is asked for a position outside of its block");
  }
  const auto of_slot = [&](std::int32_t j) {
    return j >= 0 && j < all.size && all.slot[j] == all.slot[i];
  };
  if (all.opens[i] != 0) {
    if (of_slot(i - 1) || of_slot(i + 1)) { refuse(i, " opens a block and is not alone"); }
    return;
  }
  const opened_block& open = slots_[static_cast<std::size_t>(all.slot[i])];
  if (open.size != size || open.known != known || open.end != end) {
    refuse(i, " is of a block that was not opened");
  }
}

void block_planner::plan(const canvases& all, layer_span& span) {
  checks_.check(all);
  for (std::int32_t i = 0; i < all.size; ++i) { check_opened(all, i); }
  plan_.rows.rows.clear();
  span.rows.clear();
  span.groups.clear();
  span.path.clear();
  plan_.outputs.clear();
  plan_.parts.clear();
  for (std::int32_t i = 0; i < all.size; ++i) {
    const bool begins = i == 0 || all.slot[i] != all.slot[i - 1];
    if (begins) { first_row_ = static_cast<int>(plan_.rows.rows.size()); }
    const bool asked = all.first_wanted[i] < all.first_wanted[i + 1];
    if (asked || all.opens[i] != 0) { plan_canvas(all, i, span); }
    const bool ends = i + 1 == all.size || all.slot[i + 1] != all.slot[i];
    const int last = static_cast<int>(plan_.rows.rows.size());
    if (ends && last > first_row_) { span.groups.push_back({all.slot[i], first_row_, last}); }
  }
  span.tokens = static_cast<int>(span.rows.size());
  span.token_groups = static_cast<int>(span.groups.size());
}

/// What is kept, then what is read in every pass.
void block_planner::order_positions(const opened_block& of, bool opens) {
  order_.clear();
  const auto append = [this](int from, int to) {
    for (int p = from; p < to; ++p) { order_.push_back(p); }
  };
  if (opens) {
    append(0, of.known);
    if (cache_ == block_cache::dual) { append(of.end, of.size); }
  }
  append(of.known, of.end);
  if (cache_ == block_cache::prefix) { append(of.end, of.size); }
}

void block_planner::plan_canvas(const canvases& all, std::int32_t i, layer_span& span) {
  const bool opens = all.opens[i] != 0;
  const int slot = all.slot[i];
  const opened_block of{.kept = 0,
                        .known = all.known[i],
                        .end = all.block_end[i],
                        .size = all.first[i + 1] - all.first[i]};
  order_positions(of, opens);
  const auto tokens = all.canvas(i);
  const int before = opens ? 0 : length(slot);
  const auto count = static_cast<int>(order_.size());
  const auto first = static_cast<int>(plan_.rows.rows.size());
  for (int k = 0; k < count; ++k) {
    const int position = order_[static_cast<std::size_t>(k)];
    planned_row row;
    row.slot = slot;
    row.staged = first + k - first_row_;
    row.length = before + count;
    row.position = position;
    row.token = tokens[position];
    plan_.rows.rows.push_back(row);
    layer_row in;
    in.row = first + k;
    in.path_begin = static_cast<int>(span.path.size());
    // The first row puts all of its canvas behind what is kept; the others find it there.
    for (int r = 0; r < (k == 0 ? count : 0); ++r) { span.path.push_back(row.staged + r); }
    in.path_end = static_cast<int>(span.path.size());
    span.rows.push_back(in);
  }
  const auto row_of = [&](int position) {
    const auto at = std::find(order_.begin(), order_.end(), position);
    return at == order_.end() ? -1 : first + static_cast<int>(at - order_.begin());
  };
  const auto wanted = all.wanted_of(i);
  for (std::int32_t w = 0; w < wanted.size; ++w) {
    plan_.outputs.push_back({row_of(wanted[w] - shift_), slot});
  }
  if (!opens) { return; }
  const int kept = of.known + (cache_ == block_cache::dual ? of.size - of.end : 0);
  plan_.parts.push_back(
      {.slot = slot, .from = 0, .to = kept, .row = row_of(of.known - 1), .canvas = i});
}

void block_planner::keep(const canvases& all) noexcept {
  for (const cached_part& part : plan_.parts) {
    const std::int32_t i = part.canvas;
    slots_[static_cast<std::size_t>(part.slot)] = {.kept = part.to,
                                                   .known = all.known[i],
                                                   .end = all.block_end[i],
                                                   .size = all.first[i + 1] - all.first[i]};
  }
}

}  // namespace engine
