// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch::resident {

/// Stop tokens that a sequence may have.
inline constexpr std::int32_t max_stop_tokens = 8;

/// A sequence while it runs, in the memory of the bodies. Its root, the last committed token, is
/// not in the target's cache; everything before it is.
struct sequence {
  request_id id = 0;  ///< 0: none
  std::int32_t length = 0;
  std::int32_t cached = 0;     ///< tokens in the target's cache
  std::int32_t remaining = 0;  ///< tokens that may still be emitted
  std::int32_t occurring = 0;  ///< different tokens in the text, if they are counted
  std::uint64_t seed = 0;
  sampling_parameters parameters;  ///< `bias` in the memory of the bodies
  std::int32_t stop_count = 0;
  token stop[max_stop_tokens] = {};

  HUNCH_HOST_DEVICE bool runs() const { return id != 0; }

  /// Why the text ends with token t, the `emitted`-th of a step, if it does.
  HUNCH_HOST_DEVICE finish_reason ends_with(token t, std::int32_t emitted) const {
    for (std::int32_t i = 0; i < stop_count; ++i) {
      if (stop[i] == t) { return finish_reason::stop_token; }
    }
    return emitted == remaining ? finish_reason::length : finish_reason::none;
  }
};

/// Sizes of the storage of sequences.
struct capacity {
  std::int32_t max_batch = 1;
  std::int32_t max_length = 0;  ///< tokens of a sequence, prompt and emitted
  std::int32_t max_bias = 0;    ///< biased tokens of a sequence
  std::int32_t vocab_size = 0;
  bool counts = false;  ///< whether the sampler asks which tokens occur
};

/// All sequences, as bodies see them: a trivially copyable view of a `sequence_storage`.
struct sequences {
  resident::capacity capacity;
  sequence* of = nullptr;           ///< [max_batch]
  token* texts = nullptr;           ///< [max_batch, max_length]
  logit_bias* biases = nullptr;     ///< [max_batch, max_bias]
  token* occurring = nullptr;       ///< [max_batch, max_length] tokens that occur, each once
  std::int32_t* emitted = nullptr;  ///< [max_batch, max_length] how often after the prompt
  std::int32_t* index = nullptr;    ///< [max_batch, vocab_size] where it stands there, or -1

  HUNCH_HOST_DEVICE token* text(std::int32_t slot) const {
    return texts + static_cast<std::int64_t>(slot) * capacity.max_length;
  }
  HUNCH_HOST_DEVICE logit_bias* bias(std::int32_t slot) const {
    return biases + static_cast<std::int64_t>(slot) * capacity.max_bias;
  }

  /// The tokens that occur in a text; empty unless they are counted.
  HUNCH_HOST_DEVICE token_counts counts(std::int32_t slot) const {
    if (!capacity.counts) { return {}; }
    const std::int64_t first = static_cast<std::int64_t>(slot) * capacity.max_length;
    return {.size = of[slot].occurring,
            .tokens = occurring + first,
            .emitted = emitted + first,
            .index = index + static_cast<std::int64_t>(slot) * capacity.vocab_size};
  }

  /// Appends an emitted token to a text. By one rank.
  HUNCH_HOST_DEVICE void append(std::int32_t slot, token t) const {
    sequence& s = of[slot];
    text(slot)[s.length++] = t;
    --s.remaining;
    if (!capacity.counts) { return; }
    const std::int64_t first = static_cast<std::int64_t>(slot) * capacity.max_length;
    std::int32_t& at = index[static_cast<std::int64_t>(slot) * capacity.vocab_size + t];
    if (at < 0) {
      at = s.occurring++;
      occurring[first + at] = t;
      emitted[first + at] = 0;
    }
    ++emitted[first + at];
  }
};

/// The arrays after `sequences`.
template <class Executor>
class sequence_storage {
 public:
  sequence_storage(Executor& executor, const resident::capacity& capacity)
      : capacity_(capacity),
        of_(executor, batch()),
        texts_(executor, batch() * length()),
        biases_(executor, batch() * static_cast<std::size_t>(capacity.max_bias)),
        occurring_(executor, capacity.counts ? batch() * length() : 0),
        emitted_(executor, capacity.counts ? batch() * length() : 0),
        index_(executor,
               capacity.counts ? batch() * static_cast<std::size_t>(capacity.vocab_size) : 0) {}

  sequences view() const {
    return {.capacity = capacity_,
            .of = of_.data(),
            .texts = texts_.data(),
            .biases = biases_.data(),
            .occurring = occurring_.data(),
            .emitted = emitted_.data(),
            .index = index_.data()};
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::size_t batch() const { return static_cast<std::size_t>(capacity_.max_batch); }
  std::size_t length() const { return static_cast<std::size_t>(capacity_.max_length); }

  resident::capacity capacity_;
  buffer<sequence> of_;
  buffer<token> texts_;
  buffer<logit_bias> biases_;
  buffer<token> occurring_;
  buffer<std::int32_t> emitted_;
  buffer<std::int32_t> index_;
};

}  // namespace hunch::resident
