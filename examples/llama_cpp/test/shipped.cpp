// SPDX-License-Identifier: Apache-2.0
#include "shipped.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "../vocabulary.hpp"

namespace llama_cpp::test {
namespace {

weights load(const char* name) {
  static const backend started;
  return weights(std::string(HUNCH_GGUF "/") + name);
}

}  // namespace

const weights& target() {
  static const weights out = load("target-f32.gguf");
  return out;
}
const weights& draft() {
  static const weights out = load("draft-f32.gguf");
  return out;
}
const weights& four_bits() {
  static const weights out = load("target-q4_0.gguf");
  return out;
}

draft_head shipped_head(const std::string& name, const weights& of) {
  return head_of(name,
                 {.ranking = HUNCH_MODELS "/frequency.safetensors",
                  .layout = HUNCH_MODELS "/layout.safetensors",
                  .router = HUNCH_MODELS "/router.safetensors"},
                 of);
}

std::vector<std::vector<hunch::token>> prompts(int tokens) {
  std::vector<std::vector<hunch::token>> out;
  for (const char* kind : {"dictionary", "docs", "java", "man", "man_de", "python", "scripture"}) {
    std::ifstream in(std::string(HUNCH_MODELS "/heldout/") + kind + ".txt", std::ios::binary);
    if (!in) { throw std::runtime_error(std::string("no held-out text of ") + kind); }
    std::string text(static_cast<std::size_t>(16 * tokens), '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    out.push_back(encode(target(), text));
    if (out.back().size() < static_cast<std::size_t>(tokens)) {
      throw std::runtime_error(std::string("too little held-out text of ") + kind);
    }
    out.back().resize(static_cast<std::size_t>(tokens));
  }
  return out;
}

plain_context::plain_context(const weights& of, int threads) : vocab_size_(of.vocab_size()) {
  llama_context_params p = llama_context_default_params();
  p.n_ctx = 1024;
  p.n_batch = p.n_ubatch = 1024;
  p.n_threads = p.n_threads_batch = threads;
  context_.reset(llama_init_from_model(of.get(), p));
  if (context_ == nullptr) { throw std::runtime_error("no context for " + of.path()); }
}

const float* plain_context::read(const std::vector<hunch::token>& tokens) {
  std::vector<hunch::token> batch = tokens;
  if (llama_decode(context_.get(), llama_batch_get_one(batch.data(), static_cast<std::int32_t>(
                                                                         batch.size()))) != 0) {
    throw std::runtime_error("llama_decode failed");
  }
  return llama_get_logits_ith(context_.get(), -1);
}

std::vector<float> plain_context::read_all(const std::vector<hunch::token>& tokens) {
  clear();
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(tokens.size()), 0, 1);
  for (const hunch::token t : tokens) {
    const auto i = batch.n_tokens++;
    batch.token[i] = t;
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  const std::int32_t failed = llama_decode(context_.get(), batch);
  llama_batch_free(batch);
  if (failed != 0) { throw std::runtime_error("llama_decode failed"); }
  const float* const logits = llama_get_logits(context_.get());
  return {logits, logits + tokens.size() * static_cast<std::size_t>(vocab_size_)};
}

void plain_context::clear() { llama_memory_clear(llama_get_memory(context_.get()), false); }

greedy_text greedy_by_llama(const weights& of, const std::vector<hunch::token>& prompt, int length,
                            int threads) {
  plain_context context(of, threads);
  greedy_text out;
  const float* logits = context.read(prompt);
  for (;;) {
    const float* const best = std::max_element(logits, logits + context.vocab_size());
    float next = -INFINITY;
    for (const float* x = logits; x < logits + context.vocab_size(); ++x) {
      if (x != best) { next = std::max(next, *x); }
    }
    out.tokens.push_back(static_cast<hunch::token>(best - logits));
    out.lead.push_back(*best - next);
    if (out.tokens.size() == static_cast<std::size_t>(length)) { return out; }
    logits = context.read({out.tokens.back()});
  }
}

bool agrees(const std::vector<hunch::token>& tokens, const greedy_text& reference) {
  constexpr float last_bits = 1e-3f;
  if (tokens.size() != reference.tokens.size()) { return false; }
  const auto part = std::mismatch(tokens.begin(), tokens.end(), reference.tokens.begin()).first;
  return part == tokens.end() ||
         reference.lead[static_cast<std::size_t>(part - tokens.begin())] < last_bits;
}

std::vector<double> law_of(const float* logits, int vocab_size) {
  const float largest = *std::max_element(logits, logits + vocab_size);
  std::vector<double> out(static_cast<std::size_t>(vocab_size));
  double sum = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::exp(static_cast<double>(logits[i]) - static_cast<double>(largest));
    sum += out[i];
  }
  for (double& p : out) { p /= sum; }
  return out;
}

}  // namespace llama_cpp::test
