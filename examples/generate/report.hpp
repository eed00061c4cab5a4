// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <hunch/core/types.hpp>
#include <nlohmann/json_fwd.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// What a run of the program measured.
struct report {
  std::string preset;             ///< empty if the composition is one of the user's own
  std::string composition;        ///< in words
  std::string text;               ///< of the first request
  std::vector<hunch::token> ids;  ///< of `text`
  double plain_rate = 0.0;        ///< tokens per second, all requests together
  struct speculative_part {
    double rate = 0.0;
    std::string draft_length;  ///< as `--draft-length` takes it, to write the same text again
    bool length_was_measured = false;  ///< not given
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

/// Prints what is composed. \throws std::runtime_error if the output cannot be written.
void announce(const arguments& a);

/// A rate of nothing is shown as a dash.
void print_table(const report& r);

/// \throws std::runtime_error naming the file if it cannot be written.
void write_json(const report& r, const std::string& path);
void write_json(const nlohmann::ordered_json& j, const std::string& path);

}  // namespace generate
