// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <engine/canvas_head_config.hpp>
#include <engine/checkpoint.hpp>
#include <engine/masked_config.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>

#include "tiny_masked.hpp"
#include "tiny_model.hpp"

/// \file
/// Small heads that draft for masked models, and texts for them.

namespace test {

/// A masked model and a head for it, of random weights.
struct canvas_head_parts {
  engine::canvas_head_config head_config;
  engine::masked_config shape;
  engine::checkpoint weights;
  engine::checkpoint head_weights;

  explicit canvas_head_parts(bool shifted = true, engine::dtype type = engine::dtype::f32)
      : canvas_head_parts{three_layers(), shifted, type} {}

  canvas_head_parts(const engine::config& c, bool shifted, engine::dtype type)
      : head_config{with_layers(c, 2), 2, {1, 2}},
        shape{masked(c, pattern::causal_prefix, shifted)},
        weights{random_checkpoint(c, type)},
        head_weights{in_memory(tensors(c, type))} {}

  static engine::config three_layers() { return with_layers(tiny_config(), 3); }
  static engine::config with_layers(engine::config c, int layers) {
    c.layers = layers;
    return c;
  }

  /// Embedding and head are those of the target.
  static std::vector<stored_tensor> tensors(const engine::config& c, engine::dtype type) {
    auto all = random_tensors(with_layers(c, 2), type, 5);
    std::erase_if(all, [](const stored_tensor& t) {
      return t.name.starts_with("model.embed_tokens") || t.name.starts_with("lm_head");
    });
    std::vector<float> fc;
    for (int i = 0; i < 2 * c.hidden * c.hidden; ++i) {
      fc.push_back(static_cast<float>((i * 7919) % 201 - 100) / 1000.0f);
    }
    for (auto& t : encode("model.fc.weight", fc, {c.hidden, 2 * c.hidden}, type)) {
      all.push_back(std::move(t));
    }
    std::vector<float> norm;
    for (int i = 0; i < c.hidden; ++i) { norm.push_back(0.5f + static_cast<float>(i % 5) / 8.0f); }
    const std::string norm_name = "model.embedding_norm.weight";
    all.push_back(encode(norm_name, norm, {c.hidden}, engine::dtype::f32).front());
    for (auto& t : random_tensors(c, type)) {
      if (t.name.starts_with("model.embed_tokens") || t.name.starts_with("lm_head")) {
        all.push_back(std::move(t));
      }
    }
    return all;
  }
};

/// The head observes canvas `kept` of a pass over `batch`.
template <class Head, class Target>
void observe(Head& head, Target& target, const canvas_batch& batch,
             std::vector<std::int32_t> kept) {
  const auto pass = batch.view();
  head.observe(
      hunch::diffusion::decided_canvases{pass, static_cast<std::int32_t>(kept.size()), kept.data()},
      target.evaluate(pass));
}

/// Two texts that were observed, and what is asked of them later; and the first one before two
/// drafts were written into it.
struct head_texts {
  canvas first_before, first_then, first_now, second_then, second_now;

  explicit head_texts(const canvas_head_parts& with)
      : first_before{some_canvas(with.shape, 9, 4)},
        first_then{unmasked(unmasked(first_before, 7), 8)},
        first_now{unmasked(unmasked(first_then, 3), 4)},
        second_then{some_canvas(with.shape, 2, 3, 8)},
        second_now{unmasked(second_then, 5)} {}
};

}  // namespace test
