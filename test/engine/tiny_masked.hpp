// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/masked_config.hpp>
#include <engine/masked_model.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>

#include "reference.hpp"
#include "tiny_model.hpp"

/// \file
/// Small masked models, canvases, and what the textbook says of them.

namespace test {

using pattern = engine::masked_config::attention;

/// A canvas, and what is asked of it.
struct canvas {
  std::vector<hunch::token> tokens;
  int known = 0;
  int block_end = 0;
  std::vector<std::int32_t> wanted;

  /// Asked for `positions` only.
  canvas asking(std::vector<std::int32_t> positions) const {
    return {tokens, known, block_end, std::move(positions)};
  }
};

/// The owner of the arrays after a `hunch::diffusion::canvases`.
class canvas_batch {
 public:
  canvas_batch& add(int slot, const canvas& c) {
    slot_.push_back(slot);
    tokens_.insert(tokens_.end(), c.tokens.begin(), c.tokens.end());
    first_.push_back(static_cast<std::int32_t>(tokens_.size()));
    known_.push_back(c.known);
    block_end_.push_back(c.block_end);
    opens_.push_back(0);
    begins_.push_back(0);
    wanted_.insert(wanted_.end(), c.wanted.begin(), c.wanted.end());
    first_wanted_.push_back(static_cast<std::int32_t>(wanted_.size()));
    return *this;
  }
  /// The last one opens its block.
  canvas_batch& opening() {
    opens_.back() = 1;
    return *this;
  }

  hunch::diffusion::canvases view() const {
    return {static_cast<std::int32_t>(slot_.size()),
            slot_.data(),
            first_.data(),
            tokens_.data(),
            known_.data(),
            block_end_.data(),
            opens_.data(),
            first_wanted_.data(),
            wanted_.data(),
            begins_.data(),
            first_.back(),
            first_wanted_.back()};
  }

 private:
  std::vector<std::int32_t> slot_, known_, block_end_, wanted_;
  std::vector<std::int32_t> first_{0}, first_wanted_{0};
  std::vector<hunch::token> tokens_;
  std::vector<std::uint8_t> opens_, begins_;
};

inline engine::masked_config masked(const engine::config& c, pattern p, bool shifted) {
  engine::masked_config out;
  out.model = c;
  out.mask_token = c.vocab_size - 1;
  out.pattern = p;
  out.block_length = 4;
  out.shifted = shifted;
  return out;
}

/// The canvas with the token in the place of a mask that is asked for, the first one if nothing
/// else is said.
inline canvas unmasked(canvas c, hunch::token token, int which = 0) {
  const auto at = c.wanted.begin() + which;
  c.tokens[static_cast<std::size_t>(*at)] = token;
  c.wanted.erase(at);
  return c;
}

/// The canvas as a text that is committed: its first block has masks.
inline canvas committed(canvas c, hunch::token mask) {
  const int size = static_cast<int>(c.tokens.size());
  const int length = c.block_end - c.known;
  while (c.block_end < size &&
         std::count(c.tokens.begin() + c.known, c.tokens.begin() + c.block_end, mask) == 0) {
    c.known = c.block_end;
    c.block_end = std::min(c.known + length, size);
  }
  return c;
}

/// A text with `known` tokens, then `blocks` blocks of four, two tokens short at the end, in which
/// two of three places are masks. All masks are asked for.
inline canvas some_canvas(const engine::masked_config& shape, int known, int blocks,
                          unsigned seed = 7) {
  canvas out;
  out.known = known;
  out.block_end = known + 4;
  out.tokens = some_tokens(known + 4 * blocks - 2, shape.model.vocab_size - 1, seed);
  for (int i = known; i < static_cast<int>(out.tokens.size()); ++i) {
    if (i % 3 == 1) { continue; }
    out.tokens[static_cast<std::size_t>(i)] = shape.mask_token;
    out.wanted.push_back(i);
  }
  return out;
}

/// Which positions of a committed canvas a position sees.
inline reference_model::visibility visibility(const engine::masked_config& shape, const canvas& c) {
  const auto block = [known = c.known, length = c.block_end - c.known](std::size_t i) {
    const int after = static_cast<int>(i) - known;
    return after < 0 ? -1 : after / length;
  };
  const bool all = shape.pattern == pattern::full;
  return [block, all](std::size_t i, std::size_t j) {
    if (all) { return true; }
    return block(i) < 0 ? j <= i : block(j) <= block(i);
  };
}

/// [wanted][vocabulary] in double precision. The weights have the names of a Llama.
inline std::vector<vec> textbook(const engine::masked_config& shape,
                                 const engine::checkpoint& weights, const canvas& asked) {
  const canvas c = committed(asked, shape.mask_token);
  const reference_model reference(shape.model, weights);
  const std::vector<vec> states = reference.hidden(c.tokens, visibility(shape, c));
  std::vector<vec> out;
  for (const std::int32_t position : c.wanted) {
    const int row = shape.shifted ? position - 1 : position;
    out.push_back(reference.head(states[static_cast<std::size_t>(row)]));
  }
  return out;
}

/// The logits of the positions wanted of all canvases, one after the other.
template <class Model>
std::vector<std::vector<float>> logits(Model& m, const canvas_batch& batch) {
  const auto asked = batch.view();
  const auto result = m.evaluate(asked);
  std::vector<std::vector<float>> out;
  for (std::int32_t i = 0; i < asked.wanted_count; ++i) { out.push_back(copy(result.logits(i))); }
  return out;
}

template <class Model>
std::vector<std::vector<float>> logits(Model& m, int slot, const canvas& c) {
  return logits(m, canvas_batch().add(slot, c));
}

/// The largest difference, relative to the spread of the expected logits.
inline double difference(const std::vector<std::vector<float>>& got,
                         const std::vector<vec>& expected) {
  double worst = got.size() == expected.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    const auto [low, high] = std::minmax_element(expected[i].begin(), expected[i].end());
    for (std::size_t v = 0; v < got[i].size(); ++v) {
      const double d = std::fabs(static_cast<double>(got[i][v]) - expected[i][v]) / (*high - *low);
      worst = std::isnan(d) ? 1e9 : std::max(worst, d);
    }
  }
  return worst;
}

}  // namespace test
