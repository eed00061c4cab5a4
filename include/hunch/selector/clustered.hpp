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
#include <hunch/selector/choose_clusters.hpp>
#include <hunch/selector/detail/layered_router.hpp>
#include <hunch/selector/detail/route_clusters.hpp>
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
/// The router runs on the executor, on weights in memory that its bodies reach.
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
  }

  const vocab_layout& layout() const { return layout_; }
  /// Clusters that are apart, and the core.
  std::int32_t max_ranges() const { return budget_.most + 1; }
  std::int32_t max_rows() const { return max_rows_; }
  std::int32_t context_width() const { return router_.inputs; }
  const R& router() const { return router_; }

  /// The clusters, and scores of them for each context.
  template <class E>
  class memory {
   public:
    memory(const clustered& of, E& executor, std::int32_t capacity)
        : begin_(executor, static_cast<std::size_t>(of.layout().clusters()) + 1),
          workspace_(executor, values(capacity, of.router().scratch)),
          scores_(executor, values(capacity, of.router().clusters)),
          routing_(of.router(), executor, capacity) {
      write_buffer(executor, begin_.data(), of.layout().cluster_begin(), begin_.size());
    }

    const std::int32_t* begin() const { return begin_.data(); }
    float* workspace() const { return workspace_.data(); }  ///< [capacity, scratch]
    float* scores() const { return scores_.data(); }        ///< [capacity, clusters]
    const selector::routing<R, B, E>& routing() const { return routing_; }

   private:
    template <class T>
    using buffer = typename E::template buffer<T>;
    static std::size_t values(std::int32_t capacity, std::int32_t each) {
      return static_cast<std::size_t>(capacity) * static_cast<std::size_t>(each);
    }

    buffer<std::int32_t> begin_;
    buffer<float> workspace_;
    buffer<float> scores_;
    selector::routing<R, B, E> routing_;
  };

  template <class E>
  void select(memory<E>& m, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) const {
    select(m, executor, contexts, lists, nullptr);
  }
  /// \param scores [capacity, clusters] out: what the router says of each context; may be nullptr.
  template <class E>
  void select(memory<E>& m, E& executor, const selector_contexts& contexts,
              const selector_lists& lists, float* scores) const {
    m.routing()(executor,
                kernel::route_clusters<R, B>{.router = router_,
                                             .choose = {m.begin(), layout_.clusters(), budget_},
                                             .contexts = contexts,
                                             .lists = lists,
                                             .workspace = m.workspace(),
                                             .scores = m.scores(),
                                             .told = scores});
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
};

}  // namespace hunch::selector
