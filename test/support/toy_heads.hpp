// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "hash.hpp"
#include "toy_model.hpp"
#include "toy_router.hpp"

namespace hunch::test {

/// The hidden state of a toy target: the hash of the text that a row has read.
inline constexpr std::int32_t toy_hidden_size = 2;

/// A toy target that shows its hidden states.
template <class Real = double>
class toy_hidden_target : public toy_target<Real> {
 public:
  using toy_target<Real>::toy_target;

  class evaluation : public toy_target<Real>::evaluation {
   public:
    explicit evaluation(toy_hidden_target& of) : toy_target<Real>::evaluation(of), of_(&of) {}
    row_view<const float> hidden(std::int32_t i) const {
      this->logits(i);  // throws if there are none
      return {of_->hidden_.data() + static_cast<std::ptrdiff_t>(i) * toy_hidden_size,
              of_->hidden_width};
    }

   private:
    toy_hidden_target* of_;
  };

  evaluation evaluate(const rows& r) {
    toy_target<Real>::evaluate(r);
    hidden_.clear();
    for (const std::uint64_t text : this->texts()) {
      hidden_.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(text >> 32) >> 2));
      hidden_.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(text) >> 2));
    }
    return evaluation(*this);
  }

  std::int32_t hidden_width = toy_hidden_size;

 private:
  std::vector<float> hidden_;
};

/// Heads over a toy world: the law of head j after a text depends on that text, the root and j.
template <class Real = double>
class toy_heads {
 public:
  toy_heads(toy_world world, std::int32_t heads, const vocab_layout& layout)
      : world_(world), heads_(heads), order_(layout.order()) {}

  struct states {
    std::vector<std::uint64_t> texts;  ///< [inputs, heads]
    std::vector<float> contexts;
    const float* context(std::int32_t i) const {
      return contexts.data() + static_cast<std::ptrdiff_t>(i) * toy_context_size;
    }
  };

  std::int32_t vocab_size() const { return world_.vocab; }
  std::int32_t hidden_size() const { return toy_hidden_size; }
  std::int32_t heads() const { return heads_; }
  std::uint64_t head_order() const { return order_; }
  static std::int32_t context_width() { return toy_context_size; }

  states forward(const head_inputs& inputs) {
    if (failures != nullptr) { failures->call(); }
    require(inputs.size > 0, "an empty pass");
    states out;
    for (std::int32_t i = 0; i < inputs.size; ++i) {
      std::uint64_t text = 0;
      for (std::int32_t at = 0; at < toy_hidden_size; ++at) {
        text = text << 32 | std::bit_cast<std::uint32_t>(inputs.hidden[i][at]);
      }
      seen.push_back({text, inputs.tokens[i]});
      for (std::int32_t j = 0; j < heads_; ++j) {
        out.texts.push_back(extend(extend(text, inputs.tokens[i]), 100 + j));
        out.contexts.resize(out.contexts.size() + static_cast<std::size_t>(toy_context_size));
        toy_context(out.texts.back(), out.contexts.data() + out.contexts.size() - toy_context_size);
      }
    }
    return out;
  }

  void head(const states& s, const head_rows<Real>& h) {
    if (failures != nullptr) { failures->call(); }
    std::vector<Real> row(static_cast<std::size_t>(world_.vocab));
    for (std::int32_t i = 0; i < h.size; ++i) {
      require(h.logits[i].size == h.lists[i].size, "a row of logits of the wrong size");
      world_.logits(s.texts.at(static_cast<std::size_t>(h.row[i])), row.data());
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = row[static_cast<std::size_t>(h.lists[i].token_at(at))];
      }
    }
  }

  /// A text before a root as the heads saw it, and the root.
  struct input {
    std::uint64_t text;
    token root;
  };
  std::vector<input> seen;
  failure_plan* failures = nullptr;

 private:
  toy_world world_;
  std::int32_t heads_;
  std::uint64_t order_;
};

static_assert(DraftHeads<toy_heads<>, double>);
static_assert(HiddenStates<toy_hidden_target<>::evaluation>);

/// What `toy_heads` must have seen of a text whose hash is `text`.
inline std::uint64_t as_hidden(std::uint64_t text) {
  return (text >> 34 << 32) | (text & 0xffffffffu) >> 2;
}

}  // namespace hunch::test
