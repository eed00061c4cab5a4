// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <command_line/run.hpp>
#include <generate/median.hpp>

#include "json.hpp"

/// \file
/// What every suite shares: interleaved timing, the table, the JSON file.

namespace bench {

using generate::median;

/// Seconds of every candidate in every round: [candidate][round].
using timings = std::vector<std::vector<double>>;

/// In which state a timed run finds the caches. `warm`: the candidate has just run a few times, so
/// that what it reads is as deep in the caches as its size allows. Once is not enough: a
/// last-level cache may keep only what has been asked for twice.
enum class memory { as_left, warm };

/// Who begins a round. `same`: always the first. `rotating`: another one each time, so that none
/// always finds what the same other has left: for candidates that hardly differ.
enum class turns { same, rotating };

/// Times the candidates in turn, `rounds` times, after one round that is not counted. Taking turns
/// lets a noisy neighbour hit all of them alike, so that ratios within a round are what to report.
inline timings interleave(int rounds, memory state,
                          const std::vector<std::function<void()>>& candidates,
                          turns order = turns::same) {
  const int untimed = state == memory::warm ? 4 : 0;
  timings out(candidates.size());
  for (int round = -1; round < rounds; ++round) {
    const std::size_t first = order == turns::same ? 0 : static_cast<std::size_t>(round + 1);
    for (std::size_t turn = 0; turn < candidates.size(); ++turn) {
      const std::size_t i = (first + turn) % candidates.size();
      for (int run = 0; run < untimed; ++run) { candidates[i](); }
      const auto start = std::chrono::steady_clock::now();
      candidates[i]();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (round >= 0) { out[i].push_back(elapsed.count()); }
    }
  }
  return out;
}

inline double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// ", T = 1"
inline std::string at_temperature(int t) { return ", T = " + std::to_string(t); }

/// The median over rounds of a[round] / b[round].
inline double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) { ratios.push_back(a[i] / b[i]); }
  return median(ratios);
}

struct goal {
  enum class sense { at_least, at_most } direction;
  double value;

  bool met_by(double v) const { return direction == sense::at_least ? v >= value : v <= value; }
};

inline goal at_least(double value) { return {goal::sense::at_least, value}; }
inline goal at_most(double value) { return {goal::sense::at_most, value}; }

/// The rows of a suite, printed as they come and written as JSON at the end.
class report {
 public:
  report() { std::printf("%-64s %12s %-8s %-10s %s\n", "name", "value", "unit", "goal", "met"); }

  void add(const std::string& name, double value, const std::string& unit,
           std::optional<goal> wanted = std::nullopt) {
    std::string text;
    if (wanted) {
      char buffer[32];
      std::snprintf(buffer, sizeof buffer, "%s %.3g",
                    wanted->direction == goal::sense::at_least ? ">=" : "<=", wanted->value);
      text = buffer;
    }
    std::printf("%-64s %12.4g %-8s %-10s %s\n", name.c_str(), value, unit.c_str(), text.c_str(),
                !wanted                 ? ""
                : wanted->met_by(value) ? "yes"
                                        : "NO");
    std::fflush(stdout);
    keep(name, value, unit, wanted);
  }

  /// A row that is not printed: one of many, that a table of its own shows.
  void record(const std::string& name, double value, const std::string& unit) {
    keep(name, value, unit, std::nullopt);
  }

  /// A row that was not measured, and why.
  void not_run(const std::string& name, const std::string& why) {
    std::printf("%-64s %12s %s\n", name.c_str(), "not run:", why.c_str());
    std::fflush(stdout);
    rows_.push_back("{\"name\": " + json_string(name) +
                    ", \"value\": null, \"unit\": \"\", \"goal\": null, \"met\": null, "
                    "\"not_run\": " +
                    json_string(why) + "}");
  }

  /// Adds to a list beside the rows, for what is no number. \param element  as JSON
  void list(const std::string& name, const std::string& element) {
    const auto known = std::ranges::find(lists_, name, [](const json_list& l) { return l.first; });
    auto& elements = known == lists_.end() ? lists_.emplace_back(name, 0).second : known->second;
    elements.push_back(element);
  }

  /// All rows so far, and the lists beside them.
  std::string json() const {
    std::string out = "{\"rows\": " + array_of(rows_);
    for (const auto& [name, elements] : lists_) {
      out += ",\n" + json_string(name) + ": " + array_of(elements);
    }
    return out + "}\n";
  }

 private:
  using json_list = std::pair<std::string, std::vector<std::string>>;

  static std::string array_of(const std::vector<std::string>& elements) {
    std::string out = "[";
    for (std::size_t i = 0; i < elements.size(); ++i) {
      out += (i == 0 ? "\n  " : ",\n  ") + elements[i];
    }
    return out + "\n]";
  }
  void keep(const std::string& name, double value, const std::string& unit,
            std::optional<goal> wanted) {
    rows_.push_back("{\"name\": " + json_string(name) + ", \"value\": " + json_number(value) +
                    ", \"unit\": " + json_string(unit) + ", \"goal\": " +
                    (wanted ? json_number(wanted->value) : "null") + ", \"met\": " +
                    (!wanted                 ? "null"
                     : wanted->met_by(value) ? "true"
                                             : "false") +
                    "}");
  }

  std::vector<std::string> rows_;  ///< as JSON
  std::vector<json_list> lists_;
};

/// Which models a suite is of.
struct choice {
  std::filesystem::path models;  ///< a folder laid out as the shipped ones are
  std::string preset;  ///< the only one of those that a suite goes through; a name or a file
  std::vector<std::string> flags;  ///< of `generate`, in place of what presets say
};

/// What `main` of a suite returns that measures by measure(report), or measure(report, choice): 0
/// unless that throws, or the report could not be written. Reads `--json FILE` from the command
/// line, and what models are meant.
/// \param models those that are shipped; empty: none are asked for.
/// \param presets whether the suite goes through presets.
template <class Measure>
int run(const char* suite, int argc, char** argv, const Measure& measure,
        const std::filesystem::path& models = {}, bool presets = false) {
  return command_line::run(suite, argc, argv, [&](const std::vector<std::string>& words) {
    std::string file, folder, model, draft;
    choice of;
    command_line::flags flags(suite, "a suite of benchmarks");
    flags.add("--json", "FILE", "writes the rows as JSON too", file);
    if (!models.empty()) {
      flags.add("--models", "DIR", "models, laid out as the shipped ones", folder);
    }
    if (presets) {
      flags.add("--preset", "NAME|FILE", "one preset of `generate` instead of all", of.preset);
      flags.add("--model", "DIR", "the target, in place of a preset's", model);
      flags.add("--draft", "DIR", "what drafts for it, in place of a preset's", draft);
    }
    flags.parse(words);
    if (!file.empty()) { command_line::check_writable("--json", file); }
    of.models = folder.empty() ? models : std::filesystem::path(folder);
    if (!model.empty()) { of.flags.insert(of.flags.end(), {"--model", model}); }
    if (!draft.empty()) { of.flags.insert(of.flags.end(), {"--draft", draft}); }
    report out;
    if constexpr (std::is_invocable_v<Measure, report&, const choice&>) {
      measure(out, of);
    } else {
      measure(out);
    }
    if (!file.empty()) { command_line::write_file("--json", file, out.json()); }
  });
}

}  // namespace bench
