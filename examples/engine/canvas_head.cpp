// SPDX-License-Identifier: Apache-2.0
#include <engine/canvas_head.hpp>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>

namespace engine {
namespace {

const config& checked(const config& shape, const checkpoint& weights, const config& target) {
  const auto refuse = [](const char* why) {
    throw std::invalid_argument(std::string("engine::canvas_head: ") + why);
  };
  if (shape.hidden != target.hidden) { refuse("its hidden size is not the target's"); }
  if (shape.vocab_size != target.vocab_size) { refuse("its vocabulary is not the target's"); }
  if (!weights.has("model.fc.weight")) {
    throw std::runtime_error(weights.origin() + ": tensor \"model.fc.weight\" is missing");
  }
  return shape;
}

}  // namespace

canvas_head::canvas_head(const config& shape, const checkpoint& weights, const masked_model& target,
                         const model_options& options)
    : mask_token_{target.mask_token()},
      self_{std::make_unique<model::implementation>(
          checked(shape, weights, target.shape().model), weights, options, nullptr,
          kv_layers{.cached = false, .staged = false}, true)},
      windows_(static_cast<std::size_t>(options.max_batch)) {
  const auto context = static_cast<std::size_t>(self_->context);
  for (window& w : windows_) {
    w.positions.reserve(context);
    w.blocks.reserve(context);
    w.states.grow(context * static_cast<std::size_t>(self_->hidden_stride));
  }
}
canvas_head::canvas_head(canvas_head&&) noexcept = default;
canvas_head& canvas_head::operator=(canvas_head&&) noexcept = default;
canvas_head::~canvas_head() = default;

canvas_head canvas_head::load(const std::filesystem::path& directory,
                              const std::filesystem::path& target_directory,
                              const masked_model& target, const model_options& options) {
  checkpoint weights = checkpoint::open(directory);
  weights.add_missing(checkpoint::open(target_directory));
  return {read_config(directory / "config.json"), weights, target, options};
}

std::int32_t canvas_head::vocab_size() const { return self_->shape.vocab_size; }
std::int32_t canvas_head::max_positions() const { return self_->context; }
std::size_t canvas_head::weight_bytes() const { return self_->weights.bytes(); }

void canvas_head::observe(const hunch::diffusion::decided_canvases& decided,
                          const masked_evaluation& evaluation) noexcept {
  const hunch::diffusion::canvases& pass = decided.pass;
  for (std::int32_t k = 0; k < decided.size; ++k) {
    const std::int32_t i = decided.kept[k];
    window& w = windows_[static_cast<std::size_t>(pass.slot[i])];
    w.positions.clear();
    w.blocks.clear();
    const int length = pass.block_end[i] - pass.known[i];
    for (std::int32_t from = pass.first_wanted[i]; from < pass.first_wanted[i + 1]; ++from) {
      const int position = pass.wanted[from];
      const int behind = position - pass.block_end[i];
      const auto state = evaluation.hidden(from);
      std::copy_n(state.data, state.size,
                  w.states.data() + w.positions.size() * static_cast<std::size_t>(state.size));
      w.positions.push_back(position);
      w.blocks.push_back(behind < 0 ? 0 : 1 + behind / length);
    }
  }
}

void canvas_head::release(std::int32_t slot) noexcept {
  if (slot >= 0 && slot < static_cast<std::int32_t>(windows_.size())) {
    windows_[static_cast<std::size_t>(slot)].positions.clear();
    windows_[static_cast<std::size_t>(slot)].blocks.clear();
  }
}

/// A row for every position of a slot's window.
void canvas_head::plan_rows(const window& of, int slot, const hunch::token* tokens) {
  auto& rows = self_->result.plan.rows;
  layer_span& span = self_->span;
  const int first = static_cast<int>(rows.size());
  int seen = 0;
  for (std::size_t j = 0; j < of.positions.size(); ++j) {
    const auto behind = std::upper_bound(of.blocks.begin(), of.blocks.end(), of.blocks[j]);
    planned_row row;
    row.slot = slot;
    row.staged = static_cast<int>(j);
    row.length = static_cast<int>(behind - of.blocks.begin());
    row.position = of.positions[j];
    row.token = tokens[row.position];
    layer_row in;
    in.row = static_cast<int>(rows.size());
    in.path_begin = static_cast<int>(span.path.size());
    for (; seen < row.length; ++seen) { span.path.push_back(seen); }
    in.path_end = static_cast<int>(span.path.size());
    rows.push_back(row);
    span.rows.push_back(in);
  }
  span.groups.push_back({slot, first, static_cast<int>(rows.size())});
}

void canvas_head::plan(const hunch::diffusion::canvases& canvases) {
  layer_span& span = self_->span;
  auto& rows = self_->result.plan.rows;
  rows.clear();
  span.rows.clear();
  span.groups.clear();
  span.path.clear();
  outputs_.clear();
  for (std::int32_t i = 0; i < canvases.size; ++i) {
    const int slot = canvases.slot[i];
    const std::string name = "engine::canvas_head: canvas " + std::to_string(i);
    if (slot < 0 || slot >= static_cast<int>(windows_.size())) {
      throw std::out_of_range(name + " is of slot " + std::to_string(slot) + ", outside the " +
                              std::to_string(windows_.size()) + " slots");
    }
    for (const row_group& other : span.groups) {
      if (other.slot == slot) { throw std::invalid_argument(name + " is one more of its slot"); }
    }
    const window& of = windows_[static_cast<std::size_t>(slot)];
    const auto tokens = canvases.canvas(i);
    if (of.positions.empty() || of.positions.back() >= tokens.size) {
      throw std::invalid_argument(name + " is of a slot of which " +
                                  (of.positions.empty() ? "nothing" : "a longer one") +
                                  " was observed");
    }
    for (const int position : of.positions) {
      const hunch::token t = tokens[position];
      if (t != mask_token_ && (t < 0 || t >= vocab_size())) {
        throw std::out_of_range(name + " has token " + std::to_string(t) +
                                ", outside the vocabulary of " + std::to_string(vocab_size()));
      }
    }
    const int first = static_cast<int>(rows.size());
    plan_rows(of, slot, tokens.data);
    const auto wanted = canvases.wanted_of(i);
    for (std::int32_t w = 0; w < wanted.size; ++w) {
      const auto at = std::lower_bound(of.positions.begin(), of.positions.end(), wanted[w]);
      if (at == of.positions.end() || *at != wanted[w]) {
        throw std::invalid_argument(name + " is asked for position " + std::to_string(wanted[w]) +
                                    ", of which nothing was observed");
      }
      outputs_.push_back(first + static_cast<int>(at - of.positions.begin()));
    }
  }
  span.tokens = static_cast<int>(rows.size());
  span.token_groups = static_cast<int>(span.groups.size());
  span.first = 0;
  span.last = self_->shape.layers;
}

/// What the layers begin with: embeddings, and states of the target.
void canvas_head::put_inputs() {
  model::implementation& m = *self_;
  const auto hidden = static_cast<std::size_t>(m.shape.hidden);
  float* out = m.space.joined.data();
  for (const planned_row& row : m.result.plan.rows) {
    m.weights.embed(row.token, out);
    std::copy_n(windows_[static_cast<std::size_t>(row.slot)].states.data() +
                    static_cast<std::size_t>(row.staged) * hidden,
                hidden, out + hidden);
    out += m.joined_stride;
  }
}

masked_evaluation canvas_head::evaluate(const hunch::diffusion::canvases& canvases) {
  plan(canvases);
  model::implementation& m = *self_;
  m.reserve_rows(m.result.plan.rows.size());
  for (const row_group& group : m.span.groups) {
    m.cache.reserve_staged(group.slot, group.end - group.begin);
  }
  m.reserve_outputs(outputs_.size());
  put_inputs();
  m.run_span(m.result.plan, [this](int thread) { finish(thread); });
  return {m.result, static_cast<std::int32_t>(outputs_.size())};
}

void canvas_head::finish(int thread) {
  model::implementation& m = *self_;
  const auto count = static_cast<int>(outputs_.size());
  const share mine = m.part(count, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    rms_norm(m.residual(outputs_[static_cast<std::size_t>(i)]), m.weights.final_norm().data(),
             m.shape.hidden, m.shape.norm_epsilon,
             m.result.hidden.data() + static_cast<std::ptrdiff_t>(i) * m.hidden_stride);
  }
  m.pool.barrier();
  m.write_logits(count, thread);
}

}  // namespace engine
