// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the examples of the documentation take for granted: an engine of your own, here one that is
// as small as possible. Its tokens are the printable characters, and its models look at one token.

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hunch/hunch.hpp>

namespace my {

/// Token t is the character 32 + t; the last token ends a text.
class Tokenizer {
 public:
  static constexpr std::int32_t vocab_size = 96;
  static constexpr hunch::token end_of_text = 95;

  Tokenizer() {
    for (char c = ' '; c <= '~'; ++c) { bytes_.push_back(std::string(1, c)); }
    bytes_.push_back("");
  }

  std::vector<hunch::token> encode(std::string_view text) const {
    std::vector<hunch::token> out;
    for (const char c : text) { out.push_back(c - ' '); }
    return out;
  }
  std::string_view bytes(hunch::token t) const { return bytes_[static_cast<std::size_t>(t)]; }

 private:
  std::vector<std::string> bytes_;
};

/// A target model and a draft model: the next character depends on the last one.
class Llama {
 public:
  /// Two models that agree more or less.
  static Llama load(std::string_view name) { return Llama(name == "draft" ? 1.0f : 0.0f); }

  explicit Llama(float noise) : noise_(noise) {
    logits_.reserve(std::size_t{512} * Tokenizer::vocab_size);  // rows of a pass, always in place
  }

  class pass {
   public:
    explicit pass(Llama& of) : of_(&of) {}
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    hunch::row_view<float> logits(std::int32_t i) const {
      return {of_->logits_.data() + static_cast<std::int64_t>(i) * Tokenizer::vocab_size,
              Tokenizer::vocab_size};
    }

   private:
    Llama* of_;
  };

  std::int32_t vocab_size() const { return Tokenizer::vocab_size; }
  std::uint64_t head_order() const { return order_; }

  /// Stores the head's rows in the order of `layout`.
  void set_head_layout(const hunch::vocab_layout& layout) { order_ = layout.order(); }

  pass evaluate(const hunch::rows& rows) {
    logits_.resize(static_cast<std::size_t>(rows.size) * Tokenizer::vocab_size);
    for (std::int32_t i = 0; i < rows.size; ++i) {
      if (rows.slot[i] == hunch::no_slot) { continue; }  // padding
      for (std::int32_t v = 0; v < Tokenizer::vocab_size; ++v) {
        pass(*this).logits(i)[v] = logit(rows.tokens[i], v);
      }
    }
    return pass(*this);
  }

  pass forward(const hunch::rows& rows) { return evaluate(rows); }

  void head(const pass& hidden, const hunch::head_rows<float>& rows) {
    for (std::int32_t i = 0; i < rows.size; ++i) {
      if (rows.row[i] < 0) { continue; }  // padding
      for (std::int32_t at = 0; at < rows.lists[i].size; ++at) {
        rows.logits[i][at] = hidden.logits(rows.row[i])[rows.lists[i].token_at(at)];
      }
    }
  }

  void commit(const hunch::kept_rows&) noexcept {}

 private:
  float logit(hunch::token last, hunch::token next) const {
    const auto h = static_cast<std::uint32_t>(last * 96 + next) * 2654435761u;
    const float common = static_cast<float>(h >> 24) / 64.0f;
    return common + noise_ * static_cast<float>((h >> 16) & 0xffu) / 256.0f;
  }

  float noise_;
  std::uint64_t order_ = hunch::vocab_layout::identity(Tokenizer::vocab_size).order();
  std::vector<float> logits_;
};

static_assert(hunch::TargetModel<Llama>);
static_assert(hunch::DraftModel<Llama>);

}  // namespace my
