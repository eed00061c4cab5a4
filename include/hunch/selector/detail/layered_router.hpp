// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/selector/detail/dense_layer.hpp>
#include <hunch/selector/detail/route_clusters.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/last_arrival.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// A router of two layers for executors with teams to spare: a launch for each layer, whose strips
/// all teams share, so that weights are read once for all contexts of a depth. Of a single context
/// the last team that is done chooses the clusters; of several, a team each in a third launch.

namespace hunch::kernel {

/// The contexts that a launch routes.
struct routed_contexts {
  selector_contexts contexts;
  row_range* const* asked;  ///< [contexts.size] nullptr: there is none

  /// Calls use(first, count) for groups of them, up to the last that is there. A single context is
  /// not asked whether it is, so that nothing waits for the answer. Collective.
  template <class T, class Use>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void for_groups(T& team, const Use& use) const {
    std::int32_t end = contexts.size;
    if (end > 1) {
      row_range* const* const ranges = asked;
      end = team::largest_of_few(team, end,
                                 [=](std::int32_t i) { return ranges[i] == nullptr ? 0 : i + 1; });
    }
    HUNCH_ROLLED
    for (std::int32_t first = 0; first < end; first += detail::states_together) {
      use(first, smaller(end - first, detail::states_together));
    }
  }
};

/// The hidden layer: strip `index` for all contexts.
template <class Weight>
struct route_hidden {
  routed_contexts of;
  dense_layer<Weight> layer;
  const float* nothing;     ///< [inputs] zeros: what there is of padding
  float* hidden;            ///< [size, width] out
  const void* read_later;   ///< by the next layer, a share for each strip
  std::int64_t read_share;  ///< bytes of that

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    team::ask_for(team, static_cast<const char*>(read_later) + index * read_share, read_share);
    of.for_groups(team, [&](std::int32_t first, std::int32_t count) {
      const route_hidden& self = *this;
      layer.strip(
          team, index, count,
          [&self, first](std::int32_t s) {
            // Both are read, so that one need not wait for the other.
            const float* const state = self.of.contexts.states[first + s];
            return self.of.asked[first + s] == nullptr ? self.nothing : state;
          },
          [&self, first](std::int32_t s) { return self.hidden_of(first + s); });
    });
  }

 private:
  HUNCH_HOST_DEVICE float* hidden_of(std::int32_t i) const {
    return hidden + static_cast<std::int64_t>(i) * layer.weights.rows;
  }
};

/// The layer of scores: strip `index` for all contexts; then, by the last team, the choice.
template <class Weight, ClusterBudget B>
struct route_scores {
  routed_contexts of;
  dense_layer<Weight> layer;
  const float* hidden;  ///< [size, width]
  route_clusters<routed_ahead, B> choose;
  bool chooses;           ///< for a single context; else a launch of `choose` comes after this
  std::int32_t* arrived;  ///< workspace: 0

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    row_range* const ranges = chooses ? of.asked[0] : nullptr;  // what the choice would wait for
    of.for_groups(team, [&](std::int32_t first, std::int32_t count) {
      const route_scores& self = *this;
      layer.strip(
          team, index, count,
          [&self, first](std::int32_t s) {
            return self.hidden + static_cast<std::int64_t>(first + s) * self.layer.weights.width;
          },
          [&self, first](std::int32_t s) { return self.choose.scores_of(first + s); });
    });
    if (chooses && team::arrives_last(team, arrived, layer.strips()) && ranges != nullptr) {
      choose.choose_for(team, 0, ranges);
    }
  }
};

}  // namespace hunch::kernel

namespace hunch::selector {

/// Contexts that are routed and chosen for by a body each, by a router that is one.
template <class R, ClusterBudget B, class E>
struct routing {
  routing(const R&, E&, std::int32_t) {}

  void operator()(E& executor, const kernel::route_clusters<R, B>& choose) const {
    executor.launch(choose.contexts.size, choose);
  }
};

/// The same layer by layer, on executors that have teams to spare.
template <class Weight, ClusterBudget B, class E>
requires requires(E& e) { e.teams_at_once(hunch::detail::any_body{}); }
class routing<router::mlp<Weight>, B, E> {
 public:
  routing(const router::mlp<Weight>& router, E& executor, std::int32_t capacity)
      : nothing_(executor, static_cast<std::size_t>(router.inputs)),
        hidden_(executor,
                static_cast<std::size_t>(capacity) * static_cast<std::size_t>(router.first.rows)),
        arrived_(executor, 1) {}

  void operator()(E& executor, const kernel::route_clusters<router::mlp<Weight>, B>& choose) const {
    const kernel::routed_contexts of{choose.contexts, choose.lists.ranges};
    const kernel::route_hidden<Weight> hidden{.of = of,
                                              .layer = choose.router.hidden_layer(),
                                              .nothing = nothing_.data(),
                                              .hidden = hidden_.data(),
                                              .read_later = choose.router.second.data,
                                              .read_share = share_of(choose.router)};
    const kernel::route_scores<Weight, B> scores{.of = of,
                                                 .layer = choose.router.score_layer(),
                                                 .hidden = hidden_.data(),
                                                 .choose = choose.routed(),
                                                 .chooses = choose.contexts.size == 1,
                                                 .arrived = arrived_.data()};
    executor.launch(hidden.layer.strips(), hidden);
    executor.launch(scores.layer.strips(), scores);
    if (!scores.chooses) { executor.launch(choose.contexts.size, scores.choose); }
  }

 private:
  /// Bytes of the second layer for each strip of the first.
  static std::int64_t share_of(const router::mlp<Weight>& router) {
    return static_cast<std::int64_t>(router.second.rows) * router.second.width *
           static_cast<std::int64_t>(sizeof(Weight)) / router.hidden_layer().strips();
  }

  workspace<E, float> nothing_;         ///< [inputs]
  workspace<E, float> hidden_;          ///< [capacity, first.rows]
  workspace<E, std::int32_t> arrived_;  ///< [1]
};

}  // namespace hunch::selector
