// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/selector/clustered.hpp>
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

/// Selectors of runs: the most frequent tokens, or clusters that a router chooses.
struct by_frequency {
  static selector::frequency<> of() { return {run_layout(), run_shortlist}; }
};
struct by_router {
  using budget_type = budget::per_row<budget::position_aware<budget::rows>>;
  static selector::clustered<hash_router, budget_type> of() {
    std::vector<std::int32_t> begin{60};
    while (begin.back() < run_vocab - 100) {
      const auto size = static_cast<std::int32_t>(9 + begin.size() * 7 % 50);
      begin.push_back(std::min(begin.back() + size, run_vocab - 100));
    }
    const auto clusters = static_cast<std::int32_t>(begin.size()) - 1;
    return {run_layout().clustered(std::move(begin)), hash_router{clusters},
            budget_type{{{clusters, 600}}}};
  }
};

/// Hash models and a resident loop over them, to which requests come and from which they go.
template <class S, class V, class E, class By = by_frequency>
class run_loop {
  static constexpr std::int32_t nodes = run_length + 1;
  using model = hash_model<E>;
  using drafter_type = drafter::autoregressive<model&, tree::chain<run_length>>;

 public:
  run_loop(E executor, S sampler, V verifier, std::int32_t batch, std::int32_t eager_rows)
      : executor_(executor),
        target_(executor_, run_vocab, 1, batch, batch * nodes + nodes),
        draft_(executor_, run_vocab, 2, batch, batch * nodes + nodes),
        decoder_(target_, drafter_type{draft_}, selector_of(draft_), std::move(sampler),
                 std::move(verifier),
                 resident_options{.max_batch = batch,
                                  .max_length = 64,
                                  .chunk = nodes,
                                  .ring = 3 * nodes,
                                  .eager_rows = eager_rows},
                 random_source<>{}, executor_) {}

  std::int32_t running() const { return decoder_.running(); }
  /// The texts of all requests that were ever added, in that order.
  const std::vector<std::vector<token>>& texts() const { return texts_; }

  void add(const run_request& r) {
    ids_.push_back(decoder_.add(r.prompt, r.options));
    texts_.emplace_back();
  }
  void cancel(std::size_t which) { decoder_.cancel(ids_[which]); }
  void run(std::int64_t steps) {
    decoder_.run(steps);
    executor_.synchronize();
    decoder_.poll([&](const ring_entry& e) {
      const auto found = std::find(ids_.begin(), ids_.end(), e.id);
      texts_[static_cast<std::size_t>(found - ids_.begin())].push_back(e.t);
    });
  }

 private:
  using selector_type = decltype(By::of());

  static selector_type selector_of(model& draft) {
    selector_type selector = By::of();
    draft.head_layout(selector.layout());
    return selector;
  }

  E executor_;
  model target_;
  model draft_;
  resident_decoder<model&, drafter_type, selector_type, S, V, random_source<>, E> decoder_;
  std::vector<request_id> ids_;
  std::vector<std::vector<token>> texts_;
};

/// The texts of the requests, `batch` at a time, in runs of up to `steps` steps.
template <class By = by_frequency, class S, class V, class E>
std::vector<std::vector<token>> resident_texts(E executor, S sampler, V verifier,
                                               const std::vector<run_request>& requests,
                                               std::int32_t batch, std::int64_t steps,
                                               std::int32_t eager_rows) {
  run_loop<S, V, E, By> loop(executor, sampler, verifier, batch, eager_rows);
  std::size_t added = 0;
  while (added < requests.size() || loop.running() > 0) {
    while (added < requests.size() && loop.running() < batch) { loop.add(requests[added++]); }
    loop.run(steps);
  }
  return loop.texts();
}

/// Requests `shrinking_cancels` of those in `shrinking_texts` are cancelled.
inline constexpr std::size_t shrinking_cancels[] = {1, 4};

/// The texts of twelve requests in one loop of eight slots, which shrinks as they end or are
/// cancelled, is filled up again in part, runs empty, and begins anew: the number of slots in use
/// takes every power of two, more than once. A second loop, with other memory on the same executor,
/// takes its steps in between; its texts follow.
template <class S, class V, class E>
std::vector<std::vector<token>> shrinking_texts(E executor, S sampler, V verifier,
                                                const std::vector<run_request>& requests) {
  constexpr std::size_t slots = 8;
  run_loop first(executor, sampler, verifier, slots, 1000);
  run_loop second(executor, sampler, verifier, 3, 0);
  std::size_t of_first = 0;
  std::size_t of_second = requests.size();
  const auto step = [&] {
    if (of_second > 0 && second.running() < 3) { second.add(requests[--of_second]); }
    first.run(2);
    second.run(3);
  };
  while (of_first < slots) { first.add(requests[of_first++]); }
  step();
  for (const std::size_t which : shrinking_cancels) { first.cancel(which); }
  while (first.running() > 2) { step(); }
  while (of_first < 11) { first.add(requests[of_first++]); }
  while (first.running() > 0) { step(); }
  first.add(requests[of_first++]);
  while (first.running() > 0 || second.running() > 0 || of_second > 0) { step(); }
  std::vector<std::vector<token>> texts = first.texts();
  texts.insert(texts.end(), second.texts().begin(), second.texts().end());
  return texts;
}

}  // namespace hunch::test
