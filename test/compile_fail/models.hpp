// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <hunch/hunch.hpp>

/// Models and policies that are just enough to be composed; nothing here is ever run.
namespace compile_fail {

struct evaluation {
  hunch::status status(std::int32_t) const { return hunch::status::ok; }
  hunch::row_view<float> logits(std::int32_t) const { return {}; }
};

struct target {
  std::int32_t vocab_size() const { return 4; }
  evaluation evaluate(const hunch::rows&) { return {}; }
  void commit(const hunch::kept_rows&) noexcept {}
};

struct draft_model {
  std::int32_t vocab_size() const { return 4; }
  std::uint64_t head_order() const { return 0; }
  evaluation forward(const hunch::rows&) { return {}; }
  void head(const evaluation&, const hunch::head_rows<float>&) {}
  void commit(const hunch::kept_rows&) noexcept {}
};

struct draft_heads {
  std::int32_t vocab_size() const { return 4; }
  std::int32_t hidden_size() const { return 4; }
  std::int32_t heads() const { return 2; }
  std::uint64_t head_order() const { return 0; }
  hunch::head_inputs forward(const hunch::head_inputs& inputs) { return inputs; }
  void head(const hunch::head_inputs&, const hunch::head_rows<float>&) {}
};

struct masked {
  std::int32_t vocab_size() const { return 4; }
  hunch::token mask_token() const { return 3; }
  std::int32_t max_positions() const { return 8; }
  evaluation evaluate(const hunch::diffusion::canvases&) { return {}; }
  void release(std::int32_t) noexcept {}
};

/// A drafter whose tokens are chosen, not drawn: a chain or a tree without a law.
template <hunch::child_law Children, bool IsChain>
struct drafter : hunch::drafter::none {
  static constexpr hunch::child_law children = Children;
  static constexpr bool is_chain = IsChain;
};

using sampled = hunch::sampler::pipeline<hunch::sampler::temperature>;

}  // namespace compile_fail
