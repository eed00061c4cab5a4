// SPDX-License-Identifier: Apache-2.0
#include "generate/report.hpp"

#include <cmath>
#include <cstdio>

#include <command_line/files.hpp>
#include <nlohmann/json.hpp>

namespace generate {

namespace {

std::string figure(const char* format, double value) {
  if (!std::isfinite(value)) { return "-"; }
  char out[32];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

void row(const char* name, const std::string& plain, const std::string& speculative) {
  std::printf("%-34s %12s %12s\n", name, plain.c_str(), speculative.c_str());
}

}  // namespace

void announce(const arguments& a) {
  std::printf("%s%s\n\n", a.preset.empty() ? "" : (a.preset + ": ").c_str(),
              composition(a).c_str());
  command_line::flush_output();
}

void print_table(const report& r) {
  const std::string repeated = figure("%.1f%%", 100.0 * r.repetition_4gram);
  std::printf("\n");
  if (!r.speculative) {
    row("", "plain", "");
    row("tokens per second", figure("%.1f", r.plain_rate), "");
    row("repeated 4-grams", repeated, "");
    return;
  }
  const report::speculative_part& s = *r.speculative;
  row("", "plain", "speculative");
  row("tokens per second", figure("%.1f", r.plain_rate), figure("%.1f", s.rate));
  row("speed-up, measured", "", figure("%.2fx", s.rate / r.plain_rate));
  row("speed-up, predicted", "", figure("%.2fx", s.predicted_speedup));
  row("mean acceptance length", "1.00", figure("%.2f", s.mean_acceptance_length));
  row("mean draft length", "", figure("%.2f", s.average_draft_length));
  row("draft tokens accepted", "", figure("%.1f%%", 100.0 * s.draft_acceptance_rate));
  std::printf("%-34s %12s ", "acceptance by position", "");
  for (const double a : s.acceptance_by_position) { std::printf(" %.2f", a); }
  std::printf("\n");
  row("shortlist rows", "", figure("%.0f", s.average_shortlist_rows));
  row("target passes", "", std::to_string(s.target_passes));
  row("repeated 4-grams", "", repeated);
  row("text identical to plain decoding", "",
      !s.identical_to_plain   ? "law equal"
      : *s.identical_to_plain ? "yes"
                              : "NO");
  if (s.length_was_measured) {
    std::printf("\nlevels drafted in each step; to have them again:\n--draft-length %s\n",
                s.draft_length.c_str());
  }
}

void write_json(const report& r, const std::string& path) {
  nlohmann::ordered_json j;
  j["preset"] = r.preset.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(r.preset);
  j["composition"] = r.composition;
  j["text"] = r.text;
  j["tokens"] = r.ids.size();
  j["ids"] = r.ids;
  j["plain"]["tokens_per_second"] = r.plain_rate;
  if (r.speculative) {
    const report::speculative_part& s = *r.speculative;
    j["speculative"]["tokens_per_second"] = s.rate;
    j["draft_length"] = s.draft_length;
    j["speedup"] = s.rate / r.plain_rate;
    j["predicted_speedup"] = s.predicted_speedup;
    j["mean_acceptance_length"] = s.mean_acceptance_length;
    j["draft_acceptance_rate"] = s.draft_acceptance_rate;
    j["acceptance_by_position"] = s.acceptance_by_position;
    j["average_shortlist_rows"] = s.average_shortlist_rows;
    j["average_draft_length"] = s.average_draft_length;
    j["target_passes"] = s.target_passes;
    j["identical_to_plain"] =
        s.identical_to_plain ? nlohmann::ordered_json(*s.identical_to_plain) : nullptr;
  }
  j["repetition_4gram"] = r.repetition_4gram;

  write_json(j, path);
}

void write_json(const nlohmann::ordered_json& j, const std::string& path) {
  // Text may end inside a character when the length is reached.
  command_line::write_file(
      "--json", path,
      j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace generate
