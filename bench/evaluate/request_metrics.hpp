// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "json.hpp"

namespace bench::evaluate {

/// What became of the drafts of one request, step by step, by the names that vLLM gives it in
/// `metrics.speculative_decoding` of a response (`--per-request-spec-decode-metrics summary`). A
/// draft's length is its levels there; a tree has more tokens than levels.
class request_metrics {
 public:
  /// \param levels  that a draft can have.
  explicit request_metrics(std::int32_t levels) : accepted_(static_cast<std::size_t>(levels) + 1) {}

  /// A step that drafted `tokens` in so many levels, of which `accepted` were kept. Steps without a
  /// draft are not steps of speculation.
  void observe(std::int32_t levels, std::int64_t tokens, std::int32_t accepted) {
    ++all_steps_;
    if (levels == 0) { return; }
    drafted_ += tokens;
    const auto kept = static_cast<std::size_t>(accepted);
    ++accepted_.at(kept);
    auto& of_length = by_length_[levels];
    of_length.resize(static_cast<std::size_t>(levels) + 1);
    ++of_length.at(kept);
  }

  request_metrics& operator+=(const request_metrics& other) {
    all_steps_ += other.all_steps_;
    drafted_ += other.drafted_;
    add(accepted_, other.accepted_);
    for (const auto& [length, counts] : other.by_length_) { add(by_length_[length], counts); }
    return *this;
  }

  std::int32_t levels() const { return static_cast<std::int32_t>(accepted_.size()) - 1; }
  /// 1 + accepted drafts per step, steps without a draft included.
  double tokens_per_step() const {
    return 1.0 + static_cast<double>(accepted()) / static_cast<double>(all_steps_);
  }
  /// Steps that drafted level i + 1 and accepted the one before.
  std::int64_t tested_at(std::int32_t i) const { return counted(i, i); }
  /// The share of these that accepted level i + 1; NaN if there are none.
  double acceptance_at(std::int32_t i) const { return ratio(counted(i, i + 1), tested_at(i)); }

  /// The object as vLLM writes it. A mean of nothing is null.
  std::string json() const {
    std::string by_length;
    for (const auto& [length, counts] : by_length_) {
      by_length += (by_length.empty() ? "\"" : ", \"") + std::to_string(length) +
                   "\": " + json_array(counts);
    }
    return "{\"mean_acceptance_length\": " + json_number(1.0 + ratio(accepted(), steps())) +
           ", \"draft_acceptance_rate\": " + json_number(ratio(accepted(), drafted_)) +
           ", \"acceptance_histogram\": " + json_array(accepted_) +
           ", \"acceptance_histogram_by_draft_length\": {" + by_length + "}" +
           ", \"num_spec_steps\": " + std::to_string(steps()) +
           ", \"num_accepted_draft_tokens\": " + std::to_string(accepted()) +
           ", \"num_draft_tokens\": " + std::to_string(drafted_) +
           ", \"num_spec_tokens\": " + std::to_string(levels()) + "}";
  }

 private:
  using counts = std::vector<std::int64_t>;

  static void add(counts& to, const counts& from) {
    to.resize(std::max(to.size(), from.size()));
    for (std::size_t i = 0; i < from.size(); ++i) { to[i] += from[i]; }
  }
  static double ratio(std::int64_t a, std::int64_t b) {
    return b == 0 ? std::numeric_limits<double>::quiet_NaN()
                  : static_cast<double>(a) / static_cast<double>(b);
  }
  /// Steps with drafts of more than `i` levels that accepted `least` at least.
  std::int64_t counted(std::int32_t i, std::int32_t least) const {
    std::int64_t sum = 0;
    for (auto of = by_length_.upper_bound(i); of != by_length_.end(); ++of) {
      sum += std::accumulate(of->second.begin() + least, of->second.end(), std::int64_t{0});
    }
    return sum;
  }
  static std::string json_array(const counts& values) {
    std::string out = "[";
    for (const std::int64_t v : values) { out += (out == "[" ? "" : ", ") + std::to_string(v); }
    return out + "]";
  }
  std::int64_t steps() const {
    return std::accumulate(accepted_.begin(), accepted_.end(), std::int64_t{0});
  }
  std::int64_t accepted() const {
    std::int64_t sum = 0;
    for (std::size_t i = 1; i < accepted_.size(); ++i) {
      sum += static_cast<std::int64_t>(i) * accepted_[i];
    }
    return sum;
  }

  std::int64_t all_steps_ = 0;
  std::int64_t drafted_ = 0;
  counts accepted_;                           ///< [levels + 1] steps by accepted drafts
  std::map<std::int32_t, counts> by_length_;  ///< the same by the levels of the draft
};

}  // namespace bench::evaluate
