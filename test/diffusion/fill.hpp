// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <hunch/diffusion/decoder.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include "../support/toy_canvas.hpp"
#include "textbook.hpp"

namespace hunch::test {

using fill_sampler = sampler::pipeline<sampler::temperature>;

/// A decoder with up to N drafts over a model that is held by reference.
template <std::int32_t N, class Model, class O = diffusion::order::confidence,
          class V = diffusion::verifier::stepwise_exact, class S = fill_sampler>
auto canvas_decoder(Model& model, std::int32_t max_batch = 1, O order = {}, V verifier = {},
                    S sampler = {}, double spread = diffusion::default_spread) {
  return diffusion::decoder(model, std::move(order), std::move(sampler), std::move(verifier),
                            diffusion::self_speculation<N>{.spread = spread},
                            diffusion::decoder_options{.max_batch = max_batch});
}

/// Likewise, with drafts in a chain.
template <std::int32_t N, class Model, class O = diffusion::order::confidence,
          class V = diffusion::verifier::stepwise_exact>
auto chain_decoder(Model& model, std::int32_t max_batch = 1, O order = {}, V verifier = {}) {
  return canvas_decoder<N>(model, max_batch, std::move(order), std::move(verifier), fill_sampler{},
                           0.0);
}

/// Decoders of all compositions as one type, so that what drives them is compiled once.
class any_canvas_decoder {
 public:
  struct counters {
    std::int64_t steps, drafted, accepted, emitted, target_rows;
  };

  virtual request_id add(std::span<const token> prompt, const generation_options& options,
                         const diffusion::canvas_options& canvas) = 0;
  virtual std::int32_t running() const = 0;
  virtual std::span<const diffusion::emission> step() = 0;
  virtual counters stats() const = 0;

 protected:
  ~any_canvas_decoder() = default;
};
template <class D>
class canvas_decoder_of final : public any_canvas_decoder {
 public:
  explicit canvas_decoder_of(D& d) : d_(&d) {}
  request_id add(std::span<const token> prompt, const generation_options& options,
                 const diffusion::canvas_options& canvas) override {
    return d_->add(prompt, options, canvas);
  }
  std::int32_t running() const override { return d_->running(); }
  std::span<const diffusion::emission> step() override { return d_->step(); }
  counters stats() const override {
    const auto s = d_->stats();
    return {s.steps, s.drafted, s.accepted, s.emitted, s.target_rows};
  }

 private:
  D* d_;
};

template <class D>
concept TypedCanvasDecoder = !std::derived_from<D, any_canvas_decoder>;

/// Adds a task to a decoder.
inline request_id add(any_canvas_decoder& d, const canvas_task& task) {
  const auto answer = static_cast<std::size_t>(task.answer);
  const std::span<const token> canvas(task.canvas);
  generation_options options;
  options.max_new_tokens = static_cast<std::int32_t>(canvas.size() - answer);
  options.temperature = static_cast<float>(task.temperature);
  options.seed = task.seed;
  options.stop_tokens = task.stop_tokens;
  return d.add(canvas.first(answer), options,
               {.block_length = task.block_length, .answer = canvas.subspan(answer)});
}
template <TypedCanvasDecoder Decoder>
request_id add(Decoder& d, const canvas_task& task) {
  canvas_decoder_of any(d);
  return add(any, task);
}

/// What a decoder wrote for one request.
struct fill_result {
  std::vector<diffusion::unmasking> unmaskings;
  std::vector<token> canvas;
  std::vector<token> answer;
  finish_reason finish = finish_reason::none;
  status failed = status::ok;
  std::int32_t failed_position = -1;
  std::int32_t rounds = 0;
};

inline void append(fill_result& result, const diffusion::emission& e) {
  result.unmaskings.insert(result.unmaskings.end(), e.unmaskings.begin(), e.unmaskings.end());
  result.canvas.assign(e.canvas.begin(), e.canvas.end());
  result.answer.assign(e.answer.begin(), e.answer.end());
  result.finish = e.finish;
  result.failed = e.status;
  result.failed_position = e.failed_position;
  ++result.rounds;
}

/// Runs a decoder until nothing runs.
inline std::map<request_id, fill_result> finish(any_canvas_decoder& d) {
  std::map<request_id, fill_result> results;
  while (d.running() > 0) {
    for (const diffusion::emission& e : d.step()) { append(results[e.id], e); }
  }
  return results;
}
template <TypedCanvasDecoder Decoder>
std::map<request_id, fill_result> finish(Decoder& d) {
  canvas_decoder_of any(d);
  return finish(any);
}

/// Fills one canvas.
inline fill_result fill(any_canvas_decoder& d, const canvas_task& task) {
  const request_id id = add(d, task);
  return finish(d)[id];
}
template <TypedCanvasDecoder Decoder>
fill_result fill(Decoder& d, const canvas_task& task) {
  canvas_decoder_of any(d);
  return fill(any, task);
}

/// Whether a decoder wrote what is unmasked one token a pass: positions and tokens in their order,
/// and the same end.
inline bool agrees(const fill_result& found, const textbook_result& expected) {
  return found.unmaskings == expected.unmaskings && found.canvas == expected.canvas &&
         found.failed == expected.failed && found.failed_position == expected.failed_position;
}

/// Every canvas with a prompt of one token, `length` positions after it that are unmasked with
/// token 0 or 2 or masked by 1, and at least one mask.
inline std::vector<std::vector<token>> all_canvases(std::int32_t length) {
  std::vector<std::vector<token>> result;
  std::int32_t count = 1;
  for (std::int32_t i = 0; i < length; ++i) { count *= 3; }
  for (std::int32_t code = 0; code < count; ++code) {
    std::vector<token> canvas{2};
    bool masks = false;
    for (std::int32_t i = 0, rest = code; i < length; ++i, rest /= 3) {
      canvas.push_back(rest % 3);
      masks = masks || rest % 3 == 1;
    }
    if (masks) { result.push_back(canvas); }
  }
  return result;
}

}  // namespace hunch::test
