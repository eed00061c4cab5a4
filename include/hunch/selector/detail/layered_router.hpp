// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// A router of two layers for executors with teams to spare: a product of all contexts of a depth
/// with a layer reads its weights once, by all teams.

namespace hunch::selector {

/// Copies context `i` to a row of its own.
struct gather_contexts {
  selector_contexts contexts;
  row_range* const* asked;  ///< [size] nullptr: there is none
  std::int32_t width;
  float* to;          ///< [size, width] out
  std::int32_t* row;  ///< [size] out: i, or -1

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const bool there = asked[i] != nullptr;
    if (team.rank() == 0) { row[i] = there ? i : -1; }
    if (!there) { return; }
    const float* const from = contexts.states[i];
    float* const of = to + static_cast<std::int64_t>(i) * width;
    team.for_each(width, [=](std::int64_t n) { of[n] = from[n]; });
  }
};

/// y += bias for each context that is there, and y = max(0, y) between two layers.
struct add_bias {
  const std::int32_t* row;  ///< [size] -1: there is none
  const float* bias;        ///< [width]
  std::int32_t width;
  bool rectified;
  float* y;  ///< [size, width]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    if (row[i] < 0) { return; }
    float* const of = y + static_cast<std::int64_t>(i) * width;
    const float* const b = bias;
    const float least = rectified ? 0.0f : -kernel::infinity<float>;
    team.for_each(width, [=](std::int64_t n) {
      const float x = of[n] + b[n];
      of[n] = x > least ? x : least;
    });
  }
};

/// A layer over all contexts: a head of which each of them wants all rows.
template <class Weight, Executor E>
class router_layer {
 public:
  /// \param out [capacity, weights.rows]
  router_layer(E& executor, const kernel::head_weights<Weight>& weights, std::int32_t capacity,
               float* out)
      : weights_(weights),
        product_(executor, weights.rows, weights.width),
        all_(executor, 1),
        lists_(executor, static_cast<std::size_t>(capacity)),
        views_(executor, static_cast<std::size_t>(capacity)) {
    const std::int32_t rows = weights.rows;
    const row_range range{0, rows};
    const std::vector<shortlist> lists(lists_.size(), shortlist{.ranges = all_.data(),
                                                                .range_count = 1,
                                                                .size = rows,
                                                                .row_token = nullptr,
                                                                .token_row = nullptr,
                                                                .vocab_size = rows});
    std::vector<row_view<float>> views;
    for (std::int64_t i = 0; i < capacity; ++i) { views.push_back({out + i * rows, rows}); }
    write_buffer(executor, all_.data(), &range, 1);
    write_buffer(executor, lists_.data(), lists.data(), lists.size());
    write_buffer(executor, views_.data(), views.data(), views.size());
  }

  /// Row i of `out` = weights . row i of `from`, for i < size with row[i] >= 0.
  void operator()(E& executor, std::int32_t size, const std::int32_t* row, const float* from) {
    product_(executor, weights_, from, weights_.width, {size, row, lists_.data(), views_.data()});
  }

 private:
  kernel::head_weights<Weight> weights_;
  shortlist_head<E, Weight> product_;
  workspace<E, row_range> all_;
  workspace<E, shortlist> lists_;
  workspace<E, row_view<float>> views_;
};

/// Scores clusters in front of the body that chooses them: nothing, unless R has layers and E has
/// teams to spare.
template <class R, class E>
struct routing_ahead {
  using router_type = R;

  routing_ahead(const R&, E&, std::int32_t, float*) {}
  void operator()(E&, const R&, const selector_contexts&, const selector_lists&) {}
  static const R& left(const R& router) { return router; }
};

/// The router that is left where the scores are there.
struct routed_ahead {
  std::int32_t clusters = 0;
  std::int32_t inputs = 0;
  std::int32_t scratch = 0;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T&, const float*, float*, float*) const {}
};

template <class Weight, class E>
requires requires(E& e) { e.teams_at_once(hunch::detail::any_body{}); }
struct routing_ahead<router::mlp<Weight>, E> {
  using router_type = routed_ahead;

  routing_ahead(const router::mlp<Weight>& router, E& executor, std::int32_t capacity,
                float* scores)
      : contexts(executor, values(capacity, router.inputs)),
        row(executor, values(capacity, 1)),
        hidden(executor, values(capacity, router.first.rows)),
        first(executor, router.first, capacity, hidden.data()),
        second(executor, router.second, capacity, scores),
        out(scores) {}

  void operator()(E& executor, const router::mlp<Weight>& router, const selector_contexts& of,
                  const selector_lists& lists) {
    executor.launch(of.size,
                    gather_contexts{of, lists.ranges, router.inputs, contexts.data(), row.data()});
    first(executor, of.size, row.data(), contexts.data());
    executor.launch(
        of.size, add_bias{row.data(), router.first_bias, router.first.rows, true, hidden.data()});
    second(executor, of.size, row.data(), hidden.data());
    executor.launch(of.size, add_bias{row.data(), router.second_bias, router.clusters, false, out});
  }
  static routed_ahead left(const router::mlp<Weight>& router) {
    return {router.clusters, router.inputs, 0};
  }

  static std::size_t values(std::int32_t capacity, std::int32_t each) {
    return static_cast<std::size_t>(capacity) * static_cast<std::size_t>(each);
  }

  workspace<E, float> contexts;    ///< [capacity, inputs]
  workspace<E, std::int32_t> row;  ///< [capacity]
  workspace<E, float> hidden;      ///< [capacity, first.rows]
  router_layer<Weight, E> first;
  router_layer<Weight, E> second;
  float* out;
};

}  // namespace hunch::selector
