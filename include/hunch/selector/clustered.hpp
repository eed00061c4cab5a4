// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/selector/detail/choose_clusters.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// DynaSpec: a router chooses a few clusters of the vocabulary for every context.
/// (arXiv:2510.13847) Rare tokens are in the shortlist where they are likely, and cost nothing
/// elsewhere. Lossless, as every selector.
///
/// Under `decoder` the router runs on the host, one context after the other, on weights in its
/// memory; in a resident loop on the executor, on weights in memory of that.
/// \tparam R a `Router`. \tparam B a `ClusterBudget`.
template <Router R, ClusterBudget B>
class clustered {
 public:
  /// \param layout with clusters, see `clustered_layout`. \param router that was trained for them.
  /// \throws std::invalid_argument if the layout has no clusters, more than 131,071, or another
  ///         number than the router scores; or if the budget is empty or its share not in (0, 1].
  clustered(vocab_layout layout, R router, B budget)
      : layout_(std::move(layout)), router_(router), budget_(budget) {
    if (layout_.clusters() < 1 || layout_.clusters() != router_.clusters) {
      throw std::invalid_argument(
          message({"hunch::selector::clustered: a router of ", router_.clusters,
                   " clusters and a layout of ", layout_.clusters()}));
    }
    if (layout_.clusters() >= 64 * team::list_capacity) {  // bits in a team's list
      throw std::invalid_argument(
          message({"hunch::selector::clustered: ", layout_.clusters(), " clusters"}));
    }
    check_budget();
    budget_.most = std::min(budget_.most, layout_.clusters());
    std::vector<std::int32_t> sizes(static_cast<std::size_t>(layout_.clusters()));
    for (std::size_t c = 0; c < sizes.size(); ++c) {
      sizes[c] = layout_.cluster_begin()[c + 1] - layout_.cluster_begin()[c];
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    max_rows_ = std::accumulate(sizes.begin(), sizes.begin() + budget_.most, layout_.core_rows());
    if constexpr (detail::has_rows<B>) {
      max_rows_ = std::min(max_rows_, std::max(budget_.rows, layout_.core_rows() + sizes[0]));
    }
    workspace_.resize(static_cast<std::size_t>(router_.scratch + router_.clusters));
  }

  const vocab_layout& layout() const { return layout_; }
  /// Clusters that are apart, and the core.
  std::int32_t max_ranges() const { return budget_.most + 1; }
  std::int32_t max_rows() const { return max_rows_; }
  std::int32_t context_width() const { return router_.inputs; }
  const R& router() const { return router_; }
  const B& cluster_budget() const { return budget_; }

  void select(const selector_contexts& contexts, const selector_lists& lists) {
    select(contexts, lists, [](std::int32_t, const float*) {});
  }
  /// \param use called with the scores of each context, [clusters]: use(i, scores).
  template <class Use>
  void select(const selector_contexts& contexts, const selector_lists& lists, Use&& use) {
    const kernel::choose_clusters<B> choose{layout_.cluster_begin(), layout_.clusters(), budget_};
    team::serial team;
    for (std::int32_t i = 0; i < contexts.size; ++i) {
      float* const scores = workspace_.data() + router_.scratch;
      router_(team, contexts.states[i], workspace_.data(), scores);
      use(i, static_cast<const float*>(scores));
      lists.counts[i] = choose(team, scores, contexts.depth, lists.ranges[i]);
    }
  }

 private:
  void check_budget() const {
    if (budget_.most < 1) {
      throw std::invalid_argument("hunch::selector::clustered: a budget of no clusters");
    }
    if constexpr (detail::has_share<B>) {
      if (!(budget_.share > 0 && budget_.share <= 1)) {
        throw std::invalid_argument(
            message({"hunch::selector::clustered: a budget of the share ", budget_.share}));
      }
    }
    if constexpr (detail::has_rows<B>) {
      if (budget_.rows < 1) {
        throw std::invalid_argument("hunch::selector::clustered: a budget of no rows");
      }
    }
  }

  vocab_layout layout_;
  R router_;
  B budget_;
  std::int32_t max_rows_ = 0;
  std::vector<float> workspace_;
};

}  // namespace hunch::selector
