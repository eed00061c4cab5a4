// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/model/rows.hpp>
#include "toy_canvas.hpp"
#include "toy_model.hpp"

namespace hunch::test {

/// A pass without its padding, which is behind all that is there and has nothing in it.
inline diffusion::canvases without_padding(const diffusion::canvases& padded) {
  diffusion::canvases found = padded;
  found.size = 0;
  while (found.size < padded.size && padded.slot[found.size] != no_slot) { ++found.size; }
  found.token_count = padded.first[found.size];
  found.wanted_count = padded.first_wanted[found.size];
  for (std::int32_t i = found.size; i < padded.size; ++i) {
    require(padded.slot[i] == no_slot, "a canvas behind padding");
    require(padded.first[i + 1] == found.token_count, "tokens of padding");
    require(padded.first_wanted[i + 1] == found.wanted_count, "wanted positions of padding");
  }
  require(found.token_count <= padded.token_count, "more tokens than the host was told");
  require(found.wanted_count <= padded.wanted_count,
          "more wanted positions than the host was told");
  return found;
}

/// A toy masked model for rounds whose host does not read their arrays: padded canvases, logits at
/// fixed places, and nobody says which requests have ended. \tparam Toy a `toy_masked`.
template <class Toy, class Real = double>
class padded_masked {
 public:
  static constexpr bool caches_blocks = Toy::caches_blocks;
  static constexpr bool reads_target = requires { requires Toy::reads_target; };

  /// \param max_wanted positions of a pass.
  padded_masked(Toy& toy, std::int32_t max_wanted)
      : toy_(&toy),
        logits_(static_cast<std::size_t>(max_wanted) * static_cast<std::size_t>(toy.vocab_size())) {
  }

  struct evaluation {
    padded_masked* of;
    row_view<Real> logits(std::int32_t i) const {
      const std::int32_t vocab = of->vocab_size();
      require(static_cast<std::size_t>((i + 1) * vocab) <= of->logits_.size(),
              "a row behind the last");
      return {of->logits_.data() + std::ptrdiff_t{i} * vocab, vocab};
    }
  };

  std::int32_t vocab_size() const { return toy_->vocab_size(); }
  token mask_token() const { return toy_->mask_token(); }
  std::int32_t max_positions() const { return toy_->max_positions(); }

  evaluation evaluate(const diffusion::canvases& padded) {
    const diffusion::canvases asked = without_padding(padded);
    std::ranges::fill(logits_, std::numeric_limits<Real>::quiet_NaN());
    for (std::int32_t i = 0; i < asked.size; ++i) {
      const bool first = i == 0 || asked.slot[i] != asked.slot[i - 1];
      if (first && !reads_target) { see(asked, i); }
    }
    if (asked.size == 0) { return {this}; }
    auto of_toy = toy_->evaluate(asked);
    for (std::int32_t i = 0; i < asked.wanted_count; ++i) {
      const row_view<Real> row = of_toy.logits(i);
      std::copy_n(row.data, row.size, evaluation{this}.logits(i).data);
    }
    return {this};
  }

  template <class TargetEvaluation>
  void observe(const diffusion::decided_canvases& padded, const TargetEvaluation&) noexcept
      requires(reads_target) {
    std::int32_t size = 0;
    while (size < padded.size && padded.kept[size] >= 0) { ++size; }
    toy_->observe(diffusion::decided_canvases{without_padding(padded.pass), size, padded.kept},
                  typename Toy::base::evaluation{});
  }

  void release(std::int32_t slot) noexcept { toy_->release(slot); }

 private:
  /// What is known of a request that a model has been told of.
  struct seen_canvas {
    std::int32_t length = -1;
    token first = no_token;
    friend bool operator==(const seen_canvas&, const seen_canvas&) = default;
  };

  /// Begins anew where another request has the slot, of which `begins` alone tells.
  void see(const diffusion::canvases& asked, std::int32_t i) {
    const seen_canvas now{asked.first[i + 1] - asked.first[i], asked.tokens[asked.first[i]]};
    seen_canvas& before = seen_[asked.slot[i]];
    if (asked.begins[i] != 0) {
      toy_->release(asked.slot[i]);
      before = now;
    }
    require(before == now, "a request that the model was not told of");
  }

  Toy* toy_;
  std::vector<Real> logits_;
  std::map<std::int32_t, seen_canvas> seen_;
};

}  // namespace hunch::test
