// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/hunch.hpp>

#include "generate/costs.hpp"
#include "generate/draft_length.hpp"
#include "generate/forecast.hpp"
#include "generate/median.hpp"
#include "generate/ranks.hpp"

namespace generate {

using seconds = std::chrono::duration<double>;

/// Threads of a model unless told otherwise: half of the processors, since they often come in
/// pairs that share a core, and two threads on one core slow a step down.
inline int default_threads() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 2));
}

/// The tokens of every request of one run, and how fast they came.
struct run {
  std::vector<std::vector<hunch::token>> tokens;  ///< per request
  generate::draft_lengths draft_lengths;          ///< that steps have had
  double time = 0.0;       ///< seconds from the end of the first step that emitted
  std::int64_t timed = 0;  ///< tokens emitted in that time
  double whole = 0.0;      ///< seconds, prompts included

  /// Tokens per second.
  double rate() const { return static_cast<double>(timed) / time; }
};

/// Runs `batch` requests to their ends: request i continues prompts[i % prompts.size()] with the
/// seed options.seed + i. `on_step(decoder)` is called after each step, `on_token(request, token,
/// origin)` for each token. The time of a run is that of decoding: reading the prompts is not in
/// it, but it is in the whole. \param repeated Lengths that drafts are to have, of request i %
/// their number; empty: any. \throws std::runtime_error if a request ends with an error, after
/// `on_token` of what it emitted.
template <class Decoder, class OnStep, class OnToken>
run run_requests(Decoder& decoder, const std::vector<std::vector<hunch::token>>& prompts,
                 hunch::generation_options options, std::int32_t batch, OnStep&& on_step,
                 OnToken&& on_token, const draft_lengths& repeated = {}) {
  run out;
  out.tokens.resize(static_cast<std::size_t>(batch));
  out.draft_lengths.resize(out.tokens.size());
  hunch::request_id first = 0;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const hunch::request_id id = decoder.add(prompts[i % prompts.size()], options);
    first = i == 0 ? id : first;
    ++options.seed;
  }
  bool started = false;
  double showing = 0.0;        ///< seconds of `on_token`
  double showing_timed = 0.0;  ///< since the start
  const auto began = std::chrono::steady_clock::now();
  auto start = began;
  while (decoder.running() > 0) {
    std::int64_t emitted = 0;
    for (std::size_t i = 0; !repeated.empty() && i < out.tokens.size(); ++i) {
      const std::vector<std::int32_t>& lengths = repeated[i % repeated.size()];
      const std::size_t step = std::min(out.draft_lengths[i].size(), lengths.size() - 1);
      decoder.draft_length(first + static_cast<hunch::request_id>(i), lengths[step]);
    }
    const std::span<const hunch::emission> emissions = decoder.step();
    const auto shows = std::chrono::steady_clock::now();
    for (const hunch::emission& e : emissions) {
      const auto request = static_cast<std::size_t>(e.id - first);
      for (std::size_t i = 0; i < e.tokens.size(); ++i) {
        out.tokens[request].push_back(e.tokens[i]);
        on_token(request, e.tokens[i], e.origins[i]);
      }
      // What a step accepted before a bad row is text.
      if (e.finish == hunch::finish_reason::error) {
        throw std::runtime_error(std::string("a request failed: ") + to_string(e.status));
      }
      out.draft_lengths[request].push_back(e.drafted);
      emitted += static_cast<std::int64_t>(e.tokens.size());
    }
    const double shown = seconds(std::chrono::steady_clock::now() - shows).count();
    showing += shown;
    if (started) { showing_timed += shown; }
    if (started) {
      out.timed += emitted;
    } else if (emitted > 0) {
      started = true;
      start = std::chrono::steady_clock::now();
    }
    on_step(decoder);
  }
  const auto end = std::chrono::steady_clock::now();
  out.time = seconds(end - start).count() - showing_timed;
  out.whole = seconds(end - began).count() - showing;
  return out;
}

/// The levels that all steps of a decoder have drafted.
template <class Statistics>
std::int64_t drafted_levels(const Statistics& stats) {
  return std::accumulate(std::begin(stats.proposed_at), std::end(stats.proposed_at),
                         std::int64_t{0});
}

/// Short runs for what their steps take: of 64 tokens a request, or as many as are asked for. A
/// text ends where its grammar does, and others follow then.
/// \param run_all(options, on_token) is a run of `batch` requests.
template <class Run>
void run_briefly(hunch::generation_options options, std::int32_t batch, Run&& run_all) {
  constexpr int max_runs = 8;
  options.max_new_tokens = std::min(options.max_new_tokens, 64);
  if (!options.grammar) {
    options.stop_tokens.clear();
    options.stop_strings.clear();
  }
  const std::int64_t wanted = std::int64_t{options.max_new_tokens} * batch;
  std::int64_t written = 0;
  for (int i = 0; i < max_runs && written < wanted; ++i) {
    run_all(options, [&](auto&&...) { ++written; });
    options.seed += static_cast<std::uint64_t>(batch);
  }
}

/// Levels that a decoder's drafter can draft.
template <class Speculative>
inline constexpr std::int32_t levels_of = Speculative::max_nodes - 1;
template <class Target, class D, class... Rest>
inline constexpr std::int32_t levels_of<hunch::decoder<Target, D, Rest...>> =
    hunch::max_depth_of<std::remove_cvref_t<D>>();

/// Measures the costs by short runs of a decoder, whose length policy drafts as deep as it may: of
/// plain steps, which find the caches as plain decoding leaves them, and of drafts of 1, 2, 4, ...
/// levels, a few steps of each in turn. Whole steps, so that all that a step is spent on is in
/// them; medians, since a machine that is busy with something else delays a few steps by a lot.
/// This warms the machine up, too. \param meter of this decoder, which learns the same. \param
/// longest levels of the longest drafts.
template <class Speculative>
costs calibrate(hunch::length::meter& meter, Speculative& speculative,
                const std::vector<std::vector<hunch::token>>& prompts,
                hunch::generation_options options, std::int32_t batch,
                std::int32_t longest = levels_of<Speculative>) {
  constexpr std::size_t in_turn = 3;  // the first one finds what another length has left
  std::vector<std::int32_t> lengths;
  for (std::int32_t n = 1; n < longest; n *= 2) { lengths.push_back(n); }
  lengths.push_back(longest);
  // And back again: what the longest leaves of the caches is no price of the shortest.
  for (std::size_t i = lengths.size() - 1; i > 0; --i) { lengths.push_back(lengths[i - 1]); }

  const std::int32_t chosen = speculative.draft_length();
  std::size_t at = 0;
  const auto run_of = [&](const auto& length) {
    speculative.draft_length(length());  // the drafter reads the prompts, too
    run_briefly(options, batch, [&](const auto& o, auto&& on_token) {
      run_requests(
          speculative, prompts, o, batch,
          [&](auto& decoder) {
            meter.learn(agreed(decoder.last_step()));
            decoder.draft_length(length());
          },
          on_token);
    });
    options.seed += static_cast<std::uint64_t>(batch);
  };
  const auto plain = [] { return 0; };
  const auto next = [&] { return lengths[at++ / in_turn % lengths.size()]; };
  run_of(plain);
  if (longest > 0) {
    for (int i = 0; i < 3; ++i) { run_of(next); }
    run_of(plain);
  }
  speculative.draft_length(chosen);
  speculative.reset_stats();

  costs out;
  const hunch::length::cost prices = meter.prices(batch);
  out.rows = prices.rows;
  out.draft = prices.draft;
  out.alpha = prices.expected;
  return out;
}

/// The same for a decoder without a meter.
template <class Speculative>
costs calibrate(Speculative& speculative, const std::vector<std::vector<hunch::token>>& prompts,
                const hunch::generation_options& options, std::int32_t batch) {
  hunch::length::meter meter(levels_of<Speculative>);
  return calibrate(meter, speculative, prompts, options, batch);
}

/// As `run_requests`; a meter chooses the draft length of every step.
/// \param expected takes what the meter expects of each step.
template <class Speculative, class OnToken>
run run_metered(hunch::length::meter& meter, Speculative& speculative,
                const std::vector<std::vector<hunch::token>>& prompts,
                const hunch::generation_options& options, std::int32_t batch, OnToken&& on_token,
                forecast& expected) {
  speculative.draft_length(meter.next(batch));
  return run_requests(
      speculative, prompts, options, batch,
      [&](auto& decoder) {
        const hunch::step_summary& step = agreed(decoder.last_step());
        expected.add(meter, step);
        meter.observe(step);
        decoder.draft_length(meter.next(decoder.running()));
      },
      on_token);
}

/// Short runs that are not timed, in which a meter that has learnt what drafting costs finds out
/// whether it pays.
template <class Speculative>
void warm_up(hunch::length::meter& meter, Speculative& speculative,
             const std::vector<std::vector<hunch::token>>& prompts,
             const hunch::generation_options& options, std::int32_t batch) {
  forecast nobody_asks;
  run_briefly(options, batch, [&](const auto& o, auto&& on_token) {
    run_metered(meter, speculative, prompts, o, batch, on_token, nobody_asks);
  });
  speculative.reset_stats();
}

/// As `run_requests`; what a meter learns of the steps is what it expects of the next ones.
template <class Speculative, class OnToken>
run run_learning(hunch::length::meter& meter, Speculative& speculative,
                 const std::vector<std::vector<hunch::token>>& prompts,
                 const hunch::generation_options& options, std::int32_t batch, OnToken&& on_token,
                 forecast& expected, const draft_lengths& repeated = {}) {
  return run_requests(
      speculative, prompts, options, batch,
      [&](auto& decoder) {
        const hunch::step_summary& step = agreed(decoder.last_step());
        expected.add(meter, step);
        meter.learn(step);
      },
      on_token, repeated);
}

/// The share of 4-grams that occurred before in the same text; 0 for fewer than four tokens.
inline double repeated_4grams(const std::vector<hunch::token>& tokens) {
  if (tokens.size() < 4) { return 0.0; }
  std::set<std::array<hunch::token, 4>> seen;
  std::size_t repeated = 0;
  const std::size_t count = tokens.size() - 3;
  for (std::size_t i = 0; i < count; ++i) {
    repeated +=
        seen.insert({tokens[i], tokens[i + 1], tokens[i + 2], tokens[i + 3]}).second ? 0 : 1;
  }
  return static_cast<double>(repeated) / static_cast<double>(count);
}

/// Plain and speculative decoding of the same requests.
struct comparison {
  double plain_rate = 0.0;  ///< tokens per second, all requests together
  double rate = 0.0;
  bool identical = true;  ///< all texts, token by token
  run first;              ///< the first speculative run
};

/// Takes plain and speculative runs in turn, `rounds` times, with other seeds in each round, so
/// that noise and luck hit both alike. plain(options, on_token) and speculative(options, on_token)
/// are runs of `batch` requests.
template <class Plain, class Speculative, class OnToken>
comparison compare(Plain&& plain, Speculative&& speculative, hunch::generation_options options,
                   std::int32_t batch, std::int32_t rounds, OnToken&& on_token) {
  const auto nothing = [](auto&&...) {};
  comparison out;
  run fast, slow;
  for (std::int32_t round = 0; round < rounds; ++round) {
    run s = round == 0 ? speculative(options, on_token) : speculative(options, nothing);
    const run p = plain(options, nothing);
    out.identical = out.identical && s.tokens == p.tokens;
    fast.time += s.time;
    fast.timed += s.timed;
    slow.time += p.time;
    slow.timed += p.timed;
    if (round == 0) { out.first = std::move(s); }
    options.seed += static_cast<std::uint64_t>(batch);
  }
  out.rate = fast.rate();
  out.plain_rate = slow.rate();
  return out;
}

}  // namespace generate
