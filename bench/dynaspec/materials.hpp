// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include <engine/model.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>

#include "shortlists.hpp"

namespace bench::dynaspec {

/// What the paper's columns are made of: a ranking of tokens, clusters without a core, and a router
/// that reads what is known before the drafter's pass.
class materials {
 public:
  materials(const std::filesystem::path& models, const engine::model& target)
      : ranked_(by_frequency_alone(
            hunch::load_layout(models / "frequency.safetensors", target.made_for()))),
        clusters_(hunch::load_layout(models / "paper" / "layout.safetensors", target.made_for())),
        router_(hunch::router::weights::load(models / "paper" / "router.safetensors", clusters_,
                                             target.made_for())) {}

  std::int32_t vocab() const { return clusters_.vocab_size(); }
  std::int32_t clusters() const { return clusters_.clusters(); }

  /// \param rows at each depth.
  template <hunch::Budget B>
  hunch::selector::frequency<B> most_frequent(B rows) const {
    return {ranked_, rows};
  }
  /// \param clusters at each depth.
  template <hunch::ClusterBudget B>
  auto routed(B clusters) const {
    return hunch::selector::clustered{clusters_, router_.view(), clusters};
  }

 private:
  hunch::vocab_layout ranked_;
  hunch::vocab_layout clusters_;
  hunch::router::quantised router_;
};

/// The k of `budget::position_aware{k}` whose mean over the first `levels` depths is the nearest to
/// `rows` from above.
inline std::int32_t position_aware_for(double rows, std::int32_t levels, std::int32_t most) {
  std::int32_t k = 1;
  const auto mean = [&] {
    const hunch::budget::position_aware<> budget{k};
    double sum = 0.0;
    for (std::int32_t d = 0; d < levels; ++d) { sum += budget.at(d); }
    return sum / levels;
  };
  while (k < most && mean() < rows) { ++k; }
  return k;
}

}  // namespace bench::dynaspec
