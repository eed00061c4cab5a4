// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/sampler/grammar.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch {

/// Names a request of a decoder; never 0, never used twice.
using request_id = std::uint64_t;

/// What one request asks for. The values of sampling stages have the ranges of
/// `sampling_parameters`; one for which the decoder's sampler has no stage is refused.
struct generation_options {
  std::int32_t max_new_tokens = 128;  ///< 1 or more
  float temperature = 1.0f;
  std::int32_t top_k = 0;
  float top_p = 1.0f;
  std::uint64_t seed = 0;  ///< of all that is drawn for the request, whatever the batch
  std::vector<token> stop_tokens = {};         ///< the text ends with the first of these, included
  std::vector<std::string> stop_strings = {};  ///< the text ends with the token that completes one
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<logit_bias> bias = {};  ///< each token once
  any_grammar grammar = {};           ///< that the emitted tokens follow; empty: none
  /// Report the log-probability of each emitted token, and of so many of the most probable ones, at
  /// most `decoder_options::max_log_probabilities`.
  std::optional<std::int32_t> log_probabilities = std::nullopt;

  /// The values for the sampler, which point to `bias`: this must outlive them.
  sampling_parameters sampling() const {
    return {.temperature = temperature,
            .top_k = top_k,
            .top_p = top_p,
            .min_p = min_p,
            .repetition_penalty = repetition_penalty,
            .presence_penalty = presence_penalty,
            .frequency_penalty = frequency_penalty,
            .bias = bias.empty() ? nullptr : bias.data(),
            .bias_count = static_cast<std::int32_t>(bias.size()),
            .constrained = static_cast<bool>(grammar)};
  }
};

/// What one request emitted in one step.
struct emission {
  request_id id = 0;
  std::span<const token> tokens;
  std::span<const origin> origins;  ///< of each token
  finish_reason finish = finish_reason::none;
  hunch::status status = hunch::status::ok;  ///< why, if `finish` is `error`
  /// After `stop_string`: bytes to cut from the end of the text to drop the stop string.
  std::size_t cut_bytes = 0;
  /// [tokens, 1 + n] where the request wants n: the emitted token, then the n most probable
  /// ones, under the law that the token was drawn from (after penalties, masks, temperature and
  /// cuts). Empty where it did not ask.
  std::span<const token_log_probability> log_probabilities;
  std::int32_t drafted = 0;  ///< levels of the draft of this step; see `decoder::draft_length`
};

/// A text that was written to its end.
struct finished_text {
  std::vector<token> tokens;  ///< also those before an error
  finish_reason finish = finish_reason::none;
  hunch::status status = hunch::status::ok;  ///< why, if `finish` is `error`
};

/// The tokens of one request as an input range that runs the decoder as far as it is read. Its
/// destructor cancels what was not read to the end. Move-only; the decoder must outlive it.
///
/// `begin` and increments run `Decoder::step` where no token is left, and throw what it does. An
/// increment that throws leaves the iterator at its token, and nothing is lost: it may be repeated.
template <class Decoder>
class generation {
 public:
  /// Adds the request; \throws what `Decoder::add` does.
  generation(Decoder& decoder, std::span<const token> prompt, const generation_options& options)
      : decoder_(&decoder) {
    pending_.reserve(static_cast<std::size_t>(Decoder::max_nodes) + 1);
    id_ = decoder.add(prompt, options);
  }
  generation(generation&& other) noexcept
      : decoder_(std::exchange(other.decoder_, nullptr)),
        id_(other.id_),
        pending_(std::move(other.pending_)),
        next_(std::exchange(other.next_, 0)),
        finish_(other.finish_),
        status_(other.status_) {}
  generation& operator=(generation&&) = delete;
  ~generation() {
    if (decoder_ != nullptr && finish_ == finish_reason::none) { decoder_->cancel(id_); }
  }

  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = token;
    using difference_type = std::ptrdiff_t;

    explicit iterator(generation* of) : of_(of) {}
    token operator*() const { return of_->pending_[of_->next_]; }
    iterator& operator++() {
      of_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) { return i.of_->done(); }

   private:
    generation* of_;
  };

  /// Runs steps until there is a token, or the request has ended.
  iterator begin() {
    if (done()) { read_on(); }
    return iterator(this);
  }
  static std::default_sentinel_t end() { return {}; }

  /// Whether every token has been read.
  bool done() const { return next_ == pending_.size(); }
  /// Why the request ended; `none` while it has not.
  finish_reason finish() const { return finish_; }
  hunch::status status() const { return status_; }

 private:
  /// Goes to the next token, once it is there: a step may throw.
  void advance() {
    if (next_ + 1 == pending_.size()) { read_on(); }
    ++next_;
  }

  /// Runs steps until there is one more token, or the request has ended. Of what was read before,
  /// only the last token stays; what a step emits then fits, so that nothing it emitted is lost.
  void read_on() {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
    const std::size_t before = pending_.size();
    while (pending_.size() == before && finish_ == finish_reason::none) {
      if (!decoder_->is_running(id_)) {
        finish_ = finish_reason::cancelled;
        return;
      }
      for (const emission& e : decoder_->step()) {
        if (e.id != id_) { continue; }
        pending_.insert(pending_.end(), e.tokens.begin(), e.tokens.end());
        finish_ = e.finish;
        status_ = e.status;
      }
    }
  }

  Decoder* decoder_;
  request_id id_ = 0;
  std::vector<token> pending_;  ///< read up to `next_`
  std::size_t next_ = 0;
  finish_reason finish_ = finish_reason::none;
  hunch::status status_ = hunch::status::ok;
};

}  // namespace hunch
