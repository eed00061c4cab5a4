// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/decoder_options.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/selector/any.hpp>

#include "handles.hpp"
#include "llama_model.hpp"

namespace llama_cpp {

/// The shapes of drafts that are compiled.
enum class shape {
  none,    ///< plain decoding
  chain,   ///< up to 16 tokens
  ranked,  ///< a tree of the most probable tokens: for temperature 0
  sampled  ///< a tree of drawn tokens
};

struct settings {
  shape drafts = shape::chain;
  std::int32_t draft_length = 4;
  /// Of what the head of the draft model is asked; nothing: llama.cpp computes all of it.
  std::optional<hunch::selector::any<>> selector = {};
  std::int32_t batch = 1;
  std::int32_t threads = 1;
  std::int32_t chunk = 256;
  std::int32_t cells = 1024;  ///< tokens that each sequence has room for, see `model_options`
};

/// Decoders of any composition as one type: what is composed is compiled once.
class decoding {
 public:
  virtual ~decoding() = default;

  virtual hunch::request_id add(const std::vector<hunch::token>& prompt,
                                const hunch::generation_options& options) = 0;
  virtual std::span<const hunch::emission> step() = 0;
  virtual bool cancel(hunch::request_id id) = 0;
  virtual std::int32_t running() const = 0;

  virtual hunch::statistics<64> stats() const = 0;
  virtual void reset_stats() = 0;
  /// In `llama_decode`, of both models since they were made.
  virtual double decode_seconds() const = 0;
  virtual double head_seconds() const = 0;  ///< and in a draft head of our own
  /// The largest position of a slot's sequence ids in the caches, -1 if they have no cell.
  virtual std::int32_t last_position(std::int32_t slot) = 0;
};

/// \param draft not read for `shape::none`. \throws what the models and the decoder do.
std::unique_ptr<decoding> compose(const weights& target, const weights& draft, const settings& s);

/// What became of requests.
struct text {
  std::vector<hunch::token> tokens;
  hunch::finish_reason finish = hunch::finish_reason::none;
  hunch::status status = hunch::status::ok;
};
struct run {
  std::vector<text> texts;  ///< [prompts]
  hunch::statistics<64> stats;
  double seconds = 0.0;         ///< of the steps after the first that emitted a token
  double decode_seconds = 0.0;  ///< of these, in `llama_decode`
  double head_seconds = 0.0;    ///< and in a draft head of our own
  std::int64_t tokens = 0;      ///< emitted in them
  std::int64_t steps = 0;       ///< calls of `step`
};

/// Writes a text for each prompt, `batch` at a time; text i with the seed `options.seed` + i.
run write(decoding& by, const std::vector<std::vector<hunch::token>>& prompts,
          const hunch::generation_options& options, std::int32_t batch = 1);

}  // namespace llama_cpp
