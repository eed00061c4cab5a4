// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/types.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "hash_model.hpp"

/// \file
/// A hash model as the target, and models for every drafter beside it, on any executor.

namespace hunch::test {

/// A draft model that reads accepted tokens again, as an EAGLE head does.
template <class E>
struct rereading_hash_model : hash_model<E> {
  using hash_model<E>::hash_model;
  static constexpr bool rereads_accepted = true;
};

/// The target's first layers: what they have read is what the target has read.
template <class E>
class hash_view {
 public:
  static constexpr bool shares_target_cache = true;

  hash_view(E& executor, const hash_model<E>& target, std::uint64_t salt, std::int32_t max_batch,
            std::int32_t max_rows)
      : executor_(&executor),
        salt_(salt),
        target_(target.state()),
        max_batch_(max_batch),
        order_(target.head_order()),
        rows_(executor, static_cast<std::size_t>(max_rows)),
        contexts_(executor, static_cast<std::size_t>(max_rows * hash_context_size)) {}

  struct hidden_states {
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
  };

  std::int32_t vocab_size() const { return target_.vocab; }
  std::uint64_t head_order() const { return order_; }
  void head_layout(const vocab_layout& layout) { order_ = layout.order(); }

  static std::int32_t context_width() { return hash_context_size; }
  /// Stages the rows, which `forward` then finds so.
  context_rows contexts(const rows& r) {
    stage(r);
    staged_rows_ = true;
    return {contexts_.data(), hash_context_size};
  }
  hidden_states forward(const rows& r) {
    if (!staged_rows_) { stage(r); }
    staged_rows_ = false;
    return {};
  }
  void head(const hidden_states&, const head_rows<float>& heads) {
    launch_hash_head(*executor_, state(), heads);
  }
  void commit(const kept_rows&) noexcept {}

 private:
  void stage(const rows& r) {
    executor_->launch(max_batch_, hash_stage{state(), r});
    executor_->launch(r.size, hash_contexts{state(), r, contexts_.data()});
  }
  hash_state state() const {
    hash_state own = target_;
    own.salt = salt_;
    own.rows = rows_.data();
    return own;
  }

  E* executor_;
  std::uint64_t salt_;
  hash_state target_;
  std::int32_t max_batch_;
  std::uint64_t order_;
  workspace<E, std::uint64_t> rows_;
  workspace<E, float> contexts_;
  bool staged_rows_ = false;
};

/// What heads make of input `i`.
struct hash_ahead {
  hash_state of;
  head_inputs inputs;
  std::int32_t heads;
  float* contexts;  ///< [inputs, heads, hash_context_size]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const float* const known = inputs.hidden[i];
    if (known == nullptr) { return; }
    team.for_each(heads, [&](std::int64_t j) {
      const std::int64_t row = std::int64_t{i} * heads + j;
      // A head beyond the streams that were requested has nothing to read, and is not asked.
      const std::int64_t state = j < inputs.states ? j : 0;
      of.rows[row] = hash_state::extended(read_hash(known + state * hash_context_size),
                                          inputs.tokens[i], static_cast<std::int32_t>(j));
      write_hash(of.rows[row], contexts + row * hash_context_size);
    });
  }
};

/// Heads ahead of a hash model, over its hidden states or its streams.
template <class E>
class hash_heads {
 public:
  hash_heads(E& executor, std::int32_t vocab, std::uint64_t salt, std::int32_t max_batch,
             std::int32_t heads, std::int32_t favoured)
      : executor_(&executor),
        heads_(heads),
        order_(vocab_layout::identity(vocab).order()),
        rows_(executor, static_cast<std::size_t>(max_batch * heads)),
        contexts_(executor, static_cast<std::size_t>(max_batch * heads * hash_context_size)) {
    state_.vocab = vocab;
    state_.salt = salt;
    state_.favoured = favoured;
    state_.rows = rows_.data();
  }

  struct states {
    const float* all;
    context_rows contexts() const { return {all, hash_context_size}; }
  };

  std::int32_t vocab_size() const { return state_.vocab; }
  std::int32_t hidden_size() const { return hash_context_size; }
  std::int32_t heads() const { return heads_; }
  std::uint64_t head_order() const { return order_; }
  void head_layout(const vocab_layout& layout) { order_ = layout.order(); }
  static std::int32_t context_width() { return hash_context_size; }

  states forward(const head_inputs& inputs) {
    executor_->launch(inputs.size, hash_ahead{state_, inputs, heads_, contexts_.data()});
    return {contexts_.data()};
  }
  void head(const states&, const head_rows<float>& rows) {
    launch_hash_head(*executor_, state_, rows);
  }

 private:
  E* executor_;
  std::int32_t heads_;
  std::uint64_t order_;
  hash_state state_;
  workspace<E, std::uint64_t> rows_;
  workspace<E, float> contexts_;
};

/// A target and what drafters of every kind draft with.
template <class E>
struct hash_world {
  static constexpr std::int32_t favoured = 8;
  static constexpr std::int32_t ahead = 3;  ///< heads, and streams

  /// \param layout of the draft models' heads.
  hash_world(E of, const vocab_layout& layout, std::int32_t max_batch, std::int32_t max_rows)
      : executor(of),
        target(executor, layout.vocab_size(), 1, max_batch, max_rows, favoured, ahead),
        draft(executor, layout.vocab_size(), 2, max_batch, max_rows, favoured),
        eagle(executor, layout.vocab_size(), 3, max_batch, max_rows, favoured),
        view(executor, target, 4, max_batch, max_rows),
        heads(executor, layout.vocab_size(), 5, max_batch, ahead, favoured),
        streams(executor, layout.vocab_size(), 6, max_batch, ahead, favoured) {
    draft.head_layout(layout);
    eagle.head_layout(layout);
    view.head_layout(layout);
    heads.head_layout(layout);
    streams.head_layout(layout);
  }

  E executor;
  hash_model<E> target;
  hash_model<E> draft;
  rereading_hash_model<E> eagle;
  hash_view<E> view;
  hash_heads<E> heads;
  hash_heads<E> streams;
};

}  // namespace hunch::test
