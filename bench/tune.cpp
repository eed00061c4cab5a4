// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/tokenizer.hpp>
#include <generate/composed.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

#include "common.hpp"
#include "presets.hpp"
#include "prompts.hpp"

/// \file
/// Whether speed that is promised is reached, and whether drafts as long as pay ever lose: every
/// preset, category of text and temperature, one thread and two. What is held against plain
/// decoding and against fixed lengths are times of whole texts, so that a drafter that reads the
/// prompt pays for it; speed-ups and predictions are those of decoding, after the prompt. A
/// category is eight texts, not one: the length that is best for a text of twenty steps is known
/// after it, to nobody before.
///
/// Drafts of other lengths draw other texts, so that most of what one category wins or loses
/// against the best fixed length is luck, a few percent of it. The worst of a hundred categories is
/// that of the worst luck; so goals are for the mean of a setting's categories, and for those that
/// lose more than luck explains.

namespace bench {
namespace {

constexpr std::int32_t lengths[] = {1, 2, 3, 4, 6, 8};      ///< fixed ones, as far as drafts go
constexpr std::size_t candidates = std::size(lengths) + 1;  ///< and as long as pays

/// Of the mean of some values.
double standard_error(const std::vector<double>& values) {
  const double center = mean(values);
  double squares = 0.0;
  for (const double v : values) { squares += (v - center) * (v - center); }
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1.0) / n);
}

/// Of the median of some values, by the median of what they are off: one that somebody else on the
/// machine has disturbed decides nothing.
double error_of_median(const std::vector<double>& values) {
  const double center = median(values);
  std::vector<double> off;
  for (const double v : values) { off.push_back(std::abs(v - center)); }
  return 1.4826 * 1.2533 * median(off) / std::sqrt(static_cast<double>(values.size()));
}

/// Texts of a category: seconds over those of plain decoding of the same text, for as many tokens.
struct category_times {
  std::vector<double> whole[candidates];     ///< the last one as long as pays
  std::vector<double> decoding[candidates];  ///< without the reading of prompts

  static double over(const std::vector<double>& times, std::size_t first, std::size_t step) {
    double sum = 0.0;
    double count = 0.0;
    for (std::size_t i = first; i < times.size(); i += step, ++count) { sum += times[i]; }
    return sum / count;
  }
  double auto_over_plain() const { return 1.0 / over(whole[candidates - 1], 0, 1); }
  double error_of_auto_over_plain() const {
    const double gain = auto_over_plain();
    return standard_error(whole[candidates - 1]) * gain * gain;
  }
  /// The best fixed length, or none, is the one that was best for the other half of the texts: the
  /// best of the same texts would be the luckiest.
  double auto_over_best(double& error) const {
    double sum = 0.0;
    std::vector<double> ratios;  // of single texts
    for (const std::size_t half : {std::size_t{0}, std::size_t{1}}) {
      double best = 1.0;
      double chosen = 1.0;
      int which = -1;
      for (std::size_t i = 0; i + 1 < candidates; ++i) {
        const double time = over(whole[i], half, 2);
        if (time < best) {
          best = time;
          chosen = over(whole[i], 1 - half, 2);
          which = static_cast<int>(i);
        }
      }
      sum += 0.5 * std::min(chosen, 1.0) / over(whole[candidates - 1], 1 - half, 2);
      for (std::size_t i = 1 - half; i < whole[candidates - 1].size(); i += 2) {
        ratios.push_back((which < 0 ? 1.0 : whole[which][i]) / whole[candidates - 1][i]);
      }
    }
    error = standard_error(ratios);
    return sum;
  }
};

struct setting {
  int threads;
  float temperature;
  std::string words() const {
    char text[48];
    std::snprintf(text, sizeof text, ", T = %g, %d thread%s", static_cast<double>(temperature),
                  threads, threads == 1 ? "" : "s");
    return text;
  }
};

class suite {
 public:
  suite(report& out, const choice& of)
      : out_(out),
        of_(of),
        domains_(domains(of.models / "heldout")),
        prompts_(domain_prompts(engine::tokenizer(target_of(of)), of.models / "heldout")) {
    const engine::tokenizer text(target_of(of));
    for (const std::string& name : domains_) {
      texts_.push_back(prompts_in(text, of.models / "heldout" / (name + ".txt"), texts));
    }
  }

  void run() {
    if (of_.preset == "plain" || of_.preset == "diffusion") {
      throw std::invalid_argument("--preset: " + of_.preset + " drafts for no text");
    }
    for (const int threads : {1, 2}) {
      for_each_preset(of_, threads, largest, [&](const std::string& name, composed& of) {
        for (const float temperature : {0.0f, 0.7f, 1.0f}) {
          measure_texts(name, of, {threads, temperature});
          measure_batches(name, of, {threads, temperature});
        }
      });
    }
    for (const int threads : {1, 2}) {
      for (const char* const preset : {"dynaspec", "eagle"}) {
        if (of_.preset.empty()) { compare_shortlists(preset, threads); }
      }
    }
    const auto median_error = median(errors_);
    out_.add("standard error of a setting over the best fixed length: median",
             median(errors_of_means_), "x", at_most(0.02));
    out_.add("predicted over measured, off by: median", median_error, "", at_most(0.05));
    out_.add("predicted over measured, off by: largest", std::ranges::max(errors_), "",
             at_most(0.12));
    out_.add("as long as pays over plain decoding: worst category", worst_over_plain_, "x");
    out_.add("as long as pays over plain decoding: worst batch", worst_batch_, "x");
    out_.add("categories and batches that lose against it by more than luck",
             static_cast<double>(losing_to_plain_), "", at_most(0.0));
    out_.add("as long as pays over the best fixed length: worst setting",
             std::ranges::min(over_best_), "x", at_least(as_good_as_the_best));
    out_.add("as long as pays over the best fixed length: mean of all", mean(over_best_), "x",
             at_least(as_good_as_the_best));
    out_.add("categories that lose against it by more than luck", static_cast<double>(losing_), "",
             at_most(0.0));
    if (!of_.preset.empty()) { return; }
    for (const int t : {0, 1}) {
      const double one = best_[0][t];
      out_.add("fastest preset, decoding" + at_temperature(t) + ", 1 thread", one, "x",
               at_least(t == 0 ? 2.4 : 1.75));
      out_.add("fastest preset, decoding" + at_temperature(t) + ", 2 threads over 1",
               best_[1][t] / one, "x", at_least(0.95));
    }
  }

 private:
  static constexpr std::int32_t largest = 32;
  static constexpr std::size_t texts = 8;  ///< of a category
  static constexpr double as_good_as_plain = 0.98;
  static constexpr double as_good_as_the_best = 0.97;
  // Standard errors. Of some seven hundred categories and batches a few are as unlucky as that by
  // themselves: what seems to lose is measured once more, as long again, and all of it counts.
  static constexpr double unlucky = 3.0;
  // Of a batch: until the standard error is small.
  static constexpr std::size_t rounds = 6;
  static constexpr std::size_t most_rounds = 16;
  static constexpr double small_error = 0.01;

  static bool loses(double ratio, double error, double goal) {
    return ratio + unlucky * error < goal;
  }
  static bool loses_to_plain(const category_times& text) {
    return loses(text.auto_over_plain(), text.error_of_auto_over_plain(), as_good_as_plain);
  }

  hunch::generation_options request(float temperature, std::int32_t tokens) const {
    hunch::generation_options out;
    out.max_new_tokens = tokens;
    out.temperature = temperature;
    out.seed = 1;
    return out;
  }

  /// One request at a time: each category by itself, after short runs of its first text, as
  /// `generate` does.
  void measure_texts(const std::string& name, composed& of, const setting& at) {
    std::vector<double> speed_ups;
    double worst_plain = std::numeric_limits<double>::infinity();
    std::vector<double> over_best;
    std::vector<double> luck_of;  // the standard error of each
    generate::forecast expected;
    double measured = 0.0;
    for (std::size_t d = 0; d < texts_.size(); ++d) {
      category_times text;
      measure_category(of, texts_[d], at, text, expected);
      double error = 0.0;
      double over = text.auto_over_best(error);
      if (loses_to_plain(text) || loses(over, error, as_good_as_the_best)) {
        measure_category(of, texts_[d], at, text, expected);
        over = text.auto_over_best(error);
      }
      worst_plain = std::min(worst_plain, text.auto_over_plain());
      losing_to_plain_ += loses_to_plain(text) ? 1 : 0;
      over_best.push_back(over);
      luck_of.push_back(error);
      measured += category_times::over(text.decoding[candidates - 1], 0, 1);
      speed_ups.push_back(1.0 / category_times::over(text.decoding[candidates - 1], 0, 1));
      out_.record(name + at.words() + ", " + domains_[d] + ": over plain", text.auto_over_plain(),
                  "x");
      out_.record(name + at.words() + ", " + domains_[d] + ": over the best length",
                  over_best.back(), "x");
      out_.record(name + at.words() + ", " + domains_[d] + ": over the best length, error", error,
                  "x");
    }
    // Both are ratios of the times of all texts.
    measured = static_cast<double>(texts_.size()) / measured;
    const double error = std::abs(expected.gain() / measured - 1.0);
    const std::string row = name + at.words();
    out_.add(row + ": speed-up of decoding", mean(speed_ups), "x");
    out_.add(row + ": prices of its steps, predicted over measured", expected.gain() / measured,
             "");
    out_.add(row + ": over plain, worst category", worst_plain, "x");
    const auto categories = static_cast<double>(over_best.size());
    double squares = 0.0;
    for (const double one : luck_of) { squares += one * one; }
    const double usual = std::sqrt(squares / categories);
    out_.add(row + ": over the best length, mean", mean(over_best), "x");
    out_.add(row + ": over the best length, standard error of the mean",
             usual / std::sqrt(categories), "x");
    errors_of_means_.push_back(usual / std::sqrt(categories));
    out_.add(row + ": over the best length, worst category", std::ranges::min(over_best), "x");
    errors_.push_back(error);
    worst_over_plain_ = std::min(worst_over_plain_, worst_plain);
    over_best_.push_back(mean(over_best));
    for (std::size_t d = 0; d < over_best.size(); ++d) {
      // Of eight texts the standard error is itself a matter of luck.
      losing_ += loses(over_best[d], std::max(luck_of[d], usual), as_good_as_the_best) ? 1 : 0;
    }
    if (at.temperature == 0.0f || at.temperature == 1.0f) {
      double& best = best_[at.threads - 1][at.temperature == 0.0f ? 0 : 1];
      best = std::max(best, mean(speed_ups));
    }
  }

  void measure_category(composed& of, const prompt_list& prompts, const setting& at,
                        category_times& out, generate::forecast& expected) {
    hunch::generation_options options = request(at.temperature, 96);
    options.seed += out.whole[0].size();
    hunch::length::meter meter(of.levels());
    of.calibrate(meter, {prompts[0]}, options, 1, of.levels());
    of.warm_up(meter, {prompts[0]}, options, 1);
    hunch::length::meter unused(of.levels());
    generate::forecast nobody_asks;
    for (std::size_t number = 0; number < prompts.size(); ++number, ++options.seed) {
      const prompt_list asked{prompts[number]};
      generate::run before;
      generate::run fast[candidates];
      generate::run after;
      for (std::size_t turn = 0; turn < candidates; ++turn) {
        const std::size_t i = (turn + number) % candidates;
        if (i + 1 == candidates) {
          // What is said of drafts as long as pay is that they do not lose: right beside them.
          before = of.run_plain(asked, options, 1);
          fast[i] = of.run_metered(meter, asked, options, 1, expected);
          after = of.run_plain(asked, options, 1);
        } else {
          const std::int32_t length = std::min(lengths[i], of.levels());
          fast[i] = of.run_fixed(length, unused, asked, options, 1, nobody_asks);
        }
      }
      for (std::size_t i = 0; i < candidates; ++i) {
        const auto tokens = [](const generate::run& r) {
          return static_cast<double>(r.tokens[0].size());
        };
        const double plain = (before.whole + after.whole) / (tokens(before) + tokens(after));
        out.whole[i].push_back(fast[i].whole / tokens(fast[i]) / plain);
        out.decoding[i].push_back(0.5 * (before.rate() + after.rate()) / fast[i].rate());
      }
    }
  }

  /// Batches of all texts. One meter, as a server has it. A round takes less than a second, of
  /// which whoever shares the machine may have a tenth: their median counts, of as many as make it
  /// certain whatever it is, and all are recorded.
  void measure_batches(const std::string& name, composed& of, const setting& at) {
    if (at.temperature == 0.7f) { return; }
    hunch::length::meter meter(of.levels());
    generate::forecast nobody_asks;
    for (const std::int32_t batch : {2, 8, 32}) {
      hunch::generation_options options = request(at.temperature, batch < 16 ? 48 : 24);
      of.calibrate(meter, prompts_, options, batch, of.levels());
      of.warm_up(meter, prompts_, options, batch);
      std::vector<double> gains;
      const auto measure = [&] {
        const generate::run before = of.run_plain(prompts_, options, batch);
        const generate::run fast = of.run_metered(meter, prompts_, options, batch, nobody_asks);
        const generate::run after = of.run_plain(prompts_, options, batch);
        gains.push_back(fast.rate() / (0.5 * (before.rate() + after.rate())));
        options.seed += static_cast<std::uint64_t>(batch);
      };
      const auto seems_to_lose = [&] {
        return loses(median(gains), error_of_median(gains), as_good_as_plain);
      };
      while (gains.size() < rounds ||
             (gains.size() < most_rounds && error_of_median(gains) > small_error)) {
        measure();
      }
      if (seems_to_lose()) {
        for (std::size_t more = gains.size(); more > 0; --more) { measure(); }
      }
      losing_to_plain_ += seems_to_lose() ? 1 : 0;
      const std::string row = name + at.words() + ", batch " + std::to_string(batch);
      const double gain = median(gains);
      out_.add(row + ": over plain", gain, "x");
      for (const double one : gains) { out_.record(row + ": over plain, a round", one, "x"); }
      worst_batch_ = std::min(worst_batch_, gain);
    }
  }

  /// Decoding with routed shortlists, over that with as many of the most frequent tokens: as many
  /// as presets have. And what a level takes: a router and its choice are as much work for a small
  /// model as for a large one, and short ranges of a head are read more slowly than one long one;
  /// what more accepted tokens have to pay for.
  void compare_shortlists(const std::string& preset, int threads) {
    const std::string rows = "2400";
    const auto with = [&](std::vector<std::string> flags) {
      flags.insert(flags.end(), {"--threads", std::to_string(threads)});
      return asked_by(of_, preset, flags);
    };
    const generate::arguments routed = with({"--budget", "per-row:rows:" + rows});
    const generate::arguments fixed = with({"--selector", "frequency:" + rows});
    generate::program(routed).compose([&](composed& by_router) {
      generate::program(fixed).compose([&](composed& by_frequency) {
        for (const float temperature : {0.0f, 1.0f}) {
          compare_shortlists(preset + setting{threads, temperature}.words() + ": " + rows,
                             {&by_router, &by_frequency}, temperature);
        }
      });
    });
  }
  void compare_shortlists(const std::string& what, const std::array<composed*, 2>& both,
                          float temperature) {
    hunch::generation_options options = request(temperature, 96);
    std::array<std::unique_ptr<hunch::length::meter>, 2> meters;
    for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
      meters[which] = std::make_unique<hunch::length::meter>(both[which]->levels());
      both[which]->calibrate(*meters[which], {prompts_[0]}, options, 1, both[which]->levels());
      both[which]->warm_up(*meters[which], {prompts_[0]}, options, 1);
    }
    std::vector<double> levels[2];
    std::vector<double> tokens[2];
    for (int round = 0; round < 6; ++round, ++options.seed) {
      for (const std::vector<hunch::token>& prompt : prompts_) {
        for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
          generate::forecast nobody_asks;
          tokens[which].push_back(
              1.0 /
              both[which]->run_metered(*meters[which], {prompt}, options, 1, nobody_asks).rate());
          double seconds = 0.0;
          double drafted = 0.0;
          both[which]->run_whole({prompt}, options, 1, [&](const hunch::step_summary& step) {
            if (step.prompt_rows > 0) { return; }
            seconds += step.draft_seconds;
            drafted += static_cast<double>(step.levels);
          });
          levels[which].push_back(seconds / drafted);
        }
      }
    }
    out_.add(what + " routed rows, decoding over frequent ones", mean(tokens[1]) / mean(tokens[0]),
             "x", at_least(0.98));
    out_.add(what + " routed rows, a level over frequent ones", median_ratio(levels[0], levels[1]),
             "x");
  }

  report& out_;
  choice of_;
  std::vector<std::string> domains_;
  prompt_list prompts_;             ///< one of each category
  std::vector<prompt_list> texts_;  ///< of each
  std::vector<double> errors_;
  std::vector<double> errors_of_means_;
  std::vector<double> over_best_;  ///< of each setting
  std::int64_t losing_ = 0;        ///< categories
  std::int64_t losing_to_plain_ = 0;
  double worst_over_plain_ = std::numeric_limits<double>::infinity();
  double worst_batch_ = std::numeric_limits<double>::infinity();
  double best_[2][2] = {};  ///< [threads - 1][temperature]
};

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(
      "tune", argc, argv,
      [](bench::report& out, const bench::choice& of) { bench::suite(out, of).run(); },
      HUNCH_BENCH_MODELS, true);
}
