// SPDX-License-Identifier: Apache-2.0
#include <engine/block_cached_model.hpp>

#include <stdexcept>
#include <string>

#include <engine/block_plan.hpp>
#include <engine/canvas_laws.hpp>
#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>

namespace engine {
namespace {

const masked_config& checked(const masked_config& shape, block_cache kept,
                             const model_options& options) {
  shape.check();
  const auto refuse = [](const char* why) {
    throw std::invalid_argument(std::string("engine::block_cached_model: ") + why);
  };
  if (shape.pattern != masked_config::attention::full) {
    refuse("the model reads known text causally and caches it as it is");
  }
  if (kept == block_cache::none) { refuse("nothing is to be kept; that is masked_model"); }
  if (options.keep_features) { refuse("there is no head that reads its features"); }
  return shape;
}

}  // namespace

block_cached_model::block_cached_model(const masked_config& shape, const checkpoint& weights,
                                       block_cache kept, const model_options& options)
    : shape_{checked(shape, kept, options)},
      self_{std::make_unique<model::implementation>(shape.model, weights, options, nullptr,
                                                    kv_layers{.cached = true, .staged = false})},
      planner_{std::make_unique<block_planner>(shape, options.max_batch, self_->context, kept)},
      last_states_(static_cast<std::size_t>(options.max_batch) *
                   static_cast<std::size_t>(self_->hidden_stride)) {}
block_cached_model::block_cached_model(block_cached_model&&) noexcept = default;
block_cached_model& block_cached_model::operator=(block_cached_model&&) noexcept = default;
block_cached_model::~block_cached_model() = default;

block_cached_model block_cached_model::load(const std::filesystem::path& directory,
                                            block_cache kept, const model_options& options) {
  return {read_masked_config(directory / "config.json"), checkpoint::open(directory), kept,
          options};
}

std::int32_t block_cached_model::max_positions() const { return self_->context; }
int block_cached_model::max_batch() const { return self_->slots.slots(); }
int block_cached_model::length(int slot) const { return planner_->length(slot); }
std::size_t block_cached_model::weight_bytes() const { return self_->weights.bytes(); }
std::uint64_t block_cached_model::layer_rows() const { return self_->layer_rows; }

float* block_cached_model::last_state(int slot) {
  return last_states_.data() + static_cast<std::ptrdiff_t>(slot) * self_->hidden_stride;
}

masked_evaluation block_cached_model::evaluate(const hunch::diffusion::canvases& canvases) {
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

/// Keys and values lie in the cache: attention has put them there in the order of the rows.
void block_cached_model::keep(const hunch::diffusion::canvases& canvases) noexcept {
  for (const cached_part& part : planner_->planned().parts) {
    if (part.row < 0) { continue; }  // the block begins the canvas
    rms_norm(self_->residual(part.row), self_->weights.final_norm().data(), shape_.model.hidden,
             shape_.model.norm_epsilon, last_state(part.slot));
  }
  planner_->keep(canvases);
}

void block_cached_model::release(std::int32_t slot) noexcept {
  if (slot >= 0 && slot < max_batch()) { planner_->release(slot); }
}

}  // namespace engine
