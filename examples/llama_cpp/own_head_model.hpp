// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "byte_head.hpp"
#include "gguf_head.hpp"
#include "llama_model.hpp"

namespace llama_cpp {

/// A model of llama.cpp as a draft model whose head is ours, so that a shortlist saves the work of
/// the head. llama.cpp's graph is stopped after "result_norm", the state that its head would read.
/// What some models do to logits after the head (a factor, a soft cap) is left out: the draft law
/// is then another one, and drafts are as exact.
template <std::int32_t Branches = 1>
class own_head_model {
 public:
  /// \param layout the selector's. \throws also what `gguf_head` and `byte_head` do.
  own_head_model(weights from, const hunch::vocab_layout& layout, const model_options& options)
      : own_head_model(gguf_head(from.path()), from, layout, options) {}
  /// llama.cpp keeps its address.
  own_head_model(const own_head_model&) = delete;
  own_head_model& operator=(const own_head_model&) = delete;

  struct hidden_states {
    const own_head_model* of;
    hunch::status status(std::int32_t i) const { return of->passes_.status(i); }
    /// What a router reads, see `hunch::RoutedModel`: the state itself.
    const float* context(std::int32_t i) const { return of->state(i); }
  };

  std::int32_t vocab_size() const { return passes_.of().vocab_size(); }
  std::int32_t context_width() const { return passes_.of().width(); }
  std::uint64_t head_order() const { return head_.order(); }

  /// \throws std::runtime_error also for a model whose graph has no "result_norm" of wanted rows.
  hidden_states forward(const hunch::rows& asked) {
    found_ = false;
    passes_.evaluate(asked);
    // Where llama.cpp found no room, each row that it was given says so.
    if (!found_ && passes_.outputs() > 0 &&
        passes_.status(passes_.row_of(0)) == hunch::status::ok) {
      throw std::runtime_error(passes_.of().path() +
                               ": llama.cpp computes no 'result_norm' for it: --head full");
    }
    return {this};
  }
  void head(const hidden_states&, const hunch::head_rows<float>& asked) {
    const auto begin = std::chrono::steady_clock::now();
    head_.multiply(states_.data(), asked);
    head_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void commit(const hunch::kept_rows& kept) noexcept { passes_.commit(kept); }

  passes<Branches>& rows() { return passes_; }
  double head_seconds() const { return head_seconds_; }  ///< in `head`, of all passes

 private:
  own_head_model(gguf_head file, const weights& from, const hunch::vocab_layout& layout,
                 const model_options& options)
      : head_(file, layout),
        states_(static_cast<std::size_t>(options.max_rows) *
                static_cast<std::size_t>(head_.width())),
        passes_(from, options, &own_head_model::take_states, this) {
    if (file.width() != from.width()) {
      throw std::invalid_argument(from.path() + ": its head does not read its last states");
    }
  }

  const float* state(std::int32_t row) const {
    return states_.data() + std::ptrdiff_t{row} * head_.width();
  }

  /// Called by llama.cpp before and after the nodes that it is asked for; false ends the graph.
  static bool take_states(ggml_tensor* node, bool ask, void* self) {
    const bool is_last = std::string_view(node->name) == "result_norm";
    if (ask) { return is_last; }
    if (is_last) { static_cast<own_head_model*>(self)->take_states(node); }
    return !is_last;
  }
  /// Most graphs have dropped the rows without an output by then, and some never do.
  void take_states(ggml_tensor* node) {
    const bool has_all = node->ne[1] == passes_.count();
    if (!has_all && node->ne[1] != passes_.outputs()) { return; }
    std::int32_t output = 0;
    for (std::int32_t i = 0; i < passes_.count(); ++i) {
      if (!passes_.has_output(i)) { continue; }
      float* const to = states_.data() + std::ptrdiff_t{passes_.row_of(i)} * head_.width();
      const auto from = static_cast<std::size_t>(has_all ? i : output++);
      ggml_backend_tensor_get(node, to, from * node->nb[1],
                              static_cast<std::size_t>(node->ne[0]) * sizeof(float));
    }
    found_ = true;
  }

  byte_head head_;
  std::vector<float> states_;  ///< [rows of the pass, width of the head]
  bool found_ = false;
  double head_seconds_ = 0.0;
  passes<Branches> passes_;  // last: its context is made with the address of this
};

static_assert(hunch::DraftModel<own_head_model<>> && hunch::RoutedModel<own_head_model<>>);

}  // namespace llama_cpp
