// SPDX-License-Identifier: Apache-2.0
#include <engine/canvas_plan.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace engine {
namespace {

using hunch::diffusion::canvases;

std::string canvas_name(std::int32_t i) {
  return "engine::masked_model: canvas " + std::to_string(i);
}

/// How many tokens two texts begin with alike.
int common(std::span<const hunch::token> a, std::span<const hunch::token> b) {
  return static_cast<int>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

canvas_planner::canvas_planner(const masked_config& shape, int slots, int context)
    : causal_prefix_{shape.pattern == masked_config::attention::causal_prefix},
      shift_{shape.shifted ? 1 : 0},
      context_{context},
      vocab_size_{shape.model.vocab_size},
      mask_token_{shape.mask_token},
      cached_(static_cast<std::size_t>(slots)),
      last_pass_(static_cast<std::size_t>(slots)) {
  if (!causal_prefix_) { return; }
  for (auto& tokens : cached_) { tokens.reserve(static_cast<std::size_t>(context)); }
}

void canvas_planner::check(const canvases& all) {
  ++pass_;
  for (std::int32_t i = 0; i < all.size; ++i) {
    const int slot = all.slot[i];
    if (slot < 0 || slot >= static_cast<int>(cached_.size())) {
      throw std::out_of_range(canvas_name(i) + " is of slot " + std::to_string(slot) +
                              ", outside the " + std::to_string(cached_.size()) + " slots");
    }
    std::uint64_t& last_pass = last_pass_[static_cast<std::size_t>(slot)];
    if (last_pass == pass_ && all.slot[i - 1] != slot) {
      throw std::invalid_argument(canvas_name(i) + " is not adjacent to those of slot " +
                                  std::to_string(slot));
    }
    last_pass = pass_;
    check_canvas(all, i);
  }
}

void canvas_planner::check_canvas(const canvases& all, std::int32_t i) const {
  const std::int32_t size = all.first[i + 1] - all.first[i];
  if (size < 1 || size > context_) {
    throw std::invalid_argument(canvas_name(i) + " has " + std::to_string(size) +
                                " tokens, and the context is " + std::to_string(context_));
  }
  for (std::int32_t p = 0; p < size; ++p) {
    const hunch::token token = all.tokens[all.first[i] + p];
    if (token != mask_token_ && (token < 0 || token >= vocab_size_)) {
      throw std::out_of_range(canvas_name(i) + " has token " + std::to_string(token) +
                              ", outside the vocabulary of " + std::to_string(vocab_size_));
    }
  }
  const std::int32_t known = all.known[i];
  if (known < 0 || known > size || (shift_ != 0 && known == 0)) {
    throw std::invalid_argument(canvas_name(i) + " has " + std::to_string(known) +
                                " known positions of " + std::to_string(size) +
                                (known == 0 ? ", and the first law is in the row before it" : ""));
  }
  const std::int32_t first = all.first_wanted[i];
  const std::int32_t last = all.first_wanted[i + 1];
  if (first == last) { return; }
  if (causal_prefix_ && (all.block_end[i] <= known || all.block_end[i] > size)) {
    throw std::invalid_argument(canvas_name(i) + " has a block that ends at " +
                                std::to_string(all.block_end[i]));
  }
  std::int32_t before = (causal_prefix_ ? view(all, i).known : shift_) - 1;
  for (std::int32_t w = first; w < last; before = all.wanted[w], ++w) {
    const std::int32_t position = all.wanted[w];
    const auto asked = [&] {
      return canvas_name(i) + " is asked for position " + std::to_string(position);
    };
    if (position < 0 || position >= size) {
      throw std::out_of_range(asked() + " of " + std::to_string(size));
    }
    if (position <= before) {
      throw std::invalid_argument(asked() + ", which is known or out of order");
    }
  }
}

int canvas_planner::end_of_block(const canvas& of, int position) {
  const int size = static_cast<int>(of.tokens.size());
  if (position < of.known) { return position + 1; }
  if (position < of.block_end) { return of.block_end; }
  const int length = of.block_end - of.known;
  const int block = (position - of.block_end) / length + 1;
  return std::min(of.block_end + block * length, size);
}

/// The first block with masks of a canvas, which begins no earlier than that of the committed text,
/// [known, block_end): what a canvas says must not depend on which of its tokens are drafts.
void canvas_planner::find_first_block(int known, int block_end, canvas& of) const {
  const auto begin = of.tokens.begin();
  const int size = static_cast<int>(of.tokens.size());
  const int length = block_end - known;
  while (block_end < size &&
         std::find(begin + known, begin + block_end, mask_token_) == begin + block_end) {
    known = block_end;
    block_end = std::min(known + length, size);
  }
  of.known = known;
  of.block_end = block_end;
}

canvas_planner::canvas canvas_planner::view(const canvases& all, std::int32_t i) const {
  const auto tokens = all.canvas(i);
  const auto wanted = all.wanted_of(i);
  canvas out;
  out.tokens = {tokens.data, static_cast<std::size_t>(tokens.size)};
  out.wanted = {wanted.data, static_cast<std::size_t>(wanted.size)};
  out.block_end = tokens.size;
  if (causal_prefix_) { find_first_block(all.known[i], all.block_end[i], out); }
  return out;
}

int canvas_planner::reusable(int slot, std::span<const hunch::token> tokens) const {
  const auto& cached = cached_[static_cast<std::size_t>(slot)];
  const int size = common(cached, tokens);
  // The one hidden state that is kept is that of the last cached position.
  const bool rewinds = size < static_cast<int>(cached.size());
  return rewinds ? std::max(0, size - shift_) : size;
}

void canvas_planner::plan(const canvases& all, layer_span& span) {
  check(all);
  plan_.rows.rows.clear();
  span.rows.clear();
  span.groups.clear();
  span.path.clear();
  plan_.outputs.clear();
  plan_.parts.clear();
  plan_.canvases.assign(static_cast<std::size_t>(all.size), {});
  plan_.rows_of.clear();
  for (std::int32_t begin = 0, end = 0; begin < all.size; begin = end) {
    while (end < all.size && all.slot[end] == all.slot[begin]) { ++end; }
    plan_slot(all, begin, end, span);
  }
  span.tokens = static_cast<int>(span.rows.size());
  span.token_groups = static_cast<int>(span.groups.size());
}

void canvas_planner::plan_slot(const canvases& all, std::int32_t begin, std::int32_t end,
                               layer_span& span) {
  // Canvases that are asked nothing are not read.
  const auto asked = [&](std::int32_t i) { return all.first_wanted[i] < all.first_wanted[i + 1]; };
  while (begin < end && !asked(begin)) { ++begin; }
  if (begin == end) { return; }
  const int slot = all.slot[begin];
  canvas shared = view(all, begin);
  for (std::int32_t i = begin + 1; i < end; ++i) {
    if (!asked(i)) { continue; }
    const canvas other = view(all, i);
    shared.known = std::min({shared.known, other.known, common(shared.tokens, other.tokens)});
  }
  first_row_ = static_cast<int>(plan_.rows.rows.size());
  first_position_ = reusable(slot, shared.tokens.first(static_cast<std::size_t>(shared.known)));
  seen_ = first_position_;
  chain_.clear();
  plan_.parts.push_back({.slot = slot,
                         .from = first_position_,
                         .to = shared.known,
                         .row = first_row_,
                         .canvas = begin});
  add_rows(shared, first_position_, shared.known, slot, span);
  canvas before = shared;
  for (std::int32_t i = begin; i < end; ++i) {
    if (!asked(i)) { continue; }
    const canvas of = view(all, i);
    // Where two canvases have the same known tokens, the rows of the first serve both.
    const int same = std::min({before.known, of.known, common(before.tokens, of.tokens)});
    chain_.resize(static_cast<std::size_t>(same - first_position_));
    seen_ = std::min(seen_, same);
    add_rows(of, same, end_of_block(of, of.wanted.back() - shift_), slot, span);
    add_outputs(of, slot);
    note_rows(i, shared.known);
    before = of;
  }
  const int count = static_cast<int>(plan_.rows.rows.size()) - first_row_;
  if (count > 0) { span.groups.push_back({slot, first_row_, first_row_ + count}); }
}

/// Rows of the positions [from, to), after those of `chain_`.
void canvas_planner::add_rows(const canvas& of, int from, int to, int slot, layer_span& span) {
  const int first = static_cast<int>(plan_.rows.rows.size());
  for (int position = from; position < to; ++position) {
    chain_.push_back(first + position - from);
  }
  for (int position = from; position < to; ++position) {
    planned_row row;
    row.slot = slot;
    row.staged = first + position - from - first_row_;
    row.length = end_of_block(of, position);
    row.position = position;
    row.token = of.tokens[static_cast<std::size_t>(position)];
    plan_.rows.rows.push_back(row);

    layer_row in;
    in.row = first + position - from;
    in.path_begin = static_cast<int>(span.path.size());
    for (; seen_ < row.length; ++seen_) {
      span.path.push_back(chain_[static_cast<std::size_t>(seen_ - first_position_)] - first_row_);
    }
    in.path_end = static_cast<int>(span.path.size());
    span.rows.push_back(in);
  }
}

void canvas_planner::add_outputs(const canvas& of, int slot) {
  for (const std::int32_t position : of.wanted) {
    const int at = position - shift_ - first_position_;
    plan_.outputs.push_back({at < 0 ? -1 : chain_[static_cast<std::size_t>(at)], slot});
  }
}

/// Those of `chain_`, the rows of canvas i, that are not among the cached positions from now on.
void canvas_planner::note_rows(std::int32_t i, int cached) {
  const auto begin = static_cast<int>(plan_.rows_of.size());
  plan_.rows_of.insert(plan_.rows_of.end(), chain_.begin() + (cached - first_position_),
                       chain_.end());
  plan_.canvases[static_cast<std::size_t>(i)] = {cached, begin,
                                                 static_cast<int>(plan_.rows_of.size())};
}

void canvas_planner::keep(const canvases& all, const cached_part& part) noexcept {
  const hunch::token* const tokens = all.canvas(part.canvas).data;
  cached_[static_cast<std::size_t>(part.slot)].assign(tokens, tokens + part.to);
}

void canvas_planner::overwritten(int slot, int from) noexcept {
  auto& cached = cached_[static_cast<std::size_t>(slot)];
  // The one hidden state that is kept would be that of a position that is not cached any more.
  if (static_cast<int>(cached.size()) > from) {
    cached.resize(static_cast<std::size_t>(std::max(0, from - shift_)));
  }
}

void canvas_planner::release(int slot) noexcept { cached_[static_cast<std::size_t>(slot)].clear(); }

}  // namespace engine
