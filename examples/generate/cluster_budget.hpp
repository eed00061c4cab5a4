// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <hunch/core/config.hpp>
#include <hunch/vocab/budget.hpp>

namespace generate {

/// Any of the library's budgets for clusters, as a value: one type of decoder serves all of them.
struct cluster_budget {
  std::int32_t most = std::numeric_limits<std::int32_t>::max();
  float share = 1.0f;
  std::int32_t rows = std::numeric_limits<std::int32_t>::max();
  bool ranks_per_row = false;
  bool is_position_aware = false;

  HUNCH_HOST_DEVICE std::int32_t at(std::int32_t depth) const { return limit(most, depth); }
  HUNCH_HOST_DEVICE std::int32_t rows_at(std::int32_t depth) const { return limit(rows, depth); }

 private:
  HUNCH_HOST_DEVICE std::int32_t limit(std::int32_t k, std::int32_t depth) const {
    return is_position_aware ? hunch::budget::position_aware<>{k}.at(depth) : k;
  }
};

static_assert(hunch::ClusterBudget<cluster_budget>);

/// Rows of a shortlist: a sixth of the vocabulary.
inline std::int32_t default_rows(std::int32_t vocab_size) {
  return vocab_size / 6 > 1 ? vocab_size / 6 : 1;
}

/// As many, the best per row first.
inline cluster_budget default_budget(std::int32_t vocab_size) {
  cluster_budget out;
  out.rows = default_rows(vocab_size);
  out.ranks_per_row = true;
  return out;
}

/// Reads `fixed:K`, `mass:P[:K]` or `rows:R[:K]`, after any of `per-row:` and `position-aware:`;
/// `position-aware:K` is that of `fixed:K`.
/// \throws command_line::usage_error naming the flag.
cluster_budget parse_budget(const std::string& flag, const std::string& text);

}  // namespace generate
