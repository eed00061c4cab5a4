// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <engine/tokenizer.hpp>
#include <generate/measure.hpp>
#include <hunch/length/meter.hpp>

#include "common.hpp"
#include "paired.hpp"
#include "presets.hpp"
#include "prompts.hpp"

/// \file
/// Plain and speculative decoding with the shipped models, drafts as deep as a meter lets them be:
/// every preset, one request at a time and batches. Where drafting does not pay it must switch
/// itself off. Those of canvases choose their number once, in `generate`; the suite `diffusion`
/// measures them.

namespace bench {

/// The composition and the threads that HUNCH_BENCH_PART names, such as "eagle,2", are then all
/// that the suite measures; nullptr: everything.
inline const char* part_of_speculation() { return std::getenv("HUNCH_BENCH_PART"); }

/// The compositions of the shipped models, with as many threads each.
class speculation {
 public:
  speculation(report& out, const choice& of, int threads)
      : out_(out),
        threads_(threads),
        of_(of),
        prompts_(domain_prompts(engine::tokenizer(target_of(of)), of.models / "heldout")) {}

  void run() {
    for_each_preset(of_, threads_, largest, [&](const std::string& name, composed& of) {
      const char* const part = part_of_speculation();
      if (part != nullptr && part != name + "," + std::to_string(threads_)) { return; }
      for (const int t : {0, 1}) {
        // One meter, as a server has it: what it learns of one batch must not spoil another.
        hunch::length::meter meter(of.levels());
        for (std::int32_t batch = 1; batch <= largest; batch *= 2) {
          measure(name, of, meter, batch, t);
        }
        measure_cold(name, of, t);
      }
    });
  }

 private:
  static constexpr std::int32_t largest = 32;

  void measure(const std::string& name, composed& of, hunch::length::meter& meter,
               std::int32_t batch, int t) {
    hunch::generation_options request;
    request.max_new_tokens = batch < 4 ? 96 : batch < 16 ? 40 : 16;
    request.temperature = static_cast<float>(t);
    request.seed = 1;
    of.calibrate(meter, prompts_, request, batch, of.levels());
    of.warm_up(meter, prompts_, request, batch);
    generate::forecast expected;
    const std::string row = row_of(name, t) + "batch " + std::to_string(batch) + ": ";
    compare(
        row, batch, request,
        [&](const auto& asked, const auto& o) { return of.run_plain(asked, o, batch); },
        [&](const auto& asked, const auto& o) {
          return of.run_metered(meter, asked, o, batch, expected);
        },
        0.97);
    const auto stats = of.stats();
    out_.record(row + "speed-up predicted", expected.gain(), "x");
    out_.record(
        row + "mean draft length",
        static_cast<double>(generate::drafted_levels(stats)) / static_cast<double>(stats.steps),
        "tokens");
  }

  /// Requests one after the other, of all domains, by a meter that knows nothing at first: what it
  /// costs to learn. A drafter with a cache of its own reads a prompt once before anything is
  /// known.
  void measure_cold(const std::string& name, composed& of, int t) {
    hunch::generation_options request;
    request.max_new_tokens = 96;
    request.temperature = static_cast<float>(t);
    request.seed = 1;
    const auto in_turn = [&](auto asked, auto o, const auto& run) {
      generate::run all;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const generate::run one = run(asked, o);
        all.tokens.push_back(one.tokens[0]);
        all.time += one.time;
        all.timed += one.timed;
        std::rotate(asked.begin(), asked.begin() + 1, asked.end());
        ++o.seed;
      }
      return all;
    };
    compare(
        row_of(name, t) + "a new meter: ", static_cast<std::int32_t>(prompts_.size()), request,
        [&](const auto& asked, const auto& o) {
          return in_turn(asked, o, [&](const auto& one, const auto& with) {
            return of.run_plain(one, with, 1);
          });
        },
        [&](const auto& asked, const auto& o) {
          hunch::length::meter meter(of.levels());
          generate::forecast nobody_asks;
          return in_turn(asked, o, [&](const auto& one, const auto& with) {
            return of.run_metered(meter, one, with, 1, nobody_asks);
          });
        },
        {});
  }

  std::string row_of(const std::string& name, int t) const {
    return name + ", " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads") +
           ", T = " + std::to_string(t) + ", ";
  }

  /// The row of a way to decode beside plain decoding, of `requests` a round. They take the prompts
  /// in turn, so that each row speaks for all domains: a round of a few for some of them, of many
  /// for all. Machines like these are disturbed: rounds go on until it is known whether the goal,
  /// if there is one, is met.
  template <class Plain, class Fast>
  void compare(const std::string& row, std::int32_t requests, hunch::generation_options request,
               const Plain& run_plain, const Fast& run_fast, std::optional<double> goal) {
    const int prompts = static_cast<int>(prompts_.size());
    const int texts = requests < prompts ? prompts : 1;
    const int least = texts == 1 ? 8 : 4 * texts;
    const int most = texts == 1 ? 96 : 12 * texts;
    paired_rounds ratios(static_cast<std::size_t>(texts));
    bool identical = true;
    for (int round = 0; round < most; ++round) {
      const bool balanced = round % (2 * texts) == 0;
      if (balanced && round >= least && (!goal || ratios.decides(*goal))) { break; }
      auto asked = prompts_;
      std::rotate(asked.begin(), asked.begin() + round % prompts, asked.end());
      const auto runs =
          run_pair((round + round / texts) % 2 == 0, [&] { return run_plain(asked, request); },
                   [&] { return run_fast(asked, request); });
      ratios.add(static_cast<std::size_t>(round % texts), runs.ratio());
      identical = identical && runs.fast.tokens == runs.plain.tokens;
      request.seed += static_cast<std::uint64_t>(requests);
    }
    if (goal) {
      out_.add(row + "speed-up", ratios.speed_up(), "x", at_least(*goal));
    } else {
      out_.record(row + "speed-up", ratios.speed_up(), "x");
    }
    out_.record(row + "speed-up, standard error", ratios.error(), "x");
    const bool greedy = request.temperature == 0.0f;
    if (greedy && !identical) { out_.add(row + "text identical to plain", 0.0, "", at_least(1.0)); }
  }

  report& out_;
  int threads_;
  choice of_;
  prompt_list prompts_;
};

/// All compositions, with one thread and with two.
inline void measure_speculation(report& out, const choice& of) {
  for (const int threads : {1, 2}) { speculation(out, of, threads).run(); }
}

}  // namespace bench
