// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llama.h>

#include <memory>
#include <string>
#include <vector>

#include <hunch/core/types.hpp>

#include "../handles.hpp"
#include "../heads.hpp"

namespace llama_cpp::test {

/// The shipped pair in float32, and the target in four bits, which drafts for itself.
const weights& target();
const weights& draft();
const weights& four_bits();

/// A head of the shipped tables.
draft_head shipped_head(const std::string& name, const weights& of);

/// Beginnings of held-out documents, one of each kind of text. \param tokens of each.
std::vector<std::vector<hunch::token>> prompts(int tokens);

/// One llama_context, used as llama.cpp's own examples do: no adapter, no sequence ids.
class plain_context {
 public:
  explicit plain_context(const weights& of, int threads = 1);

  /// The logits after all of `tokens`, which follow what was read before. Valid until the next
  /// call.
  const float* read(const std::vector<hunch::token>& tokens);
  /// Logits after each of `tokens`, row by row, of an empty cache.
  std::vector<float> read_all(const std::vector<hunch::token>& tokens);
  void clear();
  int vocab_size() const { return vocab_size_; }

 private:
  std::unique_ptr<llama_context, detail::free_context> context_;
  int vocab_size_;
};

/// llama.cpp's greedy text, and by how much its best logit was above the next at each token.
struct greedy_text {
  std::vector<hunch::token> tokens;
  std::vector<float> lead;
};
greedy_text greedy_by_llama(const weights& of, const std::vector<hunch::token>& prompt, int length,
                            int threads);

/// Whether a text is that one. llama.cpp multiplies one row by other instructions than several, so
/// that logits may differ in their last bits: the texts may part where llama.cpp's own choice was
/// nearer than that to the next, and nowhere else.
bool agrees(const std::vector<hunch::token>& tokens, const greedy_text& reference);

/// The law of a row at temperature 1, in double.
std::vector<double> law_of(const float* logits, int vocab_size);

}  // namespace llama_cpp::test
