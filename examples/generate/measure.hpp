// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hunch/hunch.hpp>

#include "generate/costs.hpp"
#include "generate/median.hpp"

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
  double time = 0.0;       ///< seconds from the end of the first step that emitted
  std::int64_t timed = 0;  ///< tokens emitted in that time
};

/// Runs `batch` requests to their ends: request i continues prompts[i % prompts.size()] with the
/// seed options.seed + i. `on_step(decoder)` is called after each step, `on_token(request, token,
/// origin)` for each token. Reading the prompts is not timed: it is the same work with and without
/// speculation.
/// \throws std::runtime_error if a request ends with an error.
template <class Decoder, class OnStep, class OnToken>
run run_requests(Decoder& decoder, const std::vector<std::vector<hunch::token>>& prompts,
                 hunch::generation_options options, std::int32_t batch, OnStep&& on_step,
                 OnToken&& on_token) {
  run out;
  out.tokens.resize(static_cast<std::size_t>(batch));
  hunch::request_id first = 0;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const hunch::request_id id = decoder.add(prompts[i % prompts.size()], options);
    first = i == 0 ? id : first;
    ++options.seed;
  }
  bool started = false;
  auto start = std::chrono::steady_clock::now();
  while (decoder.running() > 0) {
    std::int64_t emitted = 0;
    for (const hunch::emission& e : decoder.step()) {
      if (e.finish == hunch::finish_reason::error) {
        throw std::runtime_error(std::string("a request failed: ") + to_string(e.status));
      }
      const auto request = static_cast<std::size_t>(e.id - first);
      for (std::size_t i = 0; i < e.tokens.size(); ++i) {
        out.tokens[request].push_back(e.tokens[i]);
        on_token(request, e.tokens[i], e.origins[i]);
      }
      emitted += static_cast<std::int64_t>(e.tokens.size());
    }
    if (started) {
      out.timed += emitted;
    } else if (emitted > 0) {
      started = true;
      start = std::chrono::steady_clock::now();
    }
    on_step(decoder);
  }
  out.time = seconds(std::chrono::steady_clock::now() - start).count();
  return out;
}

/// Seconds of a target pass over `n` rows in each of `batch` sequences, for n = 1 .. longest; the
/// median of interleaved repeats. Nothing is committed, so the model is as before.
template <class Model>
std::vector<double> time_passes(Model& model, std::int32_t batch, std::int32_t longest,
                                std::int32_t repeats = 7) {
  hunch::executor::host host;
  hunch::staged_rows<hunch::executor::host> rows(host, batch * longest);
  std::vector<std::vector<double>> times(static_cast<std::size_t>(longest));
  for (std::int32_t repeat = 0; repeat <= repeats; ++repeat) {
    for (std::int32_t n = 1; n <= longest; ++n) {
      rows.clear();
      for (std::int32_t sequence = 0; sequence < batch; ++sequence) {
        for (std::int32_t i = 0; i < n; ++i) {
          rows.push(sequence, i, i == 0 ? hunch::end_of_cache : i - 1, i, hunch::token{1 + i},
                    true);
        }
      }
      const auto start = std::chrono::steady_clock::now();
      model.evaluate(rows.view());
      const double time = seconds(std::chrono::steady_clock::now() - start).count();
      if (repeat > 0) { times[static_cast<std::size_t>(n - 1)].push_back(time); }  // first: warm-up
    }
  }
  std::vector<double> medians;
  for (const std::vector<double>& t : times) { medians.push_back(median(t)); }
  return medians;
}

/// The levels that all steps of a decoder have drafted.
template <class Statistics>
std::int64_t drafted_levels(const Statistics& stats) {
  return std::accumulate(std::begin(stats.proposed_at), std::end(stats.proposed_at),
                         std::int64_t{0});
}

/// Short runs for what their steps take: of 64 tokens a request, or as many as are asked for. A
/// text ends where its grammar does, and others follow then.
template <class Decoder, class OnStep>
void run_briefly(Decoder& decoder, const std::vector<std::vector<hunch::token>>& prompts,
                 hunch::generation_options options, std::int32_t batch, OnStep&& on_step) {
  constexpr int most_runs = 8;
  options.max_new_tokens = std::min(options.max_new_tokens, 64);
  if (!options.grammar) {
    options.stop_tokens.clear();
    options.stop_strings.clear();
  }
  const std::int64_t wanted = std::int64_t{options.max_new_tokens} * batch;
  std::int64_t written = 0;
  for (int i = 0; i < most_runs && written < wanted; ++i) {
    run_requests(decoder, prompts, options, batch, on_step, [&](auto&&...) { ++written; });
    options.seed += static_cast<std::uint64_t>(batch);
  }
}

/// Measures the costs by short runs of a plain and a speculative decoder over the same models.
/// These are the runs that warm the machine up, too. Medians over steps, since a machine that is
/// busy with something else delays a few steps by a lot.
template <class Model, class Plain, class Speculative>
costs calibrate(Model& target, Plain& plain, Speculative& speculative,
                const std::vector<std::vector<hunch::token>>& prompts,
                const hunch::generation_options& options, std::int32_t batch) {
  std::vector<double> verify_times;
  run_briefly(plain, prompts, options, batch,
              [&, before = plain.stats().verify_seconds](auto& decoder) mutable {
                verify_times.push_back(decoder.stats().verify_seconds - before);
                before = decoder.stats().verify_seconds;
              });

  const std::int32_t chosen = speculative.draft_length();
  speculative.draft_length(4);  // whatever was chosen before, 0 perhaps
  speculative.reset_stats();
  std::vector<double> level_times;
  run_briefly(speculative, prompts, options, batch,
              [&, before = speculative.stats()](auto& decoder) mutable {
                const auto& now = decoder.stats();
                const auto levels =
                    static_cast<double>(drafted_levels(now) - drafted_levels(before)) / batch;
                if (levels > 0.0) {
                  level_times.push_back((now.draft_seconds - before.draft_seconds) / levels);
                }
                before = now;
              });
  speculative.draft_length(chosen);

  costs out;
  out.alpha = speculative.stats().acceptance_probability();
  const double law = median(verify_times);
  const std::vector<double> passes = time_passes(target, batch, Speculative::max_nodes);
  const double one = passes[0] + law;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    // More rows never cost less: where a measurement says so, it was disturbed.
    const double cost = (passes[i] + law * static_cast<double>(i + 1)) / one;
    out.rows.push_back(i == 0 ? cost : std::max(cost, out.rows.back()));
  }
  out.draft = median(level_times) / one;
  plain.reset_stats();
  speculative.reset_stats();
  return out;
}

/// The gain that the costs predict for what a decoder did: tokens per step over the cost of a step
/// with its mean number of rows and levels.
template <class Statistics>
double predicted_gain(const costs& cost, const Statistics& stats) {
  const auto steps = static_cast<double>(stats.steps);
  const double rows = 1.0 + static_cast<double>(stats.drafted) / steps;
  const double levels = static_cast<double>(drafted_levels(stats)) / steps;
  return stats.mean_acceptance_length() /
         (hunch::planner::row_cost(cost.rows, rows) + levels * cost.draft);
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
  out.rate = static_cast<double>(fast.timed) / fast.time;
  out.plain_rate = static_cast<double>(slow.timed) / slow.time;
  return out;
}

}  // namespace generate
