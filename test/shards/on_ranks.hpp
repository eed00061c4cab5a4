// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hunch/collective/none.hpp>
#include <hunch/collective/threads.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/executor/sharded.hpp>
#include <hunch/model/rows.hpp>

namespace hunch::test {

/// What the ranks of a test have come to: each its own error, or none.
struct rank_ends {
  std::vector<std::string> what;  ///< [ranks]

  bool all_went_well() const {
    for (const std::string& of : what) {
      if (!of.empty()) { return false; }
    }
    return true;
  }
};

/// Runs work(collective) on as many threads as there are ranks.
template <class Work>
rank_ends on_ranks(std::int32_t ranks, const Work& work,
                   std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  collective::threads::group group(ranks, timeout);
  rank_ends ends;
  ends.what.resize(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        collective::threads mine(group, r);
        work(mine);
      } catch (const std::exception& e) { ends.what[static_cast<std::size_t>(r)] = e.what(); }
    });
  }
  for (std::thread& t : threads) { t.join(); }
  return ends;
}

/// Where the shards of a vocabulary begin and end.
using shard_bounds = std::vector<std::int32_t>;  ///< [ranks + 1]

template <Collective C>
vocab_shards shards_of(C& c, const shard_bounds& bounds) {
  const auto r = static_cast<std::size_t>(c.rank());
  return vocab_shards(c, bounds[r], bounds[r + 1], bounds.back());
}

/// Rows of which a rank has what it verifies; the rest is no number, and a sum over it is none.
template <class Real>
class held_rows {
 public:
  held_rows(const std::vector<std::vector<Real>>& whole, const vocab_shards& shards)
      : rows_(whole) {
    const team::element_range held = shards.tiles().held();
    for (std::vector<Real>& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (!held.contains(static_cast<std::int64_t>(i))) {
          row[i] = to_logit<Real>(std::numeric_limits<real_of<Real>>::quiet_NaN());
        }
      }
    }
  }

  row_view<Real> operator[](std::int32_t i) {
    std::vector<Real>& row = rows_[static_cast<std::size_t>(i)];
    return {row.data(), static_cast<std::int32_t>(row.size())};
  }
  std::int32_t count() const { return static_cast<std::int32_t>(rows_.size()); }

 private:
  std::vector<std::vector<Real>> rows_;
};

}  // namespace hunch::test
