// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/token_census.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/interop/engine_arrays.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Which tokens occur in the texts of an engine's requests, kept where bodies run: what penalties
/// read. See docs/interop.md.

namespace hunch::interop {

/// The texts' tokens by state, in arrays of the engine, which nothing but `begin_texts` and
/// `count_tokens` writes. Their contents need not be set before.
struct text_census {
  std::int32_t states = 0;
  std::int32_t vocab = 0;
  std::int32_t capacity = 0;  ///< different tokens that a text may have: as many as the longest
                              ///< text has tokens, or `vocab`
  token* tokens = nullptr;    ///< [states, capacity] the different tokens of a text
  std::int32_t* emitted = nullptr;  ///< [states, capacity] how often each occurs after the prompt
  std::int32_t* index = nullptr;    ///< [states, vocab] where a token stands there, or -1
  std::int32_t* size = nullptr;     ///< [states] how many there are

  /// The census of a text with `known` different tokens.
  HUNCH_HOST_DEVICE token_census of(std::int32_t state, std::int32_t known) const {
    const std::int64_t first = static_cast<std::int64_t>(state) * capacity;
    return {.size = known,
            .tokens = tokens + first,
            .emitted = emitted + first,
            .index = index + static_cast<std::int64_t>(state) * vocab};
  }
  HUNCH_HOST_DEVICE bool has(std::int32_t state) const { return state >= 0 && state < states; }
  /// Whether there is a census of that state's text, over that many tokens.
  HUNCH_HOST_DEVICE bool counts_for(std::int32_t state, std::int32_t tokens_of_row) const {
    return index != nullptr && has(state) && vocab == tokens_of_row;
  }
};

/// Texts, or pieces of them, of `count` states: one row of ids for each.
struct counted_texts {
  text_census census;
  std::int32_t count = 0;
  const std::int32_t* state = nullptr;    ///< [count] no state twice
  id_array ids;                           ///< [count, stride]
  std::int32_t stride = 0;                ///< elements of a row
  const std::int32_t* lengths = nullptr;  ///< [count] how many of them count
  hunch::status* status = nullptr;        ///< [count] out, may be null
};

/// Counts row `row` of the texts. One team per row.
/// \tparam Begins whether they are prompts of new texts, or go on what is there.
template <bool Begins>
struct count_text {
  counted_texts texts;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const std::int32_t state = texts.state[row];
    const std::int32_t length = texts.lengths[row];
    if (!texts.census.has(state) || length < 0 || length > texts.stride) {
      return report(team, texts.status, row, status::invalid_parameter);
    }
    const id_array ids = texts.ids.from(static_cast<std::int64_t>(row) * texts.stride);
    if (!ids_below(team, ids, length, texts.census.vocab)) {
      return report(team, texts.status, row, status::invalid_token);
    }
    if constexpr (Begins) { texts.census.of(state, 0).begin(team, texts.census.vocab, nullptr, 0); }
    if (team.rank() != 0) { return; }
    token_census census = texts.census.of(state, Begins ? 0 : texts.census.size[state]);
    status result = status::ok;
    for (std::int32_t i = 0; i < length; ++i) {
      if (census.index[ids[i]] < 0 && census.size == texts.census.capacity) {
        result = status::cache_full;
        break;
      }
      if constexpr (Begins) {
        census.read(ids[i]);
      } else {
        census.emit(ids[i]);
      }
    }
    texts.census.size[state] = census.size;
    if (texts.status != nullptr) { texts.status[row] = result; }
  }
};

/// Begins new texts: what their states held is forgotten, and their prompts are counted. For the
/// requests that an engine admits.
///
/// A row with an error changes nothing and has its `status`: `invalid_parameter` where its state or
/// length leads out of the arrays, `invalid_token` for an id outside [0, vocab). A text with more
/// different tokens than fit is `cache_full`; those that fit are counted. Launches one body per row
/// and returns without waiting; allocates nothing.
template <Executor E>
void begin_texts(E& executor, const counted_texts& prompts) {
  executor.launch(prompts.count, count_text<true>{prompts});
}

/// Counts tokens that were emitted: those of a step, with its `sampled` and `num_sampled` as `ids`
/// and `lengths`. Every token of a text after its prompt must be counted, once. Errors and launch
/// as of `begin_texts`.
template <Executor E>
void count_tokens(E& executor, const counted_texts& emitted) {
  executor.launch(emitted.count, count_text<false>{emitted});
}

}  // namespace hunch::interop
