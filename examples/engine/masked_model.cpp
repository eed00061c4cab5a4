// SPDX-License-Identifier: Apache-2.0
#include <engine/masked_model.hpp>

#include <stdexcept>
#include <string>

#include <engine/canvas_laws.hpp>
#include <engine/canvas_plan.hpp>
#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>

namespace engine {
namespace {

const masked_config& checked(const masked_config& shape, const model_options& options) {
  shape.check();
  if (options.keep_features) {
    throw std::invalid_argument("engine::masked_model: there is no head that reads its features");
  }
  return shape;
}

}  // namespace

void masked_evaluation::check(std::int32_t i) const {
  if (i < 0 || i >= size_) {
    throw std::out_of_range("engine::masked_model: wanted position " + std::to_string(i) + " of " +
                            std::to_string(size_));
  }
}

hunch::row_view<float> masked_evaluation::logits(std::int32_t i) const {
  check(i);
  auto* const logits = const_cast<float*>(result_->logits.data());
  return {logits + static_cast<std::ptrdiff_t>(i) * result_->logits_stride, result_->end_of_logits};
}

hunch::row_view<const float> masked_evaluation::hidden(std::int32_t i) const {
  check(i);
  return {result_->hidden.data() + static_cast<std::ptrdiff_t>(i) * result_->hidden_stride,
          result_->hidden_size};
}

masked_model::masked_model(const masked_config& shape, const checkpoint& weights,
                           const model_options& options)
    : shape_{checked(shape, options)},
      self_{std::make_unique<model::implementation>(
          shape.model, weights, options, nullptr,
          kv_layers{.cached = shape.pattern == masked_config::attention::causal_prefix,
                    .staged = false})},
      planner_{std::make_unique<canvas_planner>(shape, options.max_batch, self_->context)},
      last_states_(static_cast<std::size_t>(options.max_batch) *
                   static_cast<std::size_t>(self_->hidden_stride)) {}
masked_model::masked_model(masked_model&&) noexcept = default;
masked_model& masked_model::operator=(masked_model&&) noexcept = default;
masked_model::~masked_model() = default;

masked_model masked_model::load(const std::filesystem::path& directory,
                                const model_options& options) {
  const masked_config shape = read_masked_config(directory / "config.json");
  return {shape, checkpoint::open(directory), options};
}

std::int32_t masked_model::max_positions() const { return self_->context; }
int masked_model::max_batch() const { return self_->slots.slots(); }
int masked_model::length(int slot) const { return planner_->length(slot); }
std::size_t masked_model::weight_bytes() const { return self_->weights.bytes(); }
std::uint64_t masked_model::layer_rows() const { return self_->layer_rows; }

float* masked_model::last_state(int slot) {
  return last_states_.data() + static_cast<std::ptrdiff_t>(slot) * self_->hidden_stride;
}

masked_evaluation masked_model::evaluate(const hunch::diffusion::canvases& canvases) {
  model::implementation& m = *self_;
  planner_->plan(canvases, m.span);
  m.span.first = 0;
  m.span.last = shape_.model.layers;
  const canvas_plan& plan = planner_->planned();
  reserve_canvases(m, plan);
  m.run_span(plan.rows, [&](int thread) {
    write_canvas_laws(
        m, plan.outputs, [this](int slot) { return last_state(slot); }, thread);
  });
  keep(canvases);
  return {m.result, static_cast<std::int32_t>(plan.outputs.size())};
}

/// What the pass has read of known prefixes lies in the cache: attention has put it there, at the
/// free positions after the cached ones, and no other row of the slot was put in its place.
void masked_model::keep(const hunch::diffusion::canvases& canvases) noexcept {
  if (shape_.pattern != masked_config::attention::causal_prefix) { return; }
  for (const cached_part& part : planner_->planned().parts) {
    if (part.to > part.from) {
      rms_norm(self_->residual(part.row + part.to - part.from - 1),
               self_->weights.final_norm().data(), shape_.model.hidden, shape_.model.norm_epsilon,
               last_state(part.slot));
    }
    planner_->keep(canvases, part);
  }
}

void masked_model::release(std::int32_t slot) noexcept {
  if (slot >= 0 && slot < max_batch()) { planner_->release(slot); }
}

}  // namespace engine
