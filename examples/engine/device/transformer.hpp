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
#include <engine/device/features.hpp>
#include <engine/device/listed_head.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/rotate.hpp>
#include <engine/device/row_states.hpp>
#include <engine/device/staging.hpp>
#include <engine/device/stream_rows.hpp>
#include <engine/device/stream_weights.hpp>
#include <engine/device/weights.hpp>
#include <engine/device/workspace.hpp>
#include <engine/into.hpp>
#include <engine/named_model.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/tools/fingerprints.hpp>

namespace engine::device {

/// The cells of another model, whose cached positions a head's layers read before its own rows. The
/// latter go to the cells of staged rows there.
struct lent_cells {
  cells of;
  std::vector<std::int32_t> layers;  ///< of the other model: those that each layer reads
};

/// What is behind a `device_model`, for the model itself and for those that draft with parts of it.
/// Passes are launches: nothing here waits, but the constructor.
template <hunch::ResidentExecutor Executor, class Multiply>
class transformer : public named_model {
 public:
  using input = typename Multiply::input;
  using stored = typename Multiply::template stored<Executor>;
  template <class T>
  using resident = hunch::workspace<Executor, T>;

  /// \param features_of the target of an EAGLE head, which keeps features; else nullptr.
  /// \param from of a head over canvases; else empty.
  transformer(const config& c, const checkpoint& source, const device_options& o, Executor where,
              const transformer* features_of = nullptr, lent_cells from = {})
      : named_model{source.origin()},
        shape(checked(c)),
        options(o.checked(c)),
        executor(std::move(where)),
        weights(executor, shape, source, options.max_length),
        space(executor, shape, options, from.layers.empty()),
        multiply(executor, options.all_rows()),
        head(executor, weights.head()),
        joined(executor, weights.joint().outputs == 0
                             ? 0
                             : static_cast<std::size_t>(options.max_rows) *
                                   static_cast<std::size_t>(joint_width())),
        target_(features_of),
        inputs_(executor, target_ == nullptr ? 0 : joined.size()),
        lent_(std::move(from)) {
    for (const auto& layer : weights.layers()) {
      multiply.prepare(layer.queries_etc.view(), into::overwrite);
      multiply.prepare(layer.output.view(), into::add);
      multiply.prepare(layer.gates_and_ups.view(), into::overwrite);
      multiply.prepare(layer.down.view(), into::add);
    }
    if (joined.size() > 0) { multiply.prepare(weights.joint(), into::overwrite); }
    if (options.max_outputs > 0) { multiply.prepare(weights.head(), into::overwrite); }
    executor.synchronize();
  }
  transformer(const transformer&) = delete;
  transformer& operator=(const transformer&) = delete;

  bool is_head() const { return target_ != nullptr; }
  std::int32_t stride() const { return padded(shape.hidden); }
  std::int32_t joint_width() const { return padded(2 * shape.hidden); }

  /// That of all copies of the checkpoint's head. Waits for the executor.
  std::uint64_t head_fingerprint() {
    const matrix all = weights.head();
    const auto size = static_cast<std::size_t>(all.outputs) * static_cast<std::size_t>(all.width);
    std::vector<hunch::bfloat16> rows(size);
    executor.download(rows.data(), all.data, size);
    executor.synchronize();
    return hunch::head_fingerprint(
        hunch::kernel::head_weights<hunch::bfloat16>{rows.data(), all.outputs, all.width});
  }
  /// What `load` checks of a head that drafts with the embedding and the head of this model.
  /// \throws std::runtime_error if its config is of another target, or its head another one.
  void check_head(const std::filesystem::path& config_file, transformer& of) {
    const std::uint64_t own = head_fingerprint();
    check_target(config_file, own, origin);
    must_share_head(own, of, of.head_fingerprint());
  }

  /// Stages the rows for a pass through layers [0, last). \param max_outputs rows from this one on
  /// have no output.
  /// \throws std::invalid_argument for more rows than `max_rows`, and what an earlier commit left.
  void stage(const hunch::rows& rows, std::int32_t last, std::int32_t max_outputs) {
    if (failure_) { std::rethrow_exception(std::exchange(failure_, nullptr)); }
    check_size(rows);
    slot_table table = space.table();
    table.layers = last;
    executor.launch(rows.size, stage_rows{rows, table, space.plan(), max_outputs});
    executor.launch(rows.size, trace_paths{table, space.plan()});
  }

  /// What these rows, which are staged, bring to the first layer.
  void begin(const hunch::rows& rows) {
    if (target_ == nullptr) { return embed(rows.size); }
    join(rows, joined.data());
    apply(weights.joint(), joined, rows.size, space.residual, into::overwrite);
  }
  /// The embeddings of `rows` staged rows.
  void embed(std::int32_t rows) {
    const matrix embedding = weights.embedding();
    executor.launch(rows, embed_rows{.rows = space.plan().rows,
                                     .embedding = embedding.data,
                                     .width = embedding.width,
                                     .size = shape.hidden,
                                     .residual = space.residual.data()});
  }

  /// Of an EAGLE head: what its layers will begin with, before a pass over these rows.
  /// \throws std::invalid_argument for more rows than `max_rows`.
  hunch::context_rows inputs_of(const hunch::rows& rows) {
    check_size(rows);
    join(rows, inputs_.data());
    return {inputs_.data(), joint_width()};
  }

  /// `rows` rows through the layers [first, last).
  void run_layers(std::int32_t first, std::int32_t last, std::int32_t rows) {
    for (std::int32_t l = first; l < last; ++l) { run_layer(l, rows, 0); }
  }

  /// `rows` rows through all layers, with `asked` streams beside each that is wanted.
  void run_all(std::int32_t rows, std::int32_t asked) {
    if (asked == 0 || rows == 0) { return run_layers(0, shape.layers, rows); }
    const std::int32_t first = shape.layers - streams->shape.layers;
    run_layers(0, first, rows);
    open_streams(rows, asked);
    for (std::int32_t l = first; l < shape.layers; ++l) { run_layer(l, rows, rows * asked); }
    const std::int64_t behind = rows;
    executor.launch(rows * asked,
                    normalise_rows<input>{.asked = space.plan().computed + behind,
                                          .from = space.residual.data() + behind * shape.hidden,
                                          .size = shape.hidden,
                                          .weight = weights.final_norm(),
                                          .epsilon = shape.norm_epsilon,
                                          .out = space.normed.data() + behind * stride(),
                                          .width = stride(),
                                          .states = streams->states.data()});
  }
  /// \throws std::invalid_argument if there are not so many.
  void check_streams(std::int32_t asked) const {
    const std::int32_t has = streams == nullptr ? 0 : streams->shape.streams;
    if (asked > has) {
      throw std::invalid_argument("engine::device_model: " + std::to_string(asked) +
                                  " streams are asked for, and the model has " +
                                  std::to_string(has));
    }
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
  resident<input> joined;  ///< [rows, joint_width] of a head of a target
  stream_weights<Executor, input>* streams = nullptr;  ///< while there are any

 private:
  using adapter = stream_adapter<Executor>;

  static const config& checked(const config& shape) {
    shape.check();
    return shape;
  }

  void check_size(const hunch::rows& rows) const {
    if (rows.size <= options.max_rows) { return; }
    throw std::invalid_argument("engine::device_model: a pass of " + std::to_string(rows.size) +
                                " rows: raise device_options::max_rows");
  }

  template <class Number>
  void join(const hunch::rows& rows, Number* out) {
    const matrix embedding = weights.embedding();
    executor.launch(rows.size, join_rows<Number>{.rows = rows,
                                                 .own = space.table(),
                                                 .own_features = space.features(),
                                                 .target = target_->space.table(),
                                                 .target_features = target_->space.features(),
                                                 .embedding = embedding.data,
                                                 .embedding_width = embedding.width,
                                                 .size = shape.hidden,
                                                 .out = out,
                                                 .width = joint_width()});
  }

  cells cache() const { return lent_.layers.empty() ? space.cache() : lent_.of; }
  /// The layer of the cache that a layer reads.
  std::int32_t cached_layer(std::int32_t l) const {
    return lent_.layers.empty() ? l : lent_.layers[static_cast<std::size_t>(l)];
  }

  /// A layer for `tokens` rows of tokens, and for `beside` rows of streams behind them.
  void run_layer(std::int32_t l, std::int32_t tokens, std::int32_t beside) {
    const auto& layer = weights.layers()[static_cast<std::size_t>(l)];
    const auto* const more =
        beside == 0
            ? nullptr
            : &streams->layers[static_cast<std::size_t>(l - shape.layers + streams->shape.layers)];
    const pass_plan plan = space.plan();
    const std::int32_t rows = tokens + beside;
    normalise(rows, plan.computed, layer.attention_norm.data());
    apply(layer.queries_etc.view(), space.normed, rows, space.projections, into::overwrite);
    if (more != nullptr) {
      adapt(more->queries_etc, space.normed, tokens, beside, space.projections);
    }
    if (shape.qk_norm) {
      executor.launch(rows * (shape.heads + shape.kv_heads),
                      normalise_heads{.asked = plan.computed,
                                      .heads = shape.heads,
                                      .kv_heads = shape.kv_heads,
                                      .head_dim = shape.head_dim,
                                      .query_weight = layer.query_norm.data(),
                                      .key_weight = layer.key_norm.data(),
                                      .epsilon = shape.norm_epsilon,
                                      .projections = space.projections.data()});
    }
    executor.launch(rows, rotate_rows{.rows = plan.rows,
                                      .cache = cache(),
                                      .layer = cached_layer(l),
                                      .heads = shape.heads,
                                      .cosine = weights.cosine(),
                                      .sine = weights.sine(),
                                      .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
                                      .bias = shape.qkv_bias ? layer.biases.data() : nullptr,
                                      .projections = space.projections.data()});
    attend(l, rows);
    apply(layer.output.view(), space.mixed, rows, space.residual, into::add);
    if (more != nullptr) { adapt(more->output, space.mixed, tokens, beside, space.residual); }

    normalise(rows, plan.computed, layer.mlp_norm.data());
    apply(layer.gates_and_ups.view(), space.normed, rows, space.gates, into::overwrite);
    if (more != nullptr) { adapt(more->gates_and_ups, space.normed, tokens, beside, space.gates); }
    executor.launch(rows, gate_rows<input>{.asked = plan.computed,
                                           .gates = space.gates.data(),
                                           .size = shape.intermediate,
                                           .out = space.products.data(),
                                           .width = padded(shape.intermediate)});
    apply(layer.down.view(), space.products, rows, space.residual, into::add);
    if (more != nullptr) { adapt(more->down, space.products, tokens, beside, space.residual); }
  }

  /// Adds what an adapter makes of the `beside` rows behind `tokens` others.
  void adapt(const adapter& of, const resident<input>& x, std::int32_t tokens, std::int32_t beside,
             resident<float>& y) {
    const matrix a = of.a.view();
    const matrix b = of.b.view();
    const std::int64_t first = tokens;
    const std::uint8_t* const asked = space.plan().computed + first;
    multiply(a, x.data() + first * a.width, beside, streams->inner.data(), into::overwrite, asked);
    executor.launch(beside, round_rows<input>{.asked = asked,
                                              .from = streams->inner.data(),
                                              .size = a.outputs,
                                              .out = streams->reduced.data(),
                                              .width = b.width});
    multiply(b, streams->reduced.data(), beside, y.data() + first * b.outputs, into::add, asked);
  }

  /// Stages streams beside `rows` rows, and makes what they begin with of the residuals there.
  void open_streams(std::int32_t rows, std::int32_t asked) {
    stream_weights<Executor, input>& w = *streams;
    const pass_plan plan = space.plan();
    executor.launch(rows * asked, stage_streams{.plan = plan,
                                                .tokens = rows,
                                                .streams = asked,
                                                .max_streams = options.max_streams,
                                                .first_id = options.max_staged,
                                                .max_length = options.max_length});
    normalise(rows, plan.wanted, w.ones.data());
    const matrix down = w.down.view();
    const matrix up = w.up.view();
    multiply(down, space.normed.data(), rows, w.inner.data(), into::overwrite, plan.wanted);
    const auto reduce = [&]<class Body>(Body body) {
      body.asked = plan.wanted;
      body.from = w.inner.data();
      body.size = down.outputs;
      body.out = w.reduced.data();
      body.width = up.width;
      executor.launch(rows, body);
    };
    w.shape.linear_map ? reduce(round_rows<input>{}) : reduce(silu_rows<input>{});
    multiply(up, w.reduced.data(), rows, w.begun.data(), into::overwrite, plan.wanted);
    executor.launch(rows * asked, begin_streams{.wanted = plan.wanted,
                                                .tokens = rows,
                                                .streams = asked,
                                                .residual = space.residual.data(),
                                                .size = shape.hidden,
                                                .begun = w.begun.data(),
                                                .all_streams = w.shape.streams,
                                                .embeddings = w.embeddings.data(),
                                                .width = w.stride()});
  }

  /// In pieces that bound its scratch memory.
  void attend(std::int32_t l, std::int32_t rows) {
    for (std::int32_t first = 0; first < rows; first += attended_rows) {
      const std::int32_t count = std::min(attended_rows, rows - first);
      executor.launch(count * shape.heads,
                      attend_rows<input>{.plan = space.plan(),
                                         .cache = cache(),
                                         .layer = cached_layer(l),
                                         .heads = shape.heads,
                                         .first_row = first,
                                         .projections = space.projections.data(),
                                         .scratch = space.scratch.data(),
                                         .out = space.mixed.data(),
                                         .width = padded(shape.heads * shape.head_dim)});
    }
  }

  const transformer* const target_;
  resident<float> inputs_;  ///< as `joined`, of an EAGLE head for routers
  const lent_cells lent_;
  std::exception_ptr failure_;
};

}  // namespace engine::device
