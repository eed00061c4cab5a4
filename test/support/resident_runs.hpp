// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <hunch/drafter/autoregressive.hpp>
#include <hunch/resident_decoder.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>
#include "hash_model.hpp"

/// \file
/// Runs of a resident loop over hash models, the same on every executor.

namespace hunch::test {

inline constexpr std::int32_t run_vocab = 1500;  // no multiple of a tile or of a row of lanes
inline constexpr std::int32_t run_shortlist = 1200;
inline constexpr std::int32_t run_length = 4;  // of drafts

enum class run_kind { sampled, greedy, staged };

struct run_request {
  std::vector<token> prompt;
  generation_options options;
};

inline std::vector<run_request> run_requests_of(run_kind kind, std::int32_t count) {
  std::vector<run_request> requests;
  for (std::int32_t n = 0; n < count; ++n) {
    run_request r;
    for (std::int32_t t = 0; t <= 3 * n % 11; ++t) {
      r.prompt.push_back((70 * n + 31 * t) % run_vocab);
    }
    generation_options& o = r.options;
    o.max_new_tokens = 1 + 7 * (n + 2) % 29;
    o.temperature = kind == run_kind::greedy || n % 4 == 3 ? 0.0f : 0.7f;
    o.seed = static_cast<std::uint64_t>(900 + n);
    if (n % 3 == 0) { o.stop_tokens = {3, 11, 20}; }
    if (kind == run_kind::staged) {
      o.top_k = n % 2 == 0 ? 40 : 0;
      o.top_p = 0.9f;
      o.min_p = n % 2 == 0 ? 0.0f : 0.01f;
      o.repetition_penalty = 1.3f;
      o.frequency_penalty = n % 2 == 0 ? 0.4f : 0.0f;
      o.presence_penalty = 0.2f;
      if (n % 2 == 1) { o.bias = {{5, 1.5f}, {6, -2.0f}}; }
    }
    requests.push_back(std::move(r));
  }
  return requests;
}

/// A head in another order than the vocabulary, with tokens that have no row.
inline vocab_layout run_layout() {
  std::vector<token> order;
  for (token t = 0; t < run_vocab - 100; ++t) { order.push_back((t * 7 + 3) % run_vocab); }
  return vocab_layout::permuted(std::move(order), run_vocab);
}

/// The texts of the requests, `batch` at a time, in runs of up to `steps` steps.
template <class S, class V, class E>
std::vector<std::vector<token>> resident_texts(E executor, S sampler, V verifier,
                                               const std::vector<run_request>& requests,
                                               std::int32_t batch, std::int64_t steps,
                                               std::int32_t eager_rows) {
  constexpr std::int32_t nodes = run_length + 1;
  hash_model<E> target(executor, run_vocab, 1, batch, batch * nodes);
  hash_model<E> draft(executor, run_vocab, 2, batch, batch * nodes);
  selector::frequency selector{run_layout(), run_shortlist};
  draft.head_layout(selector.layout());
  resident_decoder d{target,
                     drafter::autoregressive{draft, tree::chain<run_length>{}},
                     std::move(selector),
                     sampler,
                     verifier,
                     resident_options{.max_batch = batch,
                                      .max_length = 64,
                                      .chunk = nodes,
                                      .ring = 3 * nodes,
                                      .eager_rows = eager_rows},
                     random_source<>{},
                     executor};
  std::vector<std::vector<token>> texts(requests.size());
  std::map<request_id, std::size_t> of;
  std::size_t added = 0;
  while (added < requests.size() || d.running() > 0) {
    while (added < requests.size() && d.running() < batch) {
      of[d.add(requests[added].prompt, requests[added].options)] = added;
      ++added;
    }
    d.run(steps);
    executor.synchronize();
    d.poll([&](const resident::ring_entry& e) { texts[of.at(e.id)].push_back(e.t); });
  }
  return texts;
}

}  // namespace hunch::test
