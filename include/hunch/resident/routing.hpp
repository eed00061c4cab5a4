// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/executor/executor.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/detail/choose_clusters.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/detail/write_shifts.hpp>

/// \file
/// How selectors choose inside a resident step: those that bodies can call at once, and those with
/// a router, whose layers are launched beside the draft model's pass. The weights of a router are
/// in memory of the executor.

namespace hunch::resident {

/// The scores of clusters for one context in each slot.
struct slot_scores {
  float* data = nullptr;  ///< [max_batch, clusters]
  std::int32_t clusters = 0;

  HUNCH_HOST_DEVICE float* of(std::int32_t slot) const {
    return data + static_cast<std::int64_t>(slot) * clusters;
  }
};

/// Chooses the shortlist of a slot by its scores, as ranges and as shifts of the layout's parts
/// (see `shortlist`).
template <ClusterBudget B>
struct scored_chooser {
  static constexpr bool needs_scores = true;
  slot_scores scores;
  kernel::choose_clusters<B> choose;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t operator()(T& team, std::int32_t slot,
                                                                   std::int32_t depth,
                                                                   row_range* ranges,
                                                                   std::int32_t* shifts) const {
    const std::int32_t count = choose(team, scores.of(slot), depth, ranges);
    kernel::write_shifts(team, {choose.begin, choose.clusters}, ranges, count, shifts);
    return count;
  }
};

/// Whether a chooser waits for a router.
template <class Chooser>
inline constexpr bool needs_scores = requires {
  requires Chooser::needs_scores;
};

/// Scores the context of a slot by any router.
template <Router R>
struct score_slot {
  R router;
  const std::int32_t* row;  ///< [slots] of the pass, -1: none
  context_rows contexts;
  float* workspace;  ///< [max_batch, scratch]
  slot_scores scores;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (row[slot] < 0) { return; }
    router(team, contexts.data + static_cast<std::int64_t>(row[slot]) * contexts.stride,
           workspace + static_cast<std::int64_t>(slot) * router.scratch, scores.of(slot));
  }
};

/// Scores contexts by any router, one team for each slot.
template <Router R, ResidentExecutor E>
class scoring {
 public:
  scoring(const R& router, E& executor, std::int32_t max_batch)
      : router_(router),
        workspace_(executor, size(max_batch) * size(router.scratch)),
        scores_(executor, size(max_batch) * size(router.clusters)) {}

  slot_scores scores() const { return {scores_.data(), router_.clusters}; }

  /// Launches what scores the contexts of the rows [slots] `row`.
  void operator()(E& executor, std::int32_t slots, const std::int32_t* row,
                  const context_rows& contexts) {
    executor.launch(slots, score_slot<R>{router_, row, contexts, workspace_.data(), scores()});
  }

 private:
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

  R router_;
  typename E::template resident<float> workspace_;
  typename E::template resident<float> scores_;
};

/// A layer of a router over all slots: a head of which each of them wants all rows, so that its
/// weights are read once, by all teams of a device.
template <class Weight, ResidentExecutor E>
class router_layer {
 public:
  router_layer(E& executor, const kernel::head_weights<Weight>& weights, std::int32_t max_batch)
      : weights_(weights),
        product_(executor, weights.rows, weights.width),
        out_(executor, size(max_batch) * size(weights.rows)),
        all_(executor, 1),
        lists_(executor, size(max_batch)),
        views_(executor, size(max_batch)) {
    const std::int32_t rows = weights.rows;
    const row_range range{0, rows};
    const std::vector<shortlist> lists(size(max_batch), shortlist{.ranges = all_.data(),
                                                                  .range_count = 1,
                                                                  .size = rows,
                                                                  .row_token = nullptr,
                                                                  .token_row = nullptr,
                                                                  .vocab_size = rows});
    std::vector<row_view<float>> views;
    for (std::int64_t i = 0; i < max_batch; ++i) {
      views.push_back({out_.data() + i * rows, rows});
    }
    executor.upload(all_.data(), &range, 1);
    executor.upload(lists_.data(), lists.data(), lists.size());
    executor.upload(views_.data(), views.data(), views.size());
  }

  /// [max_batch, weights.rows]
  float* out() const { return out_.data(); }

  /// out() row s = weights . row[s] of `from`, and what `finish` makes of it.
  template <class Finish>
  void operator()(E& executor, std::int32_t slots, const std::int32_t* row, const float* from,
                  std::int32_t stride, const Finish& finish) {
    product_(executor, weights_, from, stride, {slots, row, lists_.data(), views_.data()});
    executor.launch(slots, finish);
  }

 private:
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

  kernel::head_weights<Weight> weights_;
  shortlist_head<E, Weight> product_;
  typename E::template resident<float> out_;
  typename E::template resident<row_range> all_;
  typename E::template resident<shortlist> lists_;
  typename E::template resident<row_view<float>> views_;
};

/// y += bias for each slot that has a row; y = max(0, y) between two layers.
struct add_bias {
  const std::int32_t* row;  ///< [slots] -1: none
  const float* bias;        ///< [width]
  std::int32_t width;
  float* y;            ///< [max_batch, width]
  std::int32_t* next;  ///< [slots] out: where y is, for the next layer; nullptr after the last

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const bool there = row[slot] >= 0;
    if (next != nullptr && team.rank() == 0) { next[slot] = there ? slot : -1; }
    if (!there) { return; }
    float* const of = y + static_cast<std::int64_t>(slot) * width;
    const float* const b = bias;
    const float least = next != nullptr ? 0.0f : -kernel::infinity<float>;
    team.for_each(width, [=](std::int64_t i) {
      const float x = of[i] + b[i];
      of[i] = x > least ? x : least;
    });
  }
};

template <class Weight, ResidentExecutor E>
class scoring<router::mlp<Weight>, E> {
 public:
  scoring(const router::mlp<Weight>& router, E& executor, std::int32_t max_batch)
      : router_(router),
        first_(executor, router.first, max_batch),
        second_(executor, router.second, max_batch),
        hidden_row_(executor, static_cast<std::size_t>(max_batch)) {}

  slot_scores scores() const { return {second_.out(), router_.clusters}; }

  void operator()(E& executor, std::int32_t slots, const std::int32_t* row,
                  const context_rows& contexts) {
    const std::int32_t width = router_.first.rows;
    first_(executor, slots, row, contexts.data, contexts.stride,
           add_bias{.row = row,
                    .bias = router_.first_bias,
                    .width = width,
                    .y = first_.out(),
                    .next = hidden_row_.data()});
    second_(executor, slots, hidden_row_.data(), first_.out(), width,
            add_bias{.row = row,
                     .bias = router_.second_bias,
                     .width = router_.clusters,
                     .y = second_.out(),
                     .next = nullptr});
  }

 private:
  router::mlp<Weight> router_;
  router_layer<Weight, E> first_;
  router_layer<Weight, E> second_;
  typename E::template resident<std::int32_t> hidden_row_;
};

/// How a selector chooses in a resident step: `chooser()` is what bodies call. If it needs scores,
/// `score(executor, slots, row, contexts)` launches what they take.
template <class Selector, class E>
class routing {
  static_assert(ResidentSelector<Selector>,
                "hunch: a resident loop needs a selector that bodies can call, such as "
                "selector::full or selector::frequency, or selector::clustered");

 public:
  routing(const Selector& selector, E&, std::int32_t) : selector_(&selector) {}

  auto chooser() const { return selector_->chooser(); }

 private:
  const Selector* selector_;
};

template <Router R, ClusterBudget B, class E>
class routing<selector::clustered<R, B>, E> {
 public:
  routing(const selector::clustered<R, B>& selector, E& executor, std::int32_t max_batch)
      : budget_(selector.cluster_budget()),
        clusters_(selector.layout().clusters()),
        begin_(executor, static_cast<std::size_t>(clusters_) + 1),
        scoring_(selector.router(), executor, max_batch) {
    executor.upload(begin_.data(), selector.layout().cluster_begin(), begin_.size());
  }

  scored_chooser<B> chooser() const {
    return {scoring_.scores(), {begin_.data(), clusters_, budget_}};
  }
  void score(E& executor, std::int32_t slots, const std::int32_t* row,
             const context_rows& contexts) {
    scoring_(executor, slots, row, contexts);
  }

 private:
  B budget_;
  std::int32_t clusters_;
  typename E::template resident<std::int32_t> begin_;
  scoring<R, E> scoring_;
};

}  // namespace hunch::resident
