// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace generate {

/// What a run of the program measured.
struct report {
  std::string text;         ///< of the first request
  std::int64_t tokens = 0;  ///< in `text`
  double plain_rate = 0.0;  ///< tokens per second, all requests together
  struct speculative_part {
    double rate = 0.0;
    double predicted_speedup = 0.0;
    double mean_acceptance_length = 0.0;
    double draft_acceptance_rate = 0.0;
    std::vector<double> acceptance_by_position;
    double average_shortlist_rows = 0.0;
    double average_draft_length = 0.0;
    std::int64_t target_passes = 0;
    std::optional<bool> identical_to_plain;  ///< nothing where only the law is equal
  };
  std::optional<speculative_part> speculative;  ///< nothing after --plain
  double repetition_4gram = 0.0;
};

void print_table(const report& r);

/// \throws std::runtime_error naming the file if it cannot be written.
void write_json(const report& r, const std::string& path);

}  // namespace generate
