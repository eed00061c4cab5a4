// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/distribution/detail/noisy_argmax.hpp>
#include <hunch/distribution/random.hpp>
#include "../support/hash.hpp"
#include "../support/toy_canvas.hpp"

/// \file
/// Decoding of a canvas one token a pass, written from the definition and without the library's
/// laws, orders and loops.

namespace hunch::test {

enum class rank_by { confidence, entropy, position };

/// A canvas to be filled.
struct canvas_task {
  std::vector<token> canvas;
  std::int32_t answer = 1;  ///< its first position after the prompt
  std::int32_t block_length = 1;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  std::vector<token> stop_tokens = {};
  rank_by order = rank_by::confidence;
  bool cached = false;  ///< the model has a cache of the block
};

struct textbook_result {
  std::vector<diffusion::unmasking> unmaskings;
  std::vector<token> canvas;
  status failed = status::ok;
  std::int32_t failed_position = -1;
};

namespace textbook {

/// exp(x - largest) of each logit at a temperature, the mask token left out; empty after an error.
inline std::vector<double> weights(std::vector<double> row, token mask, double temperature,
                                   status& error) {
  for (const double x : row) {
    if (std::isnan(x) || (std::isinf(x) && x > 0.0)) {
      error = status::invalid_logits;
      return {};
    }
  }
  const auto largest_of = [](const std::vector<double>& r) {
    return *std::max_element(r.begin(), r.end());
  };
  constexpr double never = -std::numeric_limits<double>::infinity();
  const bool had_any = largest_of(row) > never;
  row[static_cast<std::size_t>(mask)] = never;
  const double top = largest_of(row);
  if (!(top > never)) {
    error = had_any ? status::empty_support : status::invalid_logits;
    return {};
  }
  for (double& x : row) { x = std::exp((x - top) / temperature); }
  return row;
}

/// The token of a position: the first most probable one, or the noisy argmax.
inline token pick(const std::vector<double>& w, const canvas_task& task, std::int32_t position) {
  if (task.temperature == 0.0) {
    return static_cast<token>(std::max_element(w.begin(), w.end()) - w.begin());
  }
  struct words {
    address where;
    std::uint64_t operator()(std::int32_t which, std::uint32_t kind) const {
      address a = where;
      a.node = static_cast<std::uint32_t>(which);
      a.sibling = kind;
      return philox{}(a);
    }
  };
  const kernel::token_noise<words> noise{
      {{task.seed, static_cast<std::uint32_t>(position), 0, 0, purpose::noise}}};
  token best = no_token;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < w.size(); ++i) {
    const auto t = static_cast<token>(i);
    const double time = noise.arrival(t, noise.start(t / kernel::noise_tile)) / w[i];
    if (w[i] > 0.0 && time < least) {
      least = time;
      best = t;
    }
  }
  return best;
}

inline double score(const std::vector<double>& w, token t, rank_by order) {
  double sum = 0.0;
  for (const double x : w) { sum += x; }
  if (order == rank_by::confidence) { return w[static_cast<std::size_t>(t)] / sum; }
  double score = 0.0;
  for (const double x : w) {
    score += order == rank_by::entropy && x > 0.0 ? x / sum * std::log(x / sum) : 0.0;
  }
  return score;
}

}  // namespace textbook

/// What is unmasked, one token a pass.
inline textbook_result fill_stepwise(const canvas_world& world, const canvas_task& task) {
  textbook_result result{{}, task.canvas};
  std::vector<token>& canvas = result.canvas;
  const auto length = static_cast<std::int32_t>(canvas.size());
  const auto masked = [&](std::int32_t p) {
    return canvas[static_cast<std::size_t>(p)] == world.mask;
  };
  std::int32_t open_block = -1;
  std::uint64_t cache = 0;
  for (;;) {
    std::int32_t first = 0;
    while (first < length && !masked(first)) { ++first; }
    if (first == length) { return result; }
    const std::int32_t block = (first - task.answer) / task.block_length;
    if (task.cached && block != open_block) {
      open_block = block;
      cache = hash_of(canvas);
    }
    diffusion::unmasking best;
    double best_score = 0.0;
    for (std::int32_t p = first; p < length; ++p) {
      if (!masked(p) || (p - task.answer) / task.block_length != block) { continue; }
      const bool greedy = task.temperature == 0.0;
      const std::vector<double> w =
          textbook::weights(world.logits(canvas, p, cache), world.mask,
                            greedy ? 1.0 : task.temperature, result.failed);
      if (result.failed != status::ok) {
        result.failed_position = p;
        return result;
      }
      const token t = textbook::pick(w, task, p);
      const double score = textbook::score(w, t, task.order);
      // Equal but for rounding is equal.
      if (best.position < 0 || score > best_score + 1e-9) {
        best = {p, t};
        best_score = score;
      }
    }
    canvas[static_cast<std::size_t>(best.position)] = best.t;
    result.unmaskings.push_back(best);
    for (std::int32_t p = task.answer; p < length && !masked(p); ++p) {
      const token t = canvas[static_cast<std::size_t>(p)];
      if (std::ranges::find(task.stop_tokens, t) != task.stop_tokens.end()) { return result; }
    }
  }
}

}  // namespace hunch::test
