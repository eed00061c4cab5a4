// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/attend.hpp>
#include <engine/device/commit.hpp>
#include <engine/device/features.hpp>
#include <engine/device/listed_head.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/rotate.hpp>
#include <engine/device/row_states.hpp>
#include <engine/device/staging.hpp>
#include <engine/device/weights.hpp>
#include <engine/device/workspace.hpp>
#include <engine/into.hpp>
#include <engine/named_model.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/model/rows.hpp>

namespace engine::device {

/// What is behind a `device_model`, for the model itself and for those that draft with parts of it.
/// Passes are launches: nothing here waits, but the constructor.
template <hunch::ResidentExecutor Executor, class Multiply>
class transformer : public named_model {
 public:
  using input = typename Multiply::input;
  using stored = typename Multiply::template stored<Executor>;
  template <class T>
  using resident = typename Executor::template resident<T>;

  /// \param features_of the target of an EAGLE head, which keeps features; else nullptr.
  transformer(const config& c, const checkpoint& source, const device_options& o, Executor where,
              const transformer* features_of = nullptr)
      : named_model{source.origin()},
        shape(checked(c)),
        options(o.checked(c)),
        executor(std::move(where)),
        weights(executor, shape, source, options.max_length),
        space(executor, shape, options),
        multiply(executor, options.all_rows()),
        head(executor, weights.head()),
        target_(features_of),
        joined_(executor, target_ == nullptr ? 0
                                             : static_cast<std::size_t>(options.max_rows) *
                                                   static_cast<std::size_t>(joint_width())) {
    for (const auto& layer : weights.layers()) {
      multiply.prepare(layer.queries_etc.view(), into::overwrite);
      multiply.prepare(layer.output.view(), into::add);
      multiply.prepare(layer.gates_and_ups.view(), into::overwrite);
      multiply.prepare(layer.down.view(), into::add);
    }
    if (target_ != nullptr) { multiply.prepare(weights.joint(), into::overwrite); }
    if (options.max_outputs > 0) { multiply.prepare(weights.head(), into::overwrite); }
    executor.synchronize();
  }
  transformer(const transformer&) = delete;
  transformer& operator=(const transformer&) = delete;

  bool is_head() const { return target_ != nullptr; }
  std::int32_t stride() const { return padded(shape.hidden); }

  /// Stages the rows for a pass through layers [0, last). \param max_outputs rows from this one on
  /// have no output.
  /// \throws std::invalid_argument for more rows than `max_rows`, and what an earlier commit left.
  void stage(const hunch::rows& rows, std::int32_t last, std::int32_t max_outputs) {
    if (failure_) { std::rethrow_exception(std::exchange(failure_, nullptr)); }
    if (rows.size > options.max_rows) {
      throw std::invalid_argument("engine::device_model: a pass of " + std::to_string(rows.size) +
                                  " rows: raise device_options::max_rows");
    }
    slot_table table = space.table();
    table.layers = last;
    executor.launch(rows.size, stage_rows{rows, table, space.plan(), max_outputs});
    executor.launch(rows.size, trace_paths{table, space.plan()});
  }

  /// What the staged rows bring to the first layer.
  void begin(std::int32_t rows) {
    const pass_plan plan = space.plan();
    const matrix embedding = weights.embedding();
    if (target_ == nullptr) {
      executor.launch(rows, embed_rows{.rows = plan.rows,
                                       .embedding = embedding.data,
                                       .width = embedding.width,
                                       .size = shape.hidden,
                                       .residual = space.residual.data()});
      return;
    }
    executor.launch(rows, join_rows<input>{.plan = plan,
                                           .own = space.table(),
                                           .own_features = space.features(),
                                           .target = target_->space.table(),
                                           .target_features = target_->space.features(),
                                           .embedding = embedding.data,
                                           .embedding_width = embedding.width,
                                           .size = shape.hidden,
                                           .out = joined_.data(),
                                           .width = joint_width()});
    apply(weights.joint(), joined_, rows, space.residual, into::overwrite);
  }

  /// `rows` rows through the layers [first, last).
  void run_layers(std::int32_t first, std::int32_t last, std::int32_t rows) {
    for (std::int32_t l = first; l < last; ++l) { run_layer(l, rows); }
  }

  /// The states of the rows of a pass through all layers, in `space.hidden`, and in `space.normed`
  /// as inputs of a product.
  void finish(std::int32_t rows) {
    const pass_plan plan = space.plan();
    const feature_cells features = space.features();
    const std::uint8_t* const asked = features.width > 0 ? plan.computed : plan.wanted;
    normalise(rows, asked, weights.final_norm(), space.hidden.data());
    if (features.width == 0) { return; }
    executor.launch(rows, stage_features{plan.rows, space.hidden.data(), features});
  }

  /// The logits of the wanted ones among the first `outputs` rows.
  void write_logits(std::int32_t outputs) {
    if (outputs == 0) { return; }
    multiply(weights.head(), space.normed.data(), outputs, space.logits.data(), into::overwrite,
             space.plan().wanted);
  }

  row_states states() const {
    return {space.plan().statuses, space.hidden.data(), shape.hidden, stride()};
  }

  void commit(const hunch::kept_rows& kept) noexcept {
    try {
      const slot_table table = space.table();
      executor.launch(kept.size, move_kept{kept, table, space.cache()});
      if (options.keep_features) {
        executor.launch(kept.size, move_features{kept, table, space.features()});
      }
      executor.launch(kept.size, lengthen_slots{kept, table});
      executor.launch(kept.release_count, release_slots{kept.released, table});
    } catch (...) { failure_ = std::current_exception(); }
  }

  /// out[i] = the residual of row i over its norm, times `weight`, for the rows that `asked` says;
  /// in `space.normed`, and as floats in `states` unless that is nullptr.
  void normalise(std::int32_t rows, const std::uint8_t* asked, const float* weight,
                 float* states = nullptr) {
    executor.launch(rows, normalise_rows<input>{.asked = asked,
                                                .from = space.residual.data(),
                                                .size = shape.hidden,
                                                .weight = weight,
                                                .epsilon = shape.norm_epsilon,
                                                .out = space.normed.data(),
                                                .width = stride(),
                                                .states = states});
  }

  /// y = w x, or y + w x, for the rows that take part.
  template <class Matrix>
  void apply(const Matrix& w, const resident<input>& x, std::int32_t rows, resident<float>& y,
             into mode) {
    if (rows > 0) { multiply(w, x.data(), rows, y.data(), mode, space.plan().computed); }
  }

  const config shape;
  const device_options options;
  Executor executor;
  model_weights<Executor, stored> weights;
  workspace<Executor, input> space;
  Multiply multiply;
  listed_head<Executor> head;

 private:
  static const config& checked(const config& shape) {
    shape.check();
    if (shape.qkv_bias) {
      throw std::invalid_argument("engine::device_model: biases are not supported");
    }
    return shape;
  }

  std::int32_t joint_width() const { return padded(2 * shape.hidden); }

  void run_layer(std::int32_t l, std::int32_t rows) {
    const auto& layer = weights.layers()[static_cast<std::size_t>(l)];
    const pass_plan plan = space.plan();
    normalise(rows, plan.computed, layer.attention_norm.data());
    apply(layer.queries_etc.view(), space.normed, rows, space.projections, into::overwrite);
    executor.launch(rows, rotate_rows{.rows = plan.rows,
                                      .cache = space.cache(),
                                      .layer = l,
                                      .heads = shape.heads,
                                      .cosine = weights.cosine(),
                                      .sine = weights.sine(),
                                      .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
                                      .projections = space.projections.data()});
    attend(l, 0, rows, padded(shape.heads * shape.head_dim));
    apply(layer.output.view(), space.mixed, rows, space.residual, into::add);

    normalise(rows, plan.computed, layer.mlp_norm.data());
    apply(layer.gates_and_ups.view(), space.normed, rows, space.gates, into::overwrite);
    executor.launch(rows, gate_rows<input>{.asked = plan.computed,
                                           .gates = space.gates.data(),
                                           .size = shape.intermediate,
                                           .out = space.products.data(),
                                           .width = padded(shape.intermediate)});
    apply(layer.down.view(), space.products, rows, space.residual, into::add);
  }

  /// Attention of rows [begin, end), in pieces that bound its scratch memory.
  void attend(std::int32_t l, std::int32_t begin, std::int32_t end, std::int32_t width) {
    for (std::int32_t first = begin; first < end; first += attended_rows) {
      const std::int32_t count = std::min(attended_rows, end - first);
      executor.launch(count * shape.heads,
                      attend_rows<input>{.plan = space.plan(),
                                         .cache = space.cache(),
                                         .layer = l,
                                         .heads = shape.heads,
                                         .first_row = first,
                                         .projections = space.projections.data(),
                                         .scratch = space.scratch.data(),
                                         .out = space.mixed.data(),
                                         .width = width});
    }
  }

  const transformer* const target_;
  resident<input> joined_;  ///< [rows, joint_width] of an EAGLE head
  std::exception_ptr failure_;
};

}  // namespace engine::device
