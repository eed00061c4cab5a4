// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/medusa.hpp>
#include <engine/device/model.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/stream_rows.hpp>
#include <engine/device/stream_weights.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// `engine::speculative_streams` on an executor: rows beside the rows of tokens in the top layers
/// of a target there, which outlives them and has room for them. While they are there, the target's
/// passes have as many streams as are asked for; its logits are bitwise what they are without.
///
/// How many rows are wanted no host knows: in these layers a pass has rows for the streams of all.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_streams {
  using transformer_type = device::transformer<Executor, Multiply>;
  using input = typename Multiply::input;
  using weights_type = device::stream_weights<Executor, input>;

 public:
  using target_type = device_model<Executor, Multiply>;

  /// \param weights as of `speculative_streams`.
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if there
  ///         are more streams than the target has room for, too many layers, the target's sizes
  ///         are others, or it has streams.
  device_streams(const stream_config& shape, const checkpoint& weights, target_type& target)
      : of_(&target.parts()),
        weights_(std::make_unique<weights_type>(of_->executor, checked(shape, weights, *of_),
                                                weights, of_->shape, of_->options.max_rows)),
        roots_(weights.has("streams.root.down.weight")
                   ? std::make_unique<root_map>(*of_, shape, weights)
                   : nullptr),
        there_(of_->executor, inputs()),
        joined_(of_->executor, inputs() * size(device::padded(2 * of_->shape.hidden))),
        states_(of_->executor, inputs() * size(of_->stride())) {
    weights_->prepare(of_->multiply);
    of_->executor.synchronize();
    of_->streams = weights_.get();
  }
  device_streams(device_streams&&) noexcept = default;
  device_streams& operator=(device_streams&&) = delete;
  ~device_streams() {
    if (weights_ != nullptr) { of_->streams = nullptr; }
  }

  /// Reads `config.json` and the safetensors files of a directory.
  static device_streams load(const std::filesystem::path& directory, target_type& target) {
    const auto config_file = directory / "config.json";
    const stream_config shape = read_stream_config(config_file);
    check_target(config_file, target.head_fingerprint(), target.origin());
    return {shape, checkpoint::open(directory), target};
  }

  std::int32_t vocab_size() const { return of_->shape.vocab_size; }
  std::int32_t hidden_size() const { return of_->shape.hidden; }
  /// How many streams there are.
  std::int32_t heads() const { return weights_->shape.streams; }
  std::int32_t context_width() const { return hidden_size(); }
  /// The target's layers that they run through.
  std::int32_t layers() const { return weights_->shape.layers; }

  /// What is drafted from. A row is bitwise the same alone and among others, if products are.
  /// \throws std::invalid_argument for more states than there are streams, or more inputs than the
  ///         target has slots.
  device::drafted_rows forward(const hunch::head_inputs& asked) {
    transformer_type& of = *of_;
    if (asked.states > heads() || asked.size > of.options.max_batch) {
      throw std::invalid_argument(
          "engine::device_streams: " + std::to_string(asked.states) + " states of " +
          std::to_string(asked.size) + " inputs, and there are " + std::to_string(heads()) +
          " streams and " + std::to_string(of.options.max_batch) + " slots");
    }
    const std::int32_t rows = asked.size * asked.states;
    const device::matrix embedding = of.weights.embedding();
    of.executor.launch(rows,
                       device::place_streams<input>{.hidden = asked.hidden,
                                                    .roots = asked.tokens,
                                                    .inputs = asked.size,
                                                    .size = of.shape.hidden,
                                                    .embedding = embedding.data,
                                                    .embedding_width = embedding.width,
                                                    .states = states_.data(),
                                                    .all_streams = heads(),
                                                    .stride = of.stride(),
                                                    .joined = joined_.data(),
                                                    .width = device::padded(2 * of.shape.hidden),
                                                    .there = there_.data()});
    if (roots_ != nullptr && rows > 0) { add_roots(asked.size, asked.states); }
    return {states_.data(), of.shape.hidden, of.stride()};
  }

  /// The order of the target's head over shortlists: one for all that draft with it.
  void set_head_layout(const hunch::vocab_layout& layout) {
    of_->head.set_layout(of_->executor, layout);
  }
  std::uint64_t head_order() const { return of_->head.order(); }

  /// Writes the logits of the listed rows over their shortlists.
  void head(const device::drafted_rows& states, const hunch::head_rows<float>& rows) {
    of_->head.multiply(of_->executor, states.states, rows);
  }

 private:
  template <class T>
  using resident = hunch::workspace<Executor, T>;

  /// What tells streams the root.
  struct root_map {
    root_map(transformer_type& of, const stream_config& shape, const checkpoint& source)
        : down(of.executor, weights_type::matrix_of(source, "root.down",
                                                    source.rows_of("streams.root.down.weight"),
                                                    2 * of.shape.hidden)),
          inner(of.executor, rows(of, shape) * size(down.view().outputs)),
          reduced(of.executor, rows(of, shape) * size(device::padded(down.view().outputs))),
          products(of.executor, rows(of, shape) * size(of.stride())) {
      const std::int32_t hidden = of.shape.hidden;
      const matrix_view all =
          source.matrix("streams.root.up.weight", shape.streams * hidden, down.view().outputs);
      of.multiply.prepare(down.view(), into::overwrite);
      for (std::int32_t j = 0; j < shape.streams; ++j) {
        device::host_matrix part;
        part.append(all, j * hidden, (j + 1) * hidden);
        part.append_zeros(of.stride() - hidden);
        up.emplace_back(of.executor, part);
        of.multiply.prepare(up.back().view(), into::overwrite);
      }
    }
    static std::size_t rows(const transformer_type& of, const stream_config& shape) {
      return size(of.options.max_batch * shape.streams);
    }

    device::bf16_matrix<Executor> down;             ///< [rank, 2 hidden]
    std::vector<device::bf16_matrix<Executor>> up;  ///< [streams] of [hidden padded, rank]
    resident<float> inner;                          ///< [states, inputs, rank]
    resident<input> reduced;                        ///< [states, inputs, rank padded]
    resident<float> products;                       ///< [states, inputs, stride]
  };

  void add_roots(std::int32_t inputs, std::int32_t states) {
    transformer_type& of = *of_;
    root_map& map = *roots_;
    const std::int32_t rows = inputs * states;
    const std::int32_t width = device::padded(map.down.view().outputs);
    of.multiply(map.down.view(), joined_.data(), rows, map.inner.data(), into::overwrite,
                there_.data());
    of.executor.launch(rows, device::silu_rows<input>{.asked = there_.data(),
                                                      .from = map.inner.data(),
                                                      .size = map.down.view().outputs,
                                                      .out = map.reduced.data(),
                                                      .width = width});
    for (std::int32_t j = 0; j < states; ++j) {
      const std::int64_t first = std::int64_t{j} * inputs;
      of.multiply(map.up[size(j)].view(), map.reduced.data() + first * width, inputs,
                  map.products.data() + first * of.stride(), into::overwrite,
                  there_.data() + first);
    }
    of.executor.launch(rows, device::add_roots{.there = there_.data(),
                                               .products = map.products.data(),
                                               .inputs = inputs,
                                               .size = of.shape.hidden,
                                               .states = states_.data(),
                                               .all_streams = heads(),
                                               .stride = of.stride()});
  }

  static const stream_config& checked(const stream_config& shape, const checkpoint& weights,
                                      const transformer_type& target) {
    const std::string& origin = weights.origin();
    const std::string does = "has streams in the last " + std::to_string(shape.layers) + " layers";
    if (target.is_head()) { target.refuse_head(origin, does, "is a head of another model"); }
    if (target.streams != nullptr) { target.refuse_head(origin, does, "has streams already"); }
    if (shape.streams < 1 || shape.streams > target.options.max_streams) {
      throw std::invalid_argument("engine: " + origin + " has " + std::to_string(shape.streams) +
                                  " streams, and its target room for " +
                                  std::to_string(target.options.max_streams) +
                                  ": set device_options::max_streams");
    }
    if (shape.layers < 1 || shape.layers >= target.shape.layers) {
      target.refuse_head(origin, does, "has " + std::to_string(target.shape.layers));
    }
    target.must_have("hidden size", target.shape.hidden, origin, shape.hidden);
    target.must_have("vocabulary size", target.shape.vocab_size, origin, shape.vocab_size);
    return shape;
  }

  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  /// States of all inputs.
  std::size_t inputs() const { return size(of_->options.max_batch * weights_->shape.streams); }

  transformer_type* of_;
  std::unique_ptr<weights_type> weights_;
  std::unique_ptr<root_map> roots_;  ///< nullptr: streams know no root
  resident<std::uint8_t> there_;     ///< [states, inputs]
  resident<input> joined_;           ///< [states, inputs, 2 hidden padded]
  resident<float> states_;           ///< [inputs, streams, stride]
};

template <class Executor, class Multiply>
device_streams(const stream_config&, const checkpoint&, device_model<Executor, Multiply>&)
    -> device_streams<Executor, Multiply>;

static_assert(hunch::DraftHeads<device_streams<hunch::executor::host>>);

}  // namespace engine
