// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <hunch/core/logit.hpp>
#include <hunch/interop/vllm_logits.hpp>
#include "support.hpp"

/// \file
/// Batches of requests for the adapter on logits.

namespace hunch::test {

namespace adapter = interop::vllm;

/// What a call writes.
struct outputs {
  std::vector<std::int64_t> tokens;
  std::vector<std::int32_t> counts;
  std::vector<status> statuses;

  friend bool operator==(const outputs&, const outputs&) = default;
};

/// Requests on logits.
struct requests {
  std::int32_t vocab = 0, draft_vocab = 0, steps = 0, states = 0;
  std::vector<double> target, draft;
  std::vector<std::int32_t> sampled, cu{0}, mapping;
  std::vector<std::int64_t> pos, seed;
  std::vector<float> temperature;
  bool has_draft = true, scaled = true;

  std::int32_t batch() const { return static_cast<std::int32_t>(mapping.size()); }
  std::int64_t draft_row(std::int32_t b, std::int32_t step) const {
    return static_cast<std::int64_t>(mapping[static_cast<std::size_t>(b)]) * steps + step;
  }
};

inline std::vector<double> softmax(const std::vector<double>& logits, double temperature) {
  const double top = *std::ranges::max_element(logits);
  std::vector<double> p;
  double sum = 0.0;
  for (const double x : logits) {
    p.push_back(std::exp((x - top) / temperature));
    sum += p.back();
  }
  for (double& x : p) { x /= sum; }
  return p;
}

inline std::vector<double> some_logits(dice& random, std::int32_t n) {
  std::vector<double> row;
  for (std::int32_t v = 0; v < n; ++v) {
    const bool banned = v > 0 && random.below(4) == 0;
    row.push_back(banned ? -std::numeric_limits<double>::infinity() : 5.0 * random.unit());
  }
  return row;
}

/// The temperature that the laws of a request are made with; 0: greedy.
inline double scale_of(const requests& c, std::int32_t b) {
  const double t = c.temperature[static_cast<std::size_t>(c.mapping[static_cast<std::size_t>(b)])];
  return t == 0.0 || !c.scaled ? t : 1.0;
}

inline requests some_requests(dice& random, std::int32_t batch, std::int32_t vocab) {
  requests c;
  c.vocab = vocab;
  c.draft_vocab = random.below(3) > 0 ? vocab : 1 + random.below(vocab);
  c.steps = 5;
  c.states = batch + random.below(3);
  c.has_draft = random.below(3) > 0;
  c.scaled = random.below(2) == 0;
  for (std::int32_t s = 0; s < c.states; ++s) {
    c.seed.push_back(static_cast<std::int64_t>(random.next() >> 1));
    c.temperature.push_back(random.below(4) == 0 ? 0.0f
                                                 : 0.25f + static_cast<float>(random.unit()));
  }
  for (std::int32_t i = 0; i < c.states * c.steps; ++i) {
    append(c.draft, some_logits(random, c.draft_vocab));
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(c.states));
  std::iota(order.begin(), order.end(), 0);
  for (std::int32_t b = 0; b < batch; ++b) {
    std::swap(order[static_cast<std::size_t>(b)],
              order[static_cast<std::size_t>(b + random.below(c.states - b))]);
    c.mapping.push_back(order[static_cast<std::size_t>(b)]);
    const std::int32_t length = random.below(6);
    const std::int32_t at = random.below(1000);
    for (std::int32_t i = 0; i <= length; ++i) {
      c.pos.push_back(at + i);
      if (i == 0) {
        c.sampled.push_back(random.below(vocab));
      } else {
        const auto q = row_of(c.draft, c.draft_row(b, i - 1), c.draft_vocab);
        const double t = scale_of(c, b);
        c.sampled.push_back(picked(softmax(q, t == 0.0 ? 1.0 : t), random.unit()));
        if (random.below(8) == 0) { c.sampled.back() = -1; }
      }
      append(c.target, some_logits(random, vocab));
      if (i < length && random.below(2) == 0 && c.draft_vocab == vocab) {
        // Here target and draft agree.
        const auto q = row_of(c.draft, c.draft_row(b, i), vocab);
        std::ranges::copy(q, c.target.end() - vocab);
      }
    }
    c.cu.push_back(static_cast<std::int32_t>(c.sampled.size()));
  }
  return c;
}

template <class Real>
std::vector<Real> logits_in(const std::vector<double>& row) {
  std::vector<Real> out;
  for (const double x : row) { out.push_back(to_logit<Real>(static_cast<real_of<Real>>(x))); }
  return out;
}

/// Scratch for a call.
template <class Real>
std::vector<law<Real>> scratch_of(const adapter::logits_arguments<Real>& args) {
  return std::vector<law<Real>>(args.workspace_bytes() / sizeof(law<Real>) + 1);
}

/// The arrays of a call.
template <class Real = double>
struct logits_call {
  std::vector<Real> target, draft;
  std::vector<law<Real>> scratch;
  outputs out;
  adapter::logits_arguments<Real> args;

  explicit logits_call(const requests& c)
      : target(logits_in<Real>(c.target)), draft(logits_in<Real>(c.draft)) {
    out.tokens.assign(static_cast<std::size_t>(c.batch() * (c.steps + 1)), -7);
    out.counts.assign(static_cast<std::size_t>(c.batch()), -7);
    out.statuses.assign(static_cast<std::size_t>(c.batch()), status::cache_full);
    args.num_reqs = c.batch();
    args.max_num_reqs = c.states;
    args.num_logits = static_cast<std::int32_t>(c.sampled.size());
    args.num_speculative_steps = c.steps;
    args.vocab = c.vocab;
    args.draft_vocab = c.draft_vocab;
    args.target_logits = target.data();
    args.draft_logits = c.has_draft ? draft.data() : nullptr;
    args.draft_sampled = c.sampled.data();
    args.cu_num_logits = c.cu.data();
    args.pos = c.pos.data();
    args.idx_mapping = c.mapping.data();
    args.seed = c.seed.data();
    args.sampling.temperature = c.temperature.data();
    args.target_is_scaled = args.draft_is_scaled = c.scaled;
    args.sampled = out.tokens.data();
    args.num_sampled = out.counts.data();
    args.status = out.statuses.data();
  }
  logits_call(const logits_call&) = delete;
  logits_call& operator=(const logits_call&) = delete;

  template <class E, class V = verifier::rejection>
  const outputs& on(E executor, V verifier = {}) {
    scratch = scratch_of(args);
    args.workspace = scratch.data();
    adapter::rejection_sample(executor, args, verifier);
    return out;
  }
};

template <class E, class Real = double>
outputs run(const requests& c, E executor) {
  return logits_call<Real>(c).on(executor);
}

}  // namespace hunch::test
