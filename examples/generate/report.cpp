// SPDX-License-Identifier: Apache-2.0
#include "generate/report.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace generate {

void print_table(const report& r) {
  std::printf("\n%-34s %12s", "", "plain");
  if (!r.speculative) {
    std::printf("\n%-34s %12.1f\n", "tokens per second", r.plain_rate);
    std::printf("%-34s %11.1f%%\n", "repeated 4-grams", 100.0 * r.repetition_4gram);
    return;
  }
  const report::speculative_part& s = *r.speculative;
  std::printf(" %12s\n", "speculative");
  std::printf("%-34s %12.1f %12.1f\n", "tokens per second", r.plain_rate, s.rate);
  std::printf("%-34s %12s %11.2fx\n", "speed-up, measured", "", s.rate / r.plain_rate);
  std::printf("%-34s %12s %11.2fx\n", "speed-up, predicted", "", s.predicted_speedup);
  std::printf("%-34s %12.2f %12.2f\n", "mean acceptance length", 1.0, s.mean_acceptance_length);
  std::printf("%-34s %12s %12.2f\n", "mean draft length", "", s.average_draft_length);
  std::printf("%-34s %12s %11.1f%%\n", "draft tokens accepted", "",
              100.0 * s.draft_acceptance_rate);
  std::printf("%-34s %12s ", "acceptance by position", "");
  for (const double a : s.acceptance_by_position) { std::printf(" %.2f", a); }
  std::printf("\n%-34s %12s %12.0f\n", "shortlist rows", "", s.average_shortlist_rows);
  std::printf("%-34s %12s %12lld\n", "target passes", "", static_cast<long long>(s.target_passes));
  std::printf("%-34s %12s %11.1f%%\n", "repeated 4-grams", "", 100.0 * r.repetition_4gram);
  std::printf("%-34s %12s %12s\n", "text identical to plain decoding", "",
              !s.identical_to_plain   ? "law equal"
              : *s.identical_to_plain ? "yes"
                                      : "NO");
}

void write_json(const report& r, const std::string& path) {
  nlohmann::ordered_json j;
  j["text"] = r.text;
  j["tokens"] = r.tokens;
  j["plain"]["tokens_per_second"] = r.plain_rate;
  if (r.speculative) {
    const report::speculative_part& s = *r.speculative;
    j["speculative"]["tokens_per_second"] = s.rate;
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

  std::ofstream out(path);
  // Text may end inside a character when the length is reached.
  out << j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  if (!out) { throw std::runtime_error("--json: cannot write '" + path + "'"); }
}

}  // namespace generate
