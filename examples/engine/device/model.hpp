// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/attend.hpp>
#include <engine/device/commit.hpp>
#include <engine/device/permute_head.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/rotate.hpp>
#include <engine/device/staging.hpp>
#include <engine/device/team_multiply.hpp>
#include <engine/device/weights.hpp>
#include <engine/device/workspace.hpp>
#include <engine/into.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// The transformers of `engine::model` on an executor: an example of models that live in a
/// `hunch::resident_decoder`, written so that all but the matrix product of the device is tested
/// on the host.

namespace engine {

/// Weights, keys, values and the inputs of products are bfloat16; sums and all else are float. All
/// of it is resident memory of the executor. A pass looks at nothing on the host but the number of
/// rows, waits for nothing and allocates nothing, so that it can be recorded.
///
/// Rows of a pass are computed side by side, and each as if it were alone: its logits are bitwise
/// the same among other rows, in any batch or tree, and however its prefix was read, if they are so
/// for the products of `Multiply`.
///
/// Statuses are right when the executor has run the pass. `hunch::decoder`, which reads them at
/// once, therefore needs an executor that has run a launch when it returns.
/// \tparam Multiply a policy of products, see `device::team_multiply`.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_model {
  using input = typename Multiply::input;
  using weights_type = device::model_weights<Executor>;

 public:
  /// What a pass computed. A view: valid until the model's next pass.
  class evaluation {
   public:
    explicit evaluation(const device_model& of) : of_(&of) {}
    /// `ok`, or `cache_full` where there was no room.
    hunch::status status(std::int32_t row) const { return of_->space_.plan().statuses[row]; }
    /// [vocab_size] of a row that was wanted and is `ok`, always at the same address.
    hunch::row_view<float> logits(std::int32_t row) const {
      const std::int32_t size = of_->vocab_size();
      return {of_->space_.logits.data() + static_cast<std::int64_t>(row) * size, size};
    }

   private:
    const device_model* of_;
  };
  using hidden_states = evaluation;

  /// \throws std::runtime_error naming the tensor of `source` that does not fit `shape`;
  ///         std::invalid_argument for options out of range.
  device_model(const config& shape, const checkpoint& source, const device_options& options = {},
               Executor executor = Executor())
      : shape_(checked(shape)),
        origin_(source.origin()),
        options_(options.checked(shape)),
        executor_(std::move(executor)),
        weights_(executor_, shape_, source, options_.max_length),
        space_(executor_, shape_, options_),
        multiply_(executor_, options_.max_rows),
        own_head_(executor_, 0),
        shortlist_head_(executor_, shape_.vocab_size, weights_.head().width),
        head_{weights_.head().data, shape_.vocab_size, weights_.head().width},
        order_(hunch::vocab_layout::identity(shape_.vocab_size).order()) {
    for (const auto& layer : weights_.layers()) {
      multiply_.prepare(weights_.queries_etc(layer), into::overwrite);
      multiply_.prepare(weights_.output(layer), into::add);
      multiply_.prepare(weights_.gates_and_ups(layer), into::overwrite);
      multiply_.prepare(weights_.down(layer), into::add);
    }
    if (options_.max_outputs > 0) { multiply_.prepare(weights_.head(), into::overwrite); }
    executor_.synchronize();
  }

  /// Reads `config.json` and the safetensors files of a Hugging Face directory.
  static device_model load(const std::filesystem::path& directory,
                           const device_options& options = {}, Executor executor = Executor()) {
    return {read_config(directory / "config.json"), checkpoint::open(directory), options,
            std::move(executor)};
  }

  const config& shape() const { return shape_; }
  const device_options& options() const { return options_; }
  /// As of `engine::model`: that of all copies of the checkpoint's head. Waits for the executor.
  std::uint64_t head_fingerprint() {
    const device::matrix all = weights_.head();
    const auto size =
        static_cast<std::size_t>(shape_.vocab_size) * static_cast<std::size_t>(all.width);
    std::vector<hunch::bfloat16> rows(size);
    executor_.download(rows.data(), all.data, size);
    executor_.synchronize();
    return hunch::head_fingerprint(
        hunch::kernel::head_weights<hunch::bfloat16>{rows.data(), shape_.vocab_size, all.width});
  }
  /// What files for this head say of it; the vocabulary as far as its config says.
  hunch::made_for made_for() {
    return {.vocab_size = shape_.vocab_size,
            .vocabulary = shape_.vocabulary,
            .head = head_fingerprint(),
            .name = origin_};
  }
  std::int32_t vocab_size() const { return shape_.vocab_size; }
  /// Cached positions of a slot; waits for the executor.
  std::int32_t length(std::int32_t slot) {
    device::slot_state state;
    executor_.download(&state, space_.table().slots + slot, 1);
    executor_.synchronize();
    return state.length;
  }

  /// One pass over the rows: the logits of those that are wanted.
  /// \throws std::invalid_argument for more rows than `max_rows`, and what an earlier commit left.
  evaluation evaluate(const hunch::rows& rows) {
    run_layers(rows, options_.max_outputs);
    const std::int32_t outputs = std::min(rows.size, options_.max_outputs);
    normalise(rows.size, space_.plan().wanted, weights_.final_norm(), space_.normed.data());
    if (outputs > 0) {
      multiply_(weights_.head(), space_.normed.data(), outputs, space_.logits.data(),
                into::overwrite, space_.plan().wanted);
    }
    return evaluation(*this);
  }

  /// The same without the head.
  hidden_states forward(const hunch::rows& rows) {
    run_layers(rows, options_.max_rows);
    normalise(rows.size, space_.plan().wanted, weights_.final_norm(), space_.hidden.data());
    return hidden_states(*this);
  }

  /// Stores a copy of the head's rows in the order of `layout`, for `head`. Until it is called,
  /// `head` has token order. Not while a step runs.
  /// \throws std::invalid_argument if the layout is of another vocabulary.
  void set_head_layout(const hunch::vocab_layout& layout) {
    if (layout.vocab_size() != vocab_size()) {
      throw std::invalid_argument(
          "engine::device_model: a head layout of " + std::to_string(layout.vocab_size()) +
          " tokens does not fit the model's vocabulary of " + std::to_string(vocab_size()));
    }
    const device::matrix all = weights_.head();
    const std::int32_t rows = layout.head_rows();
    head_ = {all.data, rows, all.width};
    if (layout.row_token() != nullptr) {
      const std::vector<hunch::token> tokens(layout.row_token(), layout.row_token() + rows);
      const auto row_token = device::uploaded(executor_, tokens);
      own_head_ = resident<hunch::bfloat16>(
          executor_, static_cast<std::size_t>(rows) * static_cast<std::size_t>(all.width));
      executor_.launch(rows, device::permute_head{all, row_token.data(), own_head_.data()});
      executor_.synchronize();
      head_.data = own_head_.data();
    }
    order_ = layout.order();
  }
  std::uint64_t head_order() const { return order_; }

  /// Writes the logits of the listed rows of the last `forward` over their shortlists.
  void head(const hidden_states&, const hunch::head_rows<float>& rows) {
    shortlist_head_(executor_, head_, space_.hidden.data(), head_.width, rows);
  }

  /// Appends the kept rows to the caches and drops those of released slots. Ids that are not
  /// staged, and rows without room, are passed over. An error of the executor is thrown by the next
  /// pass.
  void commit(const hunch::kept_rows& kept) noexcept {
    try {
      const device::slot_table table = space_.table();
      executor_.launch(kept.size, device::move_kept{kept, table, space_.cache()});
      executor_.launch(kept.size, device::lengthen_slots{kept, table});
      executor_.launch(kept.release_count, device::release_slots{kept.released, table});
    } catch (...) { failure_ = std::current_exception(); }
  }

 private:
  template <class T>
  using resident = typename Executor::template resident<T>;

  static const config& checked(const config& shape) {
    shape.check();
    if (shape.qkv_bias) {
      throw std::invalid_argument("engine::device_model: biases are not supported");
    }
    return shape;
  }

  void run_layers(const hunch::rows& rows, std::int32_t max_outputs) {
    if (failure_) { std::rethrow_exception(std::exchange(failure_, nullptr)); }
    if (rows.size > options_.max_rows) {
      throw std::invalid_argument("engine::device_model: a pass of " + std::to_string(rows.size) +
                                  " rows: raise device_options::max_rows");
    }
    const device::pass_plan plan = space_.plan();
    executor_.launch(rows.size, device::stage_rows{rows, space_.table(), plan, max_outputs});
    executor_.launch(rows.size, device::trace_paths{space_.table(), plan});
    const device::matrix embedding = weights_.embedding();
    executor_.launch(rows.size, device::embed_rows{.rows = plan.rows,
                                                   .embedding = embedding.data,
                                                   .width = embedding.width,
                                                   .size = shape_.hidden,
                                                   .residual = space_.residual.data()});
    for (std::int32_t l = 0; l < shape_.layers; ++l) { run_layer(l, rows.size); }
  }

  void run_layer(std::int32_t l, std::int32_t rows) {
    const auto& layer = weights_.layers()[static_cast<std::size_t>(l)];
    const device::pass_plan plan = space_.plan();
    normalise(rows, plan.computed, layer.attention_norm.data(), space_.normed.data());
    multiply(weights_.queries_etc(layer), space_.normed, rows, space_.projections, into::overwrite);
    executor_.launch(
        rows, device::rotate_rows{.rows = plan.rows,
                                  .cache = space_.cache(),
                                  .layer = l,
                                  .heads = shape_.heads,
                                  .cosine = weights_.cosine(),
                                  .sine = weights_.sine(),
                                  .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
                                  .projections = space_.projections.data()});
    for (std::int32_t first = 0; first < rows; first += device::attended_rows) {
      const std::int32_t count = std::min(device::attended_rows, rows - first);
      executor_.launch(count * shape_.heads,
                       device::attend_rows<input>{.plan = plan,
                                                  .cache = space_.cache(),
                                                  .layer = l,
                                                  .heads = shape_.heads,
                                                  .first_row = first,
                                                  .projections = space_.projections.data(),
                                                  .scratch = space_.scratch.data(),
                                                  .out = space_.mixed.data(),
                                                  .width = weights_.output(layer).width});
    }
    multiply(weights_.output(layer), space_.mixed, rows, space_.residual, into::add);

    normalise(rows, plan.computed, layer.mlp_norm.data(), space_.normed.data());
    multiply(weights_.gates_and_ups(layer), space_.normed, rows, space_.gates, into::overwrite);
    executor_.launch(rows, device::gate_rows<input>{.asked = plan.computed,
                                                    .gates = space_.gates.data(),
                                                    .size = shape_.intermediate,
                                                    .out = space_.products.data(),
                                                    .width = weights_.down(layer).width});
    multiply(weights_.down(layer), space_.products, rows, space_.residual, into::add);
  }

  template <class Out>
  void normalise(std::int32_t rows, const std::uint8_t* asked, const float* weight, Out* out) {
    executor_.launch(rows, device::normalise_rows<Out>{.asked = asked,
                                                       .from = space_.residual.data(),
                                                       .size = shape_.hidden,
                                                       .weight = weight,
                                                       .epsilon = shape_.norm_epsilon,
                                                       .out = out,
                                                       .width = device::padded(shape_.hidden)});
  }

  void multiply(const device::matrix& w, const resident<input>& x, std::int32_t rows,
                resident<float>& y, into mode) {
    if (rows > 0) { multiply_(w, x.data(), rows, y.data(), mode, space_.plan().computed); }
  }

  config shape_;
  std::string origin_;
  device_options options_;
  Executor executor_;
  weights_type weights_;
  device::workspace<Executor, input> space_;
  Multiply multiply_;
  resident<hunch::bfloat16> own_head_;  ///< in the order of a layout, unless that is token order
  hunch::shortlist_head<Executor, hunch::bfloat16> shortlist_head_;
  hunch::kernel::head_weights<hunch::bfloat16> head_;
  std::uint64_t order_;
  std::exception_ptr failure_;
};

static_assert(hunch::TargetModel<device_model<hunch::executor::host>>);
static_assert(hunch::DraftModel<device_model<hunch::executor::host>, float>);

}  // namespace engine
