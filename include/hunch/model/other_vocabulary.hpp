// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/shared_vocabulary.hpp>

namespace hunch {

namespace kernel {

/// out[index] = what stands for the token of row `index`; that of padding is no token.
struct translate_tokens {
  const token* tokens;
  const token* reads;  ///< [vocab_size]
  std::int32_t vocab_size;
  token* out;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    team.for_each(1, [=, *this](std::int64_t) {
      const token t = tokens[index];
      out[index] = t >= 0 && t < vocab_size ? reads[t] : 0;
    });
  }
};

}  // namespace kernel

/// A draft model of another vocabulary as one of the target's: it drafts the tokens that both have,
/// and reads others in the place of those that it has not (see `share_vocabularies`). Its head is
/// stored in the order of `shared.draft`, and is over the rows of `shared.target`: selectors take
/// that layout, or `shared.ordered(...)` from the start. (Token-level intersection: Timor et al.
/// 2025, arXiv:2502.05202)
///
/// Lossless with every rule, for a draft's law is zero where the models share nothing, and the
/// residual is that of the target's whole law. Tokens are translated by one launch a pass; nothing
/// waits. A model that shares the target's vocabulary goes through it as it is.
///
/// A view: the model outlives it. \tparam E where the rows of a pass lie, and the decoder runs
template <class Draft, Executor E = executor::host>
class other_vocabulary {
  static_assert(!shares_target_cache<Draft>, "a view of the target has the target's vocabulary");

 public:
  static constexpr bool lends_for_a_pass = hunch::lends_for_a_pass<Draft>;
  static constexpr bool rereads_accepted = hunch::rereads_accepted<Draft>;
  static constexpr bool has_one_state = hunch::has_one_state<Draft>;

  /// Of one vocabulary: nothing is translated.
  explicit other_vocabulary(Draft& model) : model_(&model), vocab_size_(model.vocab_size()) {}

  /// \param max_rows of a pass, where the executor repeats steps; else they may become more.
  /// \throws std::invalid_argument if the model reads another vocabulary than `shared` has, or its
  ///         head is stored in another order than `shared.draft`.
  other_vocabulary(Draft& model, const shared_vocabulary& shared, E executor = E(),
                   std::int32_t max_rows = 64)
      : model_(&model),
        vocab_size_(shared.target.vocab_size()),
        order_(shared.target.order()),
        executor_(std::move(executor)) {
    if (model.vocab_size() != shared.draft.vocab_size()) {
      throw std::invalid_argument(
          message({"hunch::other_vocabulary: the draft model reads ", model.vocab_size(),
                   " tokens, and the vocabulary that "
                   "it shares has ",
                   shared.draft.vocab_size()}));
    }
    if (model.head_order() != shared.draft.order()) {
      throw std::invalid_argument(
          "hunch::other_vocabulary: the draft model's head is not stored in the order of "
          "shared_vocabulary::draft");
    }
    reads_.emplace(*executor_, shared.reads.size());
    write_buffer(*executor_, reads_->data(), shared.reads.data(), shared.reads.size());
    tokens_.emplace(*executor_, static_cast<std::size_t>(max_rows));
  }

  std::int32_t vocab_size() const { return vocab_size_; }
  std::uint64_t head_order() const { return order_ == 0 ? model_->head_order() : order_; }

  auto forward(const rows& asked) { return model_->forward(translated(asked)); }
  template <class States, class Real>
  void head(States&& states, const head_rows<Real>& asked) {
    model_->head(states, asked);
  }
  void commit(const kept_rows& kept) noexcept { model_->commit(kept); }

  std::int32_t context_width() const requires RoutedModel<Draft> { return model_->context_width(); }
  context_rows contexts(const rows& asked) requires detail::has_early_contexts<Draft> {
    return model_->contexts(translated(asked));
  }

 private:
  rows translated(rows asked) {
    if (!reads_) { return asked; }
    if (static_cast<std::size_t>(asked.size) > tokens_->size()) {
      tokens_.emplace(*executor_, static_cast<std::size_t>(asked.size));
    }
    executor_->launch(asked.size, kernel::translate_tokens{asked.tokens, reads_->data(),
                                                           vocab_size_, tokens_->data()});
    asked.tokens = tokens_->data();
    return asked;
  }

  Draft* model_;
  std::int32_t vocab_size_;
  std::uint64_t order_ = 0;  ///< 0: nothing is translated
  std::optional<E> executor_;
  std::optional<workspace<E, token>> reads_;
  std::optional<workspace<E, token>> tokens_;
};

}  // namespace hunch
