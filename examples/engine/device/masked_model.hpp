// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <engine/checkpoint.hpp>
#include <engine/device/canvases.hpp>
#include <engine/device/row_states.hpp>
#include <engine/device/team_multiply.hpp>
#include <engine/device/transformer.hpp>
#include <engine/device/workspace.hpp>
#include <engine/masked_config.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/rows.hpp>

/// \file
/// The masked models of `engine::masked_model` on an executor: an example of models that live in a
/// `hunch::diffusion::resident_decoder`.

namespace engine {

/// Capacities of a `device_masked_model` and of what drafts for it; nothing grows afterwards.
struct device_canvas_options {
  std::int32_t max_batch = 1;      ///< slots: requests that are cached at the same time
  std::int32_t max_length = 0;     ///< positions of a canvas; 0: the config's, at most 4096
  std::int32_t max_canvases = 64;  ///< of a pass
  std::int32_t max_rows = 256;     ///< rows of a pass, after those that canvases share
  std::int32_t max_wanted = 256;   ///< positions of a pass

  /// Outputs stand where the rows of layers stood before.
  device_options sizes() const {
    const auto check = [](std::int32_t n, const char* option) {
      if (n >= 1) { return; }
      throw std::invalid_argument(std::string("engine::device_canvas_options: ") + option +
                                  " must be at least 1");
    };
    check(max_canvases, "max_canvases");
    check(max_rows, "max_rows");
    check(max_wanted, "max_wanted");
    return {.max_batch = max_batch,
            .max_length = max_length,
            .max_rows = std::max(max_rows, max_wanted),
            .max_staged = max_rows,
            .max_outputs = max_wanted,
            .keep_features = false,
            .max_streams = 0,
            .max_paths = max_canvases};
  }
};

namespace device {

/// What a pass over canvases computed: the states of the wanted positions, and their logits. A
/// view: valid until the model's next pass.
class canvas_states : private row_states {
 public:
  canvas_states(const row_states& states, float* logits, std::int32_t vocab_size)
      : row_states(states), logits_(logits), vocab_size_(vocab_size) {}

  // Not `status`, which is of rows: a wanted position without room has logits that are no numbers.
  using row_states::contexts;
  using row_states::data;
  using row_states::hidden;

  /// [vocab_size] of wanted position i, always at the same address.
  hunch::row_view<float> logits(std::int32_t i) const {
    return {logits_ + static_cast<std::int64_t>(i) * vocab_size_, vocab_size_};
  }

 private:
  float* logits_;
  std::int32_t vocab_size_;
};

/// A transformer whose passes are over canvases: that of a masked model, or of what drafts for it.
template <hunch::ResidentExecutor Executor, class Multiply>
class canvas_transformer : public transformer<Executor, Multiply> {
  using base = transformer<Executor, Multiply>;

 public:
  template <class T>
  using resident = typename base::template resident<T>;

  /// \param owner whose passes these are, in what is refused.
  canvas_transformer(const char* owner, const config& shape, const checkpoint& source,
                     const device_canvas_options& options, Executor where, lent_cells from = {})
      : base(shape, source, options.sizes(), std::move(where), nullptr, std::move(from)),
        sizes(options),
        owner_(owner),
        states_(this->executor, size(options.max_batch) * size(this->stride())),
        outputs_(this->executor, size(options.max_wanted)) {}

  /// The rows and outputs of a pass.
  /// \throws std::invalid_argument for more canvases or wanted positions than there is room for.
  canvas_pass pass_of(const hunch::diffusion::canvases& canvases) const {
    const auto check = [this](std::int32_t n, std::int32_t most, const char* what,
                              const char* option) {
      if (n <= most) { return; }
      throw std::invalid_argument(std::string(owner_) + ": a pass of " + std::to_string(n) + " " +
                                  what + ": raise device_canvas_options::" + option);
    };
    check(canvases.size, sizes.max_canvases, "canvases", "max_canvases");
    check(canvases.wanted_count, sizes.max_wanted, "wanted positions", "max_wanted");
    return {.plan = this->space.plan(),
            .outputs = outputs_.data(),
            .max_rows = std::min(sizes.max_rows, canvases.token_count),
            .max_outputs = canvases.wanted_count};
  }

  /// The end of a pass: the states and logits of its outputs.
  canvas_states finish_pass(const canvas_pass& pass) {
    const config& c = this->shape;
    this->executor.launch(pass.max_outputs, state_outputs<typename base::input>{
                                                .outputs = pass.outputs,
                                                .cached = states_.data(),
                                                .residual = this->space.residual.data(),
                                                .size = c.hidden,
                                                .weight = this->weights.final_norm(),
                                                .epsilon = c.norm_epsilon,
                                                .out = this->space.normed.data(),
                                                .width = this->stride(),
                                                .states = this->space.hidden.data(),
                                                .wanted = pass.plan.wanted});
    this->write_logits(pass.max_outputs);
    return {this->states(), this->space.logits.data(), c.vocab_size};
  }

  /// [max_batch, stride] what `canvas_output::cached` says.
  float* kept_states() const { return states_.data(); }

  const device_canvas_options sizes;

 protected:
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

 private:
  const char* owner_;
  resident<float> states_;
  resident<canvas_output> outputs_;
};

/// What is behind a `device_masked_model`, for the model itself and for heads that draft with parts
/// of it.
template <hunch::ResidentExecutor Executor, class Multiply>
class masked_transformer : public canvas_transformer<Executor, Multiply> {
  using base = canvas_transformer<Executor, Multiply>;

 public:
  template <class T>
  using resident = typename base::template resident<T>;

  masked_transformer(const masked_config& c, const checkpoint& source,
                     const device_canvas_options& options, Executor where)
      : base("engine::device_masked_model", checked(c).model, source, options, std::move(where)),
        masked(c),
        canvases_(this->executor, base::size(options.max_canvases)),
        slots_(this->executor, base::size(options.max_batch)),
        tokens_(this->executor,
                base::size(options.max_batch) * base::size(this->options.max_length)),
        kept_(this->executor, 0) {}

  canvas_table table() const {
    return {.canvases = canvases_.data(),
            .slots = slots_.data(),
            .tokens = tokens_.data(),
            .max_batch = this->options.max_batch,
            .max_length = this->options.max_length,
            .max_staged = this->options.max_staged,
            .mask_token = masked.mask_token,
            .shift = masked.shifted ? 1 : 0,
            .causal_prefix = masked.pattern == masked_config::attention::causal_prefix};
  }

  canvas_states evaluate(const hunch::diffusion::canvases& given) {
    const canvas_pass pass = this->pass_of(given);
    const canvas_table all = table();
    this->executor.launch(given.size, look_at_canvases{given, all});
    this->executor.launch(given.size, plan_slots{given, all});
    this->executor.launch(given.size, stage_canvases{given, all, pass});
    this->embed(pass.max_rows);
    const std::int32_t kept = kept_before < 0 ? 0 : kept_before;
    this->run_layers(0, kept, pass.max_rows);
    if (kept_before >= 0) {
      this->executor.launch(pass.max_rows, copy_rows{.computed = pass.plan.computed,
                                                     .from = this->space.residual.data(),
                                                     .to = kept_.data(),
                                                     .size = this->shape.hidden});
    }
    this->run_layers(kept, this->shape.layers, pass.max_rows);
    const canvas_states out = this->finish_pass(pass);
    if (!all.causal_prefix) { return out; }
    this->executor.launch(pass.max_rows, keep_prefix{.rows = pass.plan.rows,
                                                     .table = all,
                                                     .cache = this->space.cache(),
                                                     .residual = this->space.residual.data(),
                                                     .size = this->shape.hidden,
                                                     .weight = this->weights.final_norm(),
                                                     .epsilon = this->shape.norm_epsilon,
                                                     .states = this->kept_states(),
                                                     .width = this->stride()});
    this->executor.launch(given.size, note_prefix{given, all});
    return out;
  }

  void release(std::int32_t slot) noexcept {
    if (slot < 0 || slot >= this->options.max_batch) { return; }
    hunch::attempt([&] { this->executor.launch(1, hunch::clear_slots{slots_.data() + slot}); });
  }

  std::int32_t length(std::int32_t slot) {
    canvas_slot of;
    this->executor.download(&of, slots_.data() + slot, 1);
    this->executor.synchronize();
    return of.length;
  }

  /// Keeps the residuals that rows have before a layer for one more head, from the next pass on:
  /// the one layer that all heads read.
  void keep_residuals(std::int32_t layer) {
    if (kept_.size() == 0) {
      kept_ = resident<float>(this->executor,
                              base::size(this->sizes.max_rows) * base::size(this->shape.hidden));
    }
    kept_before = layer;
    ++heads_;
  }
  /// For one head less. What has been kept stays where it is: a pass may be writing it.
  void forget_residuals() noexcept {
    if (--heads_ == 0) { kept_before = -1; }
  }
  /// [rows, hidden] of the last pass.
  const float* kept_residuals() const { return kept_.data(); }

  const masked_config masked;
  std::int32_t kept_before = -1;  ///< the layer; -1: nothing is kept

 private:
  static const masked_config& checked(const masked_config& c) {
    c.check();
    return c;
  }

  resident<read_canvas> canvases_;
  resident<canvas_slot> slots_;
  resident<hunch::token> tokens_;
  resident<float> kept_;
  std::int32_t heads_ = 0;  ///< that `kept_` is for
};

}  // namespace device

/// What a position of a canvas sees and what is cached are those of `masked_model`; weights, keys
/// and values those of `device_model`. A pass looks at nothing on the host but the bounds in
/// `canvases`, waits for nothing and allocates nothing, so that it can be recorded. What is cached
/// is compared with what is asked for, so that it does not matter to it which request has a slot.
///
/// Nothing is refused when the executor runs a pass: a canvas that breaks the rules of `canvases`,
/// or a slot whose rows have no room beside those before it, has logits that are no numbers, and
/// nothing is cached.
///
/// The logits are a function of a canvas and the position: bitwise the same in any batch and
/// whatever is cached, if they are so for the products of `Multiply`.
/// \tparam Multiply a policy of products, see `device::team_multiply`.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_masked_model {
 public:
  using transformer_type = device::masked_transformer<Executor, Multiply>;
  using evaluation = device::canvas_states;

  /// \throws std::runtime_error naming the tensor of `source` that does not fit `shape`;
  ///         std::invalid_argument for options out of range.
  device_masked_model(const masked_config& shape, const checkpoint& source,
                      const device_canvas_options& options = {}, Executor executor = Executor())
      : self_(std::make_unique<transformer_type>(shape, source, options, std::move(executor))) {}

  /// Reads `config.json` and the safetensors files of a Hugging Face directory; see
  /// `read_masked_config`.
  static device_masked_model load(const std::filesystem::path& directory,
                                  const device_canvas_options& options = {},
                                  Executor executor = Executor()) {
    return {read_masked_config(directory / "config.json"), checkpoint::open(directory), options,
            std::move(executor)};
  }

  const masked_config& shape() const { return self_->masked; }
  std::int32_t vocab_size() const { return self_->shape.vocab_size; }
  hunch::token mask_token() const { return self_->masked.mask_token; }
  std::int32_t max_positions() const { return self_->options.max_length; }
  /// Cached positions of a slot; waits for the executor.
  std::int32_t length(std::int32_t slot) { return self_->length(slot); }

  /// One pass over the canvases: the logits of the wanted positions.
  /// \throws std::invalid_argument for more canvases or wanted positions than the options have room
  ///         for.
  evaluation evaluate(const hunch::diffusion::canvases& canvases) {
    return self_->evaluate(canvases);
  }

  /// Drops what is cached of a slot.
  void release(std::int32_t slot) noexcept { self_->release(slot); }

  /// What is behind it, for heads that draft with parts of it: it stays where it is when this is
  /// moved.
  transformer_type& parts() { return *self_; }

 private:
  std::unique_ptr<transformer_type> self_;
};

static_assert(hunch::diffusion::MaskedModel<device_masked_model<hunch::executor::host>>);

}  // namespace engine
