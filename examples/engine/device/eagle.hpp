// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/model.hpp>
#include <engine/eagle_files.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>

namespace engine {

/// `engine::eagle_model` on an executor: an EAGLE head of a target there, which keeps its features
/// and outlives it. It has a copy of the target's embedding and head; the executor is the target's.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_eagle : public device_model<Executor, Multiply> {
  using base = device_model<Executor, Multiply>;
  using transformer_type = typename base::transformer_type;

 public:
  static constexpr bool rereads_accepted = true;

  /// \param weights of `shape`, "model.fc.weight" [hidden, 2 hidden] among them.
  /// \throws std::invalid_argument if the target keeps no features, or its sizes are others: a
  ///         message that names both checkpoints.
  device_eagle(const config& shape, const checkpoint& weights, base& target,
               const device_options& options = {})
      : base(made(shape, weights, target.parts(), options)) {}

  /// Reads the directory of the head; embedding and head are those of `target_directory`, where it
  /// has none of its own. Its config says which target it is for: see `check_target`.
  /// \throws std::runtime_error also if that head is not the target's.
  static device_eagle load(const std::filesystem::path& directory,
                           const std::filesystem::path& target_directory, base& target,
                           const device_options& options = {}) {
    const auto config_file = directory / "config.json";
    const eagle_files files = eagle_files::open(directory, target_directory, target.shape());
    device_eagle out(files.shape, files.weights, target, options);
    target.parts().check_head(config_file, out.parts());
    return out;
  }

  /// As of `engine::eagle_model`. Launches what writes them; throws like `forward`.
  hunch::context_rows inputs(const hunch::rows& rows) { return this->parts().inputs_of(rows); }
  /// How many numbers a row has there: two hidden sizes.
  std::int32_t input_width() const { return 2 * this->shape().hidden; }

 private:
  static std::unique_ptr<transformer_type> made(const config& shape, const checkpoint& weights,
                                                const transformer_type& target,
                                                device_options options) {
    if (!target.options.keep_features) {
      throw std::invalid_argument(
          "engine::device_eagle: the target keeps no features: set device_options::keep_features");
    }
    if (!(shape.eagle == eagle_form{})) {
      target.refuse_head(weights.origin(), "has the layers of heads as others publish them",
                         "is on a device, where this engine has those of its own: use the host");
    }
    target.must_have("hidden size", target.shape.hidden, weights.origin(), shape.hidden);
    target.must_have("vocabulary size", target.shape.vocab_size, weights.origin(),
                     shape.vocab_size);
    const auto head_of = [](const config& c) {
      return std::string(c.tied_head ? "its embedding" : "a matrix of its own");
    };
    target.must_have("head", head_of(target.shape), weights.origin(), head_of(shape));
    if (!weights.has("model.fc.weight")) {
      throw std::runtime_error(weights.origin() + ": tensor \"model.fc.weight\" is missing");
    }
    if (options.max_batch > target.options.max_batch) {
      throw std::invalid_argument("engine::device_eagle: " + std::to_string(options.max_batch) +
                                  " slots, and the target has " +
                                  std::to_string(target.options.max_batch));
    }
    options.keep_features = true;
    return std::make_unique<transformer_type>(shape, weights, options, target.executor, &target);
  }
};

template <class Executor, class Multiply>
device_eagle(const config&, const checkpoint&, device_model<Executor, Multiply>&,
             const device_options&) -> device_eagle<Executor, Multiply>;
template <class Executor, class Multiply>
device_eagle(const config&, const checkpoint&, device_model<Executor, Multiply>&)
    -> device_eagle<Executor, Multiply>;

static_assert(hunch::DraftModel<device_eagle<hunch::executor::host>, float>);
static_assert(hunch::RoutedModel<device_eagle<hunch::executor::host>>);
static_assert(hunch::rereads_accepted<device_eagle<hunch::executor::host>>);

}  // namespace engine
