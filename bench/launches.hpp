// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>

#include "../test/support/counting_host.hpp"
#include "common.hpp"

/// \file
/// How many launches a step takes: a number that belongs to the composition, on any machine.

namespace bench {

namespace launches {

using namespace hunch;

constexpr std::int32_t vocab = 300;
constexpr std::int32_t width = 4;  // of states

/// A number for a token at a position: what stands for a model.
inline float number(std::int64_t t, std::int64_t position, std::int64_t v) {
  auto h = static_cast<std::uint64_t>(t * 1000003 + position * 10007 + v * 101 + 7);
  h = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15u;
  return static_cast<float>(h >> 40) / 4194304.0f;
}

/// Target, draft model and heads: what each row makes depends on its token and position.
class free_model {
 public:
  struct pass {
    const free_model* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const { return of->row(of->logits_, i, vocab); }
    row_view<float> stream(std::int32_t i, std::int32_t) const {
      return of->row(of->states_, i, width);
    }
    context_rows contexts() const { return {of->states_.data(), width}; }
  };

  static std::int32_t vocab_size() { return vocab; }
  static std::int32_t context_width() { return width; }
  static std::int32_t hidden_size() { return width; }
  static std::int32_t heads() { return 3; }
  std::uint64_t head_order() const { return order_; }
  void head_order(std::uint64_t order) { order_ = order; }

  pass evaluate(const rows& r) {
    forward(r);
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.wanted[i] != 0) { fill(pass{this}.logits(i), i, nullptr); }
    }
    return {this};
  }
  pass forward(const rows& r) {
    seen_.clear();
    for (std::int32_t i = 0; i < r.size; ++i) { see(r.tokens[i], r.position[i]); }
    return {this};
  }
  pass forward(const head_inputs& inputs) {
    seen_.clear();
    for (std::int32_t i = 0; i < inputs.size; ++i) {
      for (std::int32_t j = 0; j < heads(); ++j) { see(inputs.tokens[i], j); }
    }
    return {this};
  }
  void head(const pass&, const head_rows<float>& h) {
    for (std::int32_t i = 0; i < h.size; ++i) { fill(h.logits[i], h.row[i], h.lists + i); }
  }
  void commit(const kept_rows&) noexcept {}

 private:
  struct place {
    token t;
    std::int32_t position;
  };

  row_view<float> row(const std::vector<float>& of, std::int32_t i, std::int32_t size) const {
    return {const_cast<float*>(of.data()) + std::ptrdiff_t{i} * size, size};
  }
  void see(token t, std::int32_t position) {
    seen_.push_back({t, position});
    logits_.resize(std::max(logits_.size(), seen_.size() * vocab));
    states_.resize(std::max(states_.size(), seen_.size() * width));
    for (std::int32_t v = 0; v < width; ++v) {
      states_[(seen_.size() - 1) * width + static_cast<std::size_t>(v)] = number(t, position, v);
    }
  }
  void fill(const row_view<float>& out, std::int32_t i, const shortlist* list) const {
    const place& at = seen_[static_cast<std::size_t>(i)];
    for (std::int32_t v = 0; v < out.size; ++v) {
      out[v] = 8.0f * number(at.t, at.position, list == nullptr ? v : list->token_at(v));
    }
  }

  std::uint64_t order_ = vocab_layout::identity(vocab).order();
  std::vector<place> seen_;
  std::vector<float> logits_;
  std::vector<float> states_;
};

struct free_router {
  std::int32_t clusters = 0;
  std::int32_t inputs = width;
  std::int32_t scratch = 0;

  template <Team T>
  void operator()(T& team, const float* context, float*, float* scores) const {
    team.for_each(clusters, [=](std::int64_t c) { scores[c] = context[c % width]; });
  }
};

/// The most launches of a step of four requests.
template <class Make, class Selector, class V>
double most(Make&& make, const Selector& selector, V verifier) {
  free_model target;
  test::counting<> executor;
  decoder d{target,
            make(),
            selector,
            sampler::pipeline<sampler::temperature>{},
            verifier,
            decoder_options{.max_batch = 4, .token_text = {}},
            random_source<>{},
            executor};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    generation_options options;
    options.max_new_tokens = 60;
    options.seed = seed;
    d.add(std::vector<token>{1, 2, static_cast<token>(seed)}, options);
  }
  std::int64_t largest = 0;
  while (d.running() > 0) {
    const std::int64_t before = executor.calls->launches;
    d.step();
    if (d.last_step().drafted > 0) {
      largest = std::max(largest, executor.calls->launches - before);
    }
  }
  return static_cast<double>(largest);
}

}  // namespace launches

/// Rows of the main compositions. A goal of 12 launches, and 6 for each level of the draft.
inline void measure_launches(report& out) {
  using namespace hunch;
  using launches::free_model;
  const auto row = [&](const std::string& what, std::int32_t levels, double count) {
    out.add("launches of a step: " + what, count, "launches",
            goal{goal::sense::at_most, static_cast<double>(12 + 6 * levels)});
  };
  const vocab_layout order = vocab_layout::identity(launches::vocab);
  const selector::frequency<> frequent{order, 200};
  row("a chain of five with a model", 5,
      launches::most(
          [] {
            return drafter::autoregressive{free_model{}, tree::chain<5>{}};
          },
          frequent, verifier::rejection{}));
  const vocab_layout clusters = order.clustered({20, 80, 130, 190, 240, launches::vocab});
  row("an EAGLE-2 tree of 60 nodes over routed shortlists", 6,
      launches::most(
          [&] {
            free_model draft;
            draft.head_order(clusters.order());
            return drafter::autoregressive{std::move(draft), tree::dynamic<10, 6, 60>{}};
          },
          selector::clustered{clusters, launches::free_router{5}, budget::fixed{3}},
          verifier::point_mass{}));
  row("three streams", 3,
      launches::most(
          [] {
            return drafter::streaming{free_model{}, tree::dynamic<3, 3, 9>{}};
          },
          frequent, verifier::point_mass{}));
}

}  // namespace bench
