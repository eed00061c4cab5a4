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
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/row_states.hpp>
#include <engine/device/team_multiply.hpp>
#include <engine/device/transformer.hpp>
#include <engine/device/workspace.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
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
 public:
  using transformer_type = device::transformer<Executor, Multiply>;

  /// What a pass computed. A view: valid until the model's next pass.
  class evaluation : public device::row_states {
   public:
    evaluation(const transformer_type& of, std::int32_t streams)
        : row_states(of.states()),
          logits_(of.space.logits.data()),
          size_(of.shape.vocab_size),
          streams_(streams),
          of_streams_(streams == 0 ? nullptr : of.streams->states.data()),
          hidden_(of.shape.hidden),
          stride_(of.stride()) {}
    /// [vocab_size] of a row that was wanted and is `ok`, always at the same address.
    hunch::row_view<float> logits(std::int32_t row) const {
      return {logits_ + static_cast<std::int64_t>(row) * size_, size_};
    }

    /// [hidden] stream j beside such a row, after the last norm; see `device_streams`.
    hunch::row_view<const float> stream(std::int32_t row, std::int32_t j) const {
      if (j < 0 || j >= streams_) {
        throw std::out_of_range("engine::device_model: stream " + std::to_string(j) +
                                " was not asked for");
      }
      const std::int64_t at = static_cast<std::int64_t>(row) * streams_ + j;
      return {of_streams_ + at * stride_, hidden_};
    }

   private:
    float* logits_;
    std::int32_t size_;
    std::int32_t streams_;
    const float* of_streams_;
    std::int32_t hidden_;
    std::int32_t stride_;
  };
  using hidden_states = device::row_states;

  /// \throws std::runtime_error naming the tensor of `source` that does not fit `shape`;
  ///         std::invalid_argument for options out of range.
  device_model(const config& shape, const checkpoint& source, const device_options& options = {},
               Executor executor = Executor())
      : self_(std::make_unique<transformer_type>(shape, source, options, std::move(executor))) {}

  /// Reads `config.json` and the safetensors files of a Hugging Face directory.
  static device_model load(const std::filesystem::path& directory,
                           const device_options& options = {}, Executor executor = Executor()) {
    return {read_config(directory / "config.json"), checkpoint::open(directory), options,
            std::move(executor)};
  }

  const config& shape() const { return self_->shape; }
  const device_options& options() const { return self_->options; }
  /// As of `engine::model`: that of all copies of the checkpoint's head. Waits for the executor.
  std::uint64_t head_fingerprint() { return self_->head_fingerprint(); }
  /// What files for this head say of it; the vocabulary as far as its config says.
  hunch::made_for made_for() {
    return {.vocab_size = vocab_size(),
            .vocabulary = shape().vocabulary,
            .head = head_fingerprint(),
            .name = origin()};
  }
  /// Where its weights come from: the directory, or "memory".
  const std::string& origin() const { return self_->origin; }
  std::int32_t vocab_size() const { return self_->shape.vocab_size; }
  /// The hidden size: routers read what the head reads.
  std::int32_t context_width() const { return self_->shape.hidden; }
  /// Cached positions of a slot; waits for the executor.
  std::int32_t length(std::int32_t slot) {
    device::slot_state state;
    self_->executor.download(&state, self_->space.table().slots + slot, 1);
    self_->executor.synchronize();
    return state.length;
  }

  /// One pass over the rows: the logits of those that are wanted.
  /// \throws std::invalid_argument for more rows than `max_rows` or streams than there are, and
  /// what
  ///         an earlier commit left.
  evaluation evaluate(const hunch::rows& rows) {
    run(rows, self_->options.max_outputs, rows.streams);
    self_->write_logits(std::min(rows.size, self_->options.max_outputs));
    return evaluation(*self_, rows.streams);
  }

  /// The same without the head.
  hidden_states forward(const hunch::rows& rows) {
    run(rows, self_->options.max_rows, 0);
    return self_->states();
  }

  /// Stores a copy of the head's rows in the order of `layout`, for `head`. Until it is called,
  /// `head` has token order. Not while a step runs.
  /// \throws std::invalid_argument if the layout is of another vocabulary.
  void set_head_layout(const hunch::vocab_layout& layout) {
    self_->head.set_layout(self_->executor, layout);
  }
  std::uint64_t head_order() const { return self_->head.order(); }

  /// Writes the logits of the listed rows of the last `forward` over their shortlists.
  void head(const hidden_states& states, const hunch::head_rows<float>& rows) {
    self_->head.multiply(self_->executor, states.data(), rows);
  }

  /// Appends the kept rows to the caches and drops those of released slots. Ids that are not
  /// staged, and rows without room, are passed over. An error of the executor is thrown by the next
  /// pass.
  void commit(const hunch::kept_rows& kept) noexcept { self_->commit(kept); }

  /// What is behind it, for models that draft with parts of it: it stays where it is when this is
  /// moved.
  transformer_type& parts() { return *self_; }

 protected:
  explicit device_model(std::unique_ptr<transformer_type> self) : self_(std::move(self)) {}

 private:
  void run(const hunch::rows& rows, std::int32_t max_outputs, std::int32_t streams) {
    self_->check_streams(streams);
    self_->stage(rows, self_->shape.layers, max_outputs);
    self_->begin(rows);
    self_->run_all(rows.size, streams);
    self_->finish(rows.size);
  }

  std::unique_ptr<transformer_type> self_;
};

static_assert(hunch::TargetModel<device_model<hunch::executor::host>>);
static_assert(hunch::HiddenStates<device_model<hunch::executor::host>::evaluation>);
static_assert(hunch::SpeculativeStreams<device_model<hunch::executor::host>::evaluation>);
static_assert(hunch::DraftModel<device_model<hunch::executor::host>, float>);
static_assert(hunch::RoutedModel<device_model<hunch::executor::host>>);

}  // namespace engine
