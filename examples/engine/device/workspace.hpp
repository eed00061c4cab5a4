// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <engine/config.hpp>
#include <engine/device/attend.hpp>
#include <engine/device/cells.hpp>
#include <engine/device/features.hpp>
#include <engine/device/matrix.hpp>
#include <engine/device/slots.hpp>
#include <engine/device/staging.hpp>
#include <hunch/executor/executor.hpp>

namespace engine {

/// Capacities of a `device_model`; nothing grows afterwards.
struct device_options {
  std::int32_t max_batch = 1;     ///< slots: sequences that are cached at the same time
  std::int32_t max_length = 0;    ///< cached positions per slot; 0: the config's, at most 4096
  std::int32_t max_rows = 256;    ///< rows of a pass
  std::int32_t max_staged = 256;  ///< staged ids of a slot
  /// Rows of a pass that may have logits: the first so many. -1: all of them; 0: none, for a model
  /// that only drafts.
  std::int32_t max_outputs = -1;
  /// Keep the last hidden state of every position beside the cache, for an EAGLE head that reads
  /// it.
  bool keep_features = false;
  /// Speculative streams beside a row at most: room for them in passes, and beside the cache.
  std::int32_t max_streams = 0;
  /// Paths of staged rows in a pass, where rows share them. 0: every row has its own.
  std::int32_t max_paths = 0;

  /// Rows of a pass, streams included.
  std::int32_t all_rows() const { return max_rows * (1 + max_streams); }
  /// Cells of staged rows of a slot, streams included.
  std::int32_t all_staged() const { return max_staged * (1 + max_streams); }

  std::int32_t paths() const { return max_paths > 0 ? max_paths : all_rows(); }

  /// With the defaults filled in. \throws std::invalid_argument naming what is out of range.
  device_options checked(const config& shape) const {
    const auto refuse = [](const std::string& why) {
      throw std::invalid_argument("engine::device_options: " + why);
    };
    device_options o = *this;
    if (o.max_batch < 1) { refuse("max_batch must be at least 1"); }
    if (o.max_rows < 1) { refuse("max_rows must be at least 1"); }
    if (o.max_staged < 1) { refuse("max_staged must be at least 1"); }
    if (o.max_streams < 0) { refuse("max_streams must not be negative"); }
    if (o.max_length < 0) { refuse("max_length must not be negative"); }
    if (o.max_length > shape.context) {
      refuse("a length of " + std::to_string(o.max_length) + " is more than the model's " +
             std::to_string(shape.context));
    }
    if (o.max_length == 0) { o.max_length = std::min(shape.context, 4096); }
    if (o.max_outputs < 0 || o.max_outputs > o.max_rows) { o.max_outputs = o.max_rows; }
    return o;
  }
};

namespace device {

/// Rows whose attention is computed in one launch: what bounds its scratch memory.
inline constexpr std::int32_t attended_rows = 64;

/// The caches of a model and the arrays of its passes, in an executor's memory.
template <hunch::ResidentExecutor Executor, class Input>
class workspace {
  template <class T>
  using resident = hunch::workspace<Executor, T>;

 public:
  /// \param own_cache false where layers read and write the cells of another model.
  workspace(Executor& executor, const config& c, const device_options& o, bool own_cache)
      : options_(o),
        layers_(c.layers),
        kv_heads_(c.kv_heads),
        head_dim_(c.head_dim),
        slots_(executor, size(o.max_batch)),
        staged_(executor, size(o.max_batch) * size(o.max_staged)),
        keys_(executor, own_cache ? elements(o, c) : 0),
        values_(executor, own_cache ? elements(o, c) : 0),
        feature_width_(o.keep_features ? padded(c.hidden) : 0),
        features_(executor,
                  size(feature_width_) * size(o.max_batch) * size(o.max_length + o.max_staged)),
        rows_(executor, size(o.all_rows())),
        paths_(executor, size(o.paths()) * size(o.max_staged + o.max_streams)),
        computed_(executor, size(o.all_rows())),
        wanted_(executor, size(o.max_rows)),
        statuses_(executor, size(o.max_rows)),
        residual(executor, floats(o, c.hidden)),
        projections(executor, floats(o, (c.heads + 2 * c.kv_heads) * c.head_dim)),
        gates(executor, floats(o, 2 * c.intermediate)),
        hidden(executor, floats(o, padded(c.hidden))),
        logits(executor, size(o.max_outputs) * size(c.vocab_size)),
        scratch(executor, size(std::min(o.all_rows(), attended_rows)) * size(c.heads) *
                              size(attention_scratch(o.max_length + o.max_streams, c.head_dim))),
        normed(executor, floats(o, padded(c.hidden))),
        mixed(executor, floats(o, padded(c.heads * c.head_dim))),
        products(executor, floats(o, padded(c.intermediate))) {}

  slot_table table() const {
    return {.layers = layers_,
            .max_batch = options_.max_batch,
            .max_length = options_.max_length,
            .max_staged = options_.max_staged,
            .slots = slots_.data(),
            .staged = staged_.data()};
  }
  cells cache() const {
    return {.keys = keys_.data(),
            .values = values_.data(),
            .layers = layers_,
            .kv_heads = kv_heads_,
            .head_dim = head_dim_,
            .max_length = options_.max_length,
            .max_staged = options_.all_staged(),
            .max_attended = options_.max_length + options_.max_streams};
  }
  feature_cells features() const {
    return {.data = features_.data(),
            .width = feature_width_,
            .max_length = options_.max_length,
            .max_staged = options_.max_staged};
  }
  pass_plan plan() const {
    return {.rows = rows_.data(),
            .paths = paths_.data(),
            .path_stride = options_.max_staged + options_.max_streams,
            .computed = computed_.data(),
            .wanted = wanted_.data(),
            .statuses = statuses_.data()};
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  /// Of keys, and of values.
  static std::size_t elements(const device_options& o, const config& c) {
    const cells all{.keys = nullptr,
                    .values = nullptr,
                    .layers = c.layers,
                    .kv_heads = c.kv_heads,
                    .head_dim = c.head_dim,
                    .max_length = o.max_length,
                    .max_staged = o.all_staged(),
                    .max_attended = 0};
    return size(all.run(o.max_batch, 0, 0));
  }
  static std::size_t floats(const device_options& o, std::int32_t width) {
    return size(o.all_rows()) * size(width);
  }

  device_options options_;
  std::int32_t layers_;
  std::int32_t kv_heads_;
  std::int32_t head_dim_;
  resident<slot_state> slots_;
  resident<staged_row> staged_;
  resident<hunch::bfloat16> keys_;
  resident<hunch::bfloat16> values_;
  std::int32_t feature_width_;
  resident<hunch::bfloat16> features_;
  resident<planned_row> rows_;
  resident<std::int32_t> paths_;
  resident<std::uint8_t> computed_;
  resident<std::uint8_t> wanted_;
  typename Executor::template buffer<hunch::status> statuses_;

 public:
  resident<float> residual;     ///< [rows, hidden]
  resident<float> projections;  ///< [rows, (heads + 2 kv_heads) head_dim]
  resident<float> gates;        ///< [rows, 2 intermediate]
  resident<float> hidden;       ///< [rows, hidden padded] after the last norm
  resident<float> logits;       ///< [max_outputs, vocab_size]
  resident<float> scratch;      ///< [attended_rows, heads, attention_scratch]
  resident<Input> normed;       ///< [rows, hidden padded]
  resident<Input> mixed;        ///< [rows, heads head_dim padded]
  resident<Input> products;     ///< [rows, intermediate padded]
};

}  // namespace device
}  // namespace engine
