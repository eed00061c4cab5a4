// SPDX-License-Identifier: Apache-2.0
#include <engine/canvas_head.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>

namespace engine {
namespace {

const config& checked(const canvas_head_config& shape, const checkpoint& weights,
                      const named_model& model, const masked_config& target) {
  check_canvas_head(shape, weights, model, target);
  return shape.model;
}

/// The rows of both are at the same positions.
model_options with_context(model_options options, int context) {
  options.context = context;
  return options;
}

}  // namespace

canvas_head::canvas_head(const canvas_head_config& shape, const checkpoint& weights,
                         masked_model& target, const model_options& options)
    : mask_token_{target.mask_token()},
      shift_{target.shape().shifted ? 1 : 0},
      planner_{target.planner_.get()},
      self_{std::make_unique<model::implementation>(
          checked(shape, weights, *target.self_, target.shape()), weights,
          with_context(options, target.max_positions()), nullptr, kv_layers{},
          lent_cache{&target.self_->cache, shape.cached_layers})},
      embedding_norm_{padded(weights.vector("model.embedding_norm.weight", shape.model.hidden))},
      windows_(static_cast<std::size_t>(target.max_batch())) {
  int& kept_before = target.self_->kept_before;
  if (kept_before >= 0 && kept_before != shape.target_layer) {
    target.self_->refuse_head(
        weights.origin(), "reads the residuals before layer " + std::to_string(shape.target_layer),
        "keeps those before layer " + std::to_string(kept_before) + " for another head");
  }
  kept_before = shape.target_layer;
  ++target.self_->kept_for;
  target_.reset(target.self_.get());
  const auto context = static_cast<std::size_t>(self_->context);
  const auto stride = static_cast<std::size_t>(self_->hidden_stride);
  for (window& w : windows_) {
    w.rows.reserve(context);
    w.wanted.reserve(context);
    w.residuals.grow(context * stride);
    w.state.grow(stride);
  }
}
void canvas_head::kept_for_head::operator()(model::implementation* target) const noexcept {
  if (--target->kept_for == 0) { target->kept_before = -1; }
}
canvas_head::canvas_head(canvas_head&&) noexcept = default;
canvas_head& canvas_head::operator=(canvas_head&&) noexcept = default;
canvas_head::~canvas_head() = default;

canvas_head canvas_head::load(const std::filesystem::path& directory,
                              const std::filesystem::path& target_directory, masked_model& target,
                              const model_options& options) {
  const auto config_file = directory / "config.json";
  const canvas_head_config shape = read_canvas_head_config(config_file);
  const checkpoint weights = head_of_target(directory, target_directory, shape.model.names);
  canvas_head out(shape, weights, target, options);
  target.self_->check_head(config_file, *out.self_);
  return out;
}

std::int32_t canvas_head::vocab_size() const { return self_->shape.vocab_size; }
std::int32_t canvas_head::max_positions() const { return self_->context; }
std::size_t canvas_head::weight_bytes() const { return self_->weights.bytes(); }

void canvas_head::observe(const hunch::diffusion::decided_canvases& decided,
                          const masked_evaluation& evaluation) noexcept {
  const hunch::diffusion::canvases& pass = decided.pass;
  const canvas_plan& plan = planner_->planned();
  const auto stride = static_cast<std::size_t>(self_->hidden_stride);
  for (std::int32_t k = 0; k < decided.size; ++k) {
    const std::int32_t i = decided.kept[k];
    const canvas_span& rows = plan.canvases[static_cast<std::size_t>(i)];
    window& w = windows_[static_cast<std::size_t>(pass.slot[i])];
    w.first = rows.first;
    w.rows.clear();
    for (int at = rows.begin; at < rows.end; ++at) {
      const auto row = static_cast<std::size_t>(plan.rows_of[static_cast<std::size_t>(at)]);
      const planned_row& planned = plan.rows.rows[row];
      std::copy_n(target_->space.kept.data() + row * stride, stride,
                  w.residuals.data() + w.rows.size() * stride);
      w.rows.push_back({planned.token, planned.length});
    }
    const auto wanted = pass.wanted_of(i);
    w.wanted.assign(wanted.data, wanted.data + wanted.size);
    if (!w.wanted.empty() && w.wanted.front() - shift_ < w.first) {
      const auto state = evaluation.hidden(pass.first_wanted[i]);
      std::copy_n(state.data, state.size, w.state.data());
    }
  }
}

void canvas_head::release(std::int32_t slot) noexcept {
  if (slot >= 0 && slot < static_cast<std::int32_t>(windows_.size())) {
    windows_[static_cast<std::size_t>(slot)].rows.clear();
    windows_[static_cast<std::size_t>(slot)].wanted.clear();
  }
}

void canvas_head::check(const hunch::diffusion::canvases& canvases, std::int32_t i) const {
  const int slot = canvases.slot[i];
  const auto name = [i] { return "engine::canvas_head: canvas " + std::to_string(i); };
  if (slot < 0 || slot >= static_cast<int>(windows_.size())) {
    throw std::out_of_range(name() + " is of slot " + std::to_string(slot) + ", outside the " +
                            std::to_string(windows_.size()) + " slots");
  }
  for (std::int32_t before = 0; before < i; ++before) {
    if (canvases.slot[before] == slot) {
      throw std::invalid_argument(name() + " is one more of its slot");
    }
  }
  const window& w = of(slot);
  const auto tokens = canvases.canvas(i);
  const int end = w.first + static_cast<int>(w.rows.size());
  if (w.wanted.empty() || end > tokens.size) {
    throw std::invalid_argument(name() + " is of a slot of which " +
                                (w.wanted.empty() ? "nothing" : "a longer one") + " was observed");
  }
  for (int position = w.first; position < end; ++position) {
    const hunch::token t = tokens[position];
    if (t != mask_token_ && (t < 0 || t >= vocab_size())) {
      throw std::out_of_range(name() + " has token " + std::to_string(t) +
                              ", outside the vocabulary of " + std::to_string(vocab_size()));
    }
  }
  const auto wanted = canvases.wanted_of(i);
  for (std::int32_t j = 0; j < wanted.size; ++j) {
    if (!std::binary_search(w.wanted.begin(), w.wanted.end(), wanted[j])) {
      throw std::invalid_argument(name() + " is asked for position " + std::to_string(wanted[j]) +
                                  ", of which nothing was observed");
    }
  }
}

/// A row for every row of a slot's window that the wanted ones see.
void canvas_head::plan_rows(int slot, const hunch::token* tokens,
                            hunch::row_view<const std::int32_t> wanted) {
  auto& rows = self_->result.plan.rows;
  layer_span& span = self_->span;
  const window& w = of(slot);
  const int first = static_cast<int>(rows.size());
  const int last = wanted.size == 0 ? -1 : wanted[wanted.size - 1] - shift_ - w.first;
  const int count = last < 0 ? 0 : w.rows[static_cast<std::size_t>(last)].length - w.first;
  int seen = w.first;
  for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) {
    planned_row row;
    row.slot = slot;
    row.staged = static_cast<int>(j);
    row.length = w.rows[j].length;
    row.position = w.first + static_cast<int>(j);
    row.token = tokens[row.position];
    layer_row in;
    in.row = static_cast<int>(rows.size());
    in.path_begin = static_cast<int>(span.path.size());
    for (; seen < row.length; ++seen) { span.path.push_back(seen - w.first); }
    in.path_end = static_cast<int>(span.path.size());
    rows.push_back(row);
    span.rows.push_back(in);
  }
  if (count > 0) { span.groups.push_back({slot, first, static_cast<int>(rows.size())}); }
}

void canvas_head::plan(const hunch::diffusion::canvases& canvases) {
  for (std::int32_t i = 0; i < canvases.size; ++i) { check(canvases, i); }
  layer_span& span = self_->span;
  auto& rows = self_->result.plan.rows;
  rows.clear();
  span.rows.clear();
  span.groups.clear();
  span.path.clear();
  outputs_.clear();
  for (std::int32_t i = 0; i < canvases.size; ++i) {
    const int slot = canvases.slot[i];
    const int first = static_cast<int>(rows.size());
    const auto wanted = canvases.wanted_of(i);
    plan_rows(slot, canvases.canvas(i).data, wanted);
    for (std::int32_t w = 0; w < wanted.size; ++w) {
      const int at = wanted[w] - shift_ - of(slot).first;
      outputs_.push_back({at < 0 ? -1 : first + at, slot});
    }
  }
  span.tokens = static_cast<int>(rows.size());
  span.token_groups = static_cast<int>(span.groups.size());
  span.first = 0;
  span.last = self_->shape.layers;
}

/// What the layers begin with: residuals of the target, and what is made of them where something
/// has been unmasked.
void canvas_head::put_inputs() {
  model::implementation& m = *self_;
  const auto hidden = static_cast<std::size_t>(m.shape.hidden);
  m.space.given.clear();
  float* out = m.space.joined.data();
  for (const planned_row& row : m.result.plan.rows) {
    const window& w = of(row.slot);
    const auto j = static_cast<std::size_t>(row.staged);
    const float* const residual =
        w.residuals.data() + j * static_cast<std::size_t>(m.hidden_stride);
    std::fill_n(out, m.joined_stride, 0.0f);
    m.weights.embed(row.token, out);
    rms_norm(out, embedding_norm_.data(), m.shape.hidden, m.shape.norm_epsilon, out);
    std::copy_n(residual, hidden, out + hidden);
    out += m.joined_stride;
    m.space.given.push_back(row.token == w.rows[j].token ? residual : nullptr);
  }
}

masked_evaluation canvas_head::evaluate(const hunch::diffusion::canvases& canvases) {
  plan(canvases);
  model::implementation& m = *self_;
  m.reserve_rows(m.result.plan.rows.size());
  for (const row_group& group : m.span.groups) {
    m.lent.of->reserve_staged(group.slot, group.end - group.begin);
  }
  m.reserve_outputs(outputs_.size());
  for (const row_group& group : m.span.groups) {
    planner_->overwritten(group.slot, of(group.slot).first);
  }
  put_inputs();
  m.run_span(m.result.plan, [this](int thread) { finish(thread); });
  return {m.result, static_cast<std::int32_t>(outputs_.size())};
}

void canvas_head::finish(int thread) {
  model::implementation& m = *self_;
  const auto count = static_cast<int>(outputs_.size());
  const share mine = m.part(count, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const canvas_output& from = outputs_[static_cast<std::size_t>(i)];
    float* const out = m.result.hidden.data() + static_cast<std::ptrdiff_t>(i) * m.hidden_stride;
    if (from.row < 0) {
      std::copy_n(of(from.slot).state.data(), m.hidden_stride, out);
    } else {
      rms_norm(m.residual(from.row), m.weights.final_norm().data(), m.shape.hidden,
               m.shape.norm_epsilon, out);
    }
  }
  m.pool.barrier();
  m.write_logits(count, thread);
}

}  // namespace engine
