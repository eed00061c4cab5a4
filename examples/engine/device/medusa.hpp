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
#include <engine/device/listed_head.hpp>
#include <engine/device/matrix.hpp>
#include <engine/device/model.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {
namespace device {

/// What draft heads made of their inputs: row i * heads + j is that of head j for input i, always
/// at the same place. A view: valid until their next `forward`.
struct drafted_rows {
  const float* states = nullptr;  ///< [inputs, heads, stride]
  std::int32_t hidden_size = 0;
  std::int32_t stride = 0;

  /// [hidden] the input of the language-model head.
  hunch::row_view<const float> hidden(std::int32_t row) const {
    return {states + static_cast<std::int64_t>(row) * stride, hidden_size};
  }
  /// [context_width] what a router reads: the same.
  hunch::context_rows contexts() const { return {states, stride}; }
};

/// Copies the state of input `index` to where a product reads it, unless it is padding.
template <class Input>
struct place_state {
  const float* const* hidden;  ///< [inputs]
  std::int32_t size;
  Input* out;  ///< [inputs, width]
  std::int32_t width;
  std::uint8_t* there;  ///< [inputs] out

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const float* const from = hidden[index];
    if (team.rank() == 0) { there[index] = from == nullptr ? 0 : 1; }
    if (from == nullptr) { return; }
    Input* const to = out + static_cast<std::int64_t>(index) * width;
    team.for_each(size, [=](std::int64_t i) { put(to[i], from[i]); });
  }
};

/// The state of head `index` % heads for input `index` / heads: h + silu of the product.
struct add_state {
  const float* const* hidden;  ///< [inputs]
  std::int32_t size;
  std::int32_t heads;
  float* states;  ///< [inputs, heads, stride] the products
  std::int32_t stride;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const float* const from = hidden[index / heads];
    if (from == nullptr) { return; }
    float* const state = states + static_cast<std::int64_t>(index) * stride;
    team.for_each(size, [=](std::int64_t i) { state[i] = from[i] + silu(state[i]); });
  }
};

/// Of each row that is asked for, its number if it is one of head `which`, else -1.
struct pick_rows {
  const std::int32_t* row;  ///< [asked] of all heads, or -1
  std::int32_t heads;
  std::int32_t which;
  std::int32_t* out;  ///< [asked]

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (team.rank() == 0) { out[index] = row[index] % heads == which ? row[index] : -1; }
  }
};

}  // namespace device

/// `engine::medusa_heads` on an executor: heads on the last hidden state of a target there, which
/// outlives them. Head, products and executor are the target's.
///
/// A row of states is bitwise the same alone and among others, if products are.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_medusa {
  using transformer_type = device::transformer<Executor, Multiply>;
  using input = typename Multiply::input;

 public:
  using target_type = device_model<Executor, Multiply>;

  /// \param weights "medusa.<j>.weight" [hidden, hidden] for every head j, and with own heads
  ///        "heads.<j>.weight" [vocab_size, hidden].
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if
  ///         there are no heads or the target's sizes are others.
  device_medusa(const medusa_config& shape, const checkpoint& weights, target_type& target)
      : of_(&target.parts()),
        shape_(checked(shape, weights, *of_)),
        weights_(of_->executor, all_heads(shape, weights)),
        inputs_(of_->executor, inputs() * static_cast<std::size_t>(of_->stride())),
        there_(of_->executor, inputs()),
        states_(of_->executor, inputs() * static_cast<std::size_t>(shape.heads * of_->stride())),
        picked_(of_->executor,
                shape.own_heads ? inputs() * static_cast<std::size_t>(shape.heads) : 0) {
    for (int j = 0; j < (shape.own_heads ? shape.heads : 0); ++j) {
      own_.push_back(std::make_unique<own_head>(
          of_->executor, weights.matrix("heads." + std::to_string(j) + ".weight", shape.vocab_size,
                                        shape.hidden)));
    }
    of_->multiply.prepare(weights_.view(), into::overwrite);
    of_->executor.synchronize();
  }

  /// Reads `config.json` and the safetensors files of a directory.
  static device_medusa load(const std::filesystem::path& directory, target_type& target) {
    const auto config_file = directory / "config.json";
    const medusa_config shape = read_medusa_config(config_file);
    check_target(config_file, target.head_fingerprint(), target.origin());
    return {shape, checkpoint::open(directory), target};
  }

  std::int32_t vocab_size() const { return shape_.vocab_size; }
  std::int32_t hidden_size() const { return shape_.hidden; }
  std::int32_t heads() const { return shape_.heads; }
  std::int32_t context_width() const { return shape_.hidden; }

  /// \throws std::invalid_argument for more inputs than the target has slots.
  device::drafted_rows forward(const hunch::head_inputs& asked) {
    transformer_type& of = *of_;
    if (asked.size > of.options.max_batch) {
      throw std::invalid_argument("engine::device_medusa: " + std::to_string(asked.size) +
                                  " inputs, and the target has " +
                                  std::to_string(of.options.max_batch) + " slots");
    }
    of.executor.launch(asked.size, device::place_state<input>{.hidden = asked.hidden,
                                                              .size = shape_.hidden,
                                                              .out = inputs_.data(),
                                                              .width = of.stride(),
                                                              .there = there_.data()});
    if (asked.size > 0) {
      of.multiply(weights_.view(), inputs_.data(), asked.size, states_.data(), into::overwrite,
                  there_.data());
    }
    of.executor.launch(asked.size * shape_.heads, device::add_state{.hidden = asked.hidden,
                                                                    .size = shape_.hidden,
                                                                    .heads = shape_.heads,
                                                                    .states = states_.data(),
                                                                    .stride = of.stride()});
    return {states_.data(), shape_.hidden, of.stride()};
  }

  /// The order of the head over shortlists: of the target's one for all that draft with it.
  void set_head_layout(const hunch::vocab_layout& layout) {
    if (own_.empty()) { return of_->head.set_layout(of_->executor, layout); }
    for (const auto& own : own_) { own->listed.set_layout(of_->executor, layout); }
  }
  std::uint64_t head_order() const {
    return own_.empty() ? of_->head.order() : own_.front()->listed.order();
  }

  /// Writes the logits of the listed rows over their shortlists.
  /// \throws std::invalid_argument for more rows than there are states, of own heads.
  void head(const device::drafted_rows& states, const hunch::head_rows<float>& rows) {
    if (own_.empty()) { return of_->head.multiply(of_->executor, states.states, rows); }
    if (static_cast<std::size_t>(rows.size) > picked_.size()) {
      throw std::invalid_argument("engine::device_medusa: " + std::to_string(rows.size) +
                                  " rows of a head, and there are " +
                                  std::to_string(picked_.size()) + " states");
    }
    for (std::size_t j = 0; j < own_.size(); ++j) {
      of_->executor.launch(rows.size, device::pick_rows{.row = rows.row,
                                                        .heads = shape_.heads,
                                                        .which = static_cast<std::int32_t>(j),
                                                        .out = picked_.data()});
      own_[j]->listed.multiply(
          of_->executor, states.states,
          {.size = rows.size, .row = picked_.data(), .lists = rows.lists, .logits = rows.logits});
    }
  }

 private:
  template <class T>
  using resident = hunch::workspace<Executor, T>;

  /// A language-model head that a draft head has to itself.
  struct own_head {
    own_head(Executor& executor, const matrix_view& of)
        : rows(executor, device::host_matrix{of}), listed(executor, rows.view()) {}
    device::bf16_matrix<Executor> rows;
    device::listed_head<Executor> listed;
  };

  static const medusa_config& checked(const medusa_config& shape, const checkpoint& weights,
                                      const transformer_type& target) {
    if (shape.heads < 1) {
      throw std::invalid_argument("engine::device_medusa: there must be at least one head");
    }
    target.must_have("hidden size", target.shape.hidden, weights.origin(), shape.hidden);
    target.must_have("vocabulary size", target.shape.vocab_size, weights.origin(),
                     shape.vocab_size);
    return shape;
  }

  /// [heads, hidden padded, hidden]: where a state begins the next one ends.
  static device::host_matrix all_heads(const medusa_config& shape, const checkpoint& weights) {
    device::host_matrix out;
    for (int j = 0; j < shape.heads; ++j) {
      out.append(
          weights.matrix("medusa." + std::to_string(j) + ".weight", shape.hidden, shape.hidden));
      out.append_zeros(device::padded(shape.hidden) - shape.hidden);
    }
    return out;
  }

  std::size_t inputs() const { return static_cast<std::size_t>(of_->options.max_batch); }

  transformer_type* of_;
  medusa_config shape_;
  device::bf16_matrix<Executor> weights_;
  resident<input> inputs_;                      ///< [inputs, stride]
  resident<std::uint8_t> there_;                ///< [inputs] 0: padding
  resident<float> states_;                      ///< [inputs, heads, stride]
  std::vector<std::unique_ptr<own_head>> own_;  ///< [heads], or empty: the target's is read
  resident<std::int32_t> picked_;               ///< [inputs heads] rows of one head
};

template <class Executor, class Multiply>
device_medusa(const medusa_config&, const checkpoint&, device_model<Executor, Multiply>&)
    -> device_medusa<Executor, Multiply>;

static_assert(hunch::DraftHeads<device_medusa<hunch::executor::host>>);

}  // namespace engine
