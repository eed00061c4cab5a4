// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/matrix.hpp>
#include <engine/device/model.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/row_states.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// `engine::early_exit` on an executor: the first layers of a target there, which outlives it, as a
/// draft model. It stages rows in the target's cells, and lends the target's memory for a pass;
/// products and executor are the target's.
///
/// The target computes what it evaluates from the first layer on, whether the view has read it or
/// not: how many rows the view has read of a step no host knows, and so every pass of the target
/// goes over all of them.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_early_exit {
  using transformer_type = device::transformer<Executor, Multiply>;
  using input = typename Multiply::input;

 public:
  using target_type = device_model<Executor, Multiply>;
  static constexpr bool shares_target_cache = true;

  /// \param weights "exit.norm.weight" [hidden], "exit.down.weight" [r, hidden], "exit.up.weight"
  ///        [hidden, r] for any r.
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if the
  ///         target does not have more layers than the view, or is not a whole model.
  device_early_exit(const exit_config& shape, const checkpoint& weights, target_type& target)
      : of_(&target.parts()),
        layers_(checked(shape, weights, *of_)),
        norm_(
            device::uploaded(of_->executor, weights.vector("exit.norm.weight", of_->shape.hidden))),
        down_(of_->executor, device::host_matrix{weights.matrix("exit.down.weight", inner(weights),
                                                                of_->shape.hidden)}),
        up_(of_->executor,
            padded_rows(weights.matrix("exit.up.weight", of_->shape.hidden, inner(weights)))),
        inner_(of_->executor, rows() * static_cast<std::size_t>(down_.view().outputs)),
        reduced_(of_->executor, rows() * static_cast<std::size_t>(up_.view().width)),
        states_(of_->executor, rows() * static_cast<std::size_t>(of_->stride())) {
    of_->multiply.prepare(down_.view(), into::overwrite);
    of_->multiply.prepare(up_.view(), into::add);
    of_->executor.synchronize();
  }

  /// Reads `config.json` and the safetensors files of a directory.
  static device_early_exit load(const std::filesystem::path& directory, target_type& target) {
    const auto config_file = directory / "config.json";
    const exit_config shape = read_exit_config(config_file);
    check_target(config_file, target.head_fingerprint(), target.origin());
    return {shape, checkpoint::open(directory), target};
  }

  std::int32_t vocab_size() const { return of_->shape.vocab_size; }
  /// The hidden size.
  std::int32_t context_width() const { return of_->shape.hidden; }
  /// How many of the target's layers it runs.
  std::int32_t layers() const { return layers_; }

  /// One pass over rows after the target's cached tokens. The target's next `evaluate` of the
  /// sequence ends the view's step. Throws like `device_model::evaluate`.
  device::row_states forward(const hunch::rows& rows) {
    transformer_type& of = *of_;
    const device::pass_plan plan = of.space.plan();
    of.stage(rows, layers_, of.options.max_rows);
    of.begin(rows);
    of.run_layers(0, layers_, rows.size);
    of.normalise(rows.size, plan.wanted, norm_.data(), states_.data());
    if (rows.size > 0) {
      of.multiply(down_.view(), of.space.normed.data(), rows.size, inner_.data(), into::overwrite,
                  plan.wanted);
    }
    of.executor.launch(rows.size, device::silu_rows<input>{.asked = plan.wanted,
                                                           .from = inner_.data(),
                                                           .size = down_.view().outputs,
                                                           .out = reduced_.data(),
                                                           .width = up_.view().width});
    if (rows.size > 0) {
      of.multiply(up_.view(), reduced_.data(), rows.size, states_.data(), into::add, plan.wanted);
    }
    return {plan.statuses, states_.data(), of.shape.hidden, of.stride()};
  }

  /// The order of the target's head over shortlists: one for all that draft with it.
  void set_head_layout(const hunch::vocab_layout& layout) {
    of_->head.set_layout(of_->executor, layout);
  }
  std::uint64_t head_order() const { return of_->head.order(); }

  /// Writes the logits of the listed rows over their shortlists.
  void head(const device::row_states& states, const hunch::head_rows<float>& rows) {
    of_->head.multiply(of_->executor, states.data(), rows);
  }

  /// Nothing: the cache is the target's.
  void commit(const hunch::kept_rows&) noexcept {}

 private:
  template <class T>
  using resident = hunch::workspace<Executor, T>;

  static std::int32_t checked(const exit_config& shape, const checkpoint& weights,
                              const transformer_type& target) {
    const std::string does = "is an exit after layer " + std::to_string(shape.layer);
    if (target.is_head()) {
      target.refuse_head(weights.origin(), does, "is a head of another model");
    }
    if (shape.layer < 1 || shape.layer >= target.shape.layers) {
      target.refuse_head(weights.origin(), does,
                         "has " + std::to_string(target.shape.layers) + " layers");
    }
    return shape.layer;
  }

  /// r, which only the tensor says.
  static std::int32_t inner(const checkpoint& weights) {
    return weights.rows_of("exit.down.weight");
  }

  /// As many as a state is long.
  static device::host_matrix padded_rows(const matrix_view& up) {
    device::host_matrix out{up};
    out.append_zeros(device::padded(up.rows) - up.rows);
    return out;
  }

  std::size_t rows() const { return static_cast<std::size_t>(of_->options.max_rows); }

  transformer_type* of_;
  std::int32_t layers_;
  resident<float> norm_;
  device::bf16_matrix<Executor> down_;
  device::bf16_matrix<Executor> up_;  ///< [hidden padded, r]
  resident<float> inner_;             ///< [rows, r]
  resident<input> reduced_;           ///< [rows, r padded]
  resident<float> states_;            ///< [rows, stride]
};

template <class Executor, class Multiply>
device_early_exit(const exit_config&, const checkpoint&, device_model<Executor, Multiply>&)
    -> device_early_exit<Executor, Multiply>;

static_assert(hunch::DraftModel<device_early_exit<hunch::executor::host>, float>);
static_assert(hunch::RoutedModel<device_early_exit<hunch::executor::host>>);
static_assert(hunch::shares_target_cache<device_early_exit<hunch::executor::host>>);

}  // namespace engine
