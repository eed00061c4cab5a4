// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/selector/detail/dense_layer.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// Scores the clusters of a vocabulary for a context: a trivially copyable function object.
///
/// 1. `r.clusters` scores are written, `r.inputs` numbers of a context are read and `r.scratch` of
///    workspace are needed.
/// 2. `r(team, context, workspace, scores)` writes the scores, [clusters]: logits of a law over the
///    clusters. `context` is [inputs], `workspace` [scratch]. Collective.
///
/// Not required: that it knows anything. Any shortlist is exact.
template <class R>
concept Router = std::is_trivially_copyable_v<R> &&
    requires(const R& r, team::serial& team, const float* context, float* out) {
  { r.clusters } -> std::convertible_to<std::int32_t>;
  { r.inputs } -> std::convertible_to<std::int32_t>;
  { r.scratch } -> std::convertible_to<std::int32_t>;
  r(team, context, out, out);
};

namespace router {

/// W2 max(0, W1 x + b1) + b2: the router of DynaSpec (arXiv:2510.13847), whose x is the embedding
/// of the last token and the drafter's hidden state before it. A view of weights, in memory that
/// whoever calls it reaches: see `selector::clustered`. The same bits on every team, but that a
/// thread multiplies bytes with integers (see head/detail/integer_states.hpp).
/// \tparam Weight float, bfloat16, float16 or std::int8_t.
template <class Weight>
struct mlp {
  kernel::head_weights<Weight> first;   ///< [width, inputs]
  const float* first_bias;              ///< [width]
  kernel::head_weights<Weight> second;  ///< [clusters, width]
  const float* second_bias;             ///< [clusters]
  std::int32_t clusters = 0;
  std::int32_t inputs = 0;
  std::int32_t scratch = 0;

  /// w1 [width, inputs], b1 [width], w2 [clusters, width], b2 [clusters]: sizes are not checked.
  mlp(const kernel::head_weights<Weight>& w1, const float* b1,
      const kernel::head_weights<Weight>& w2, const float* b2)
      : first(w1),
        first_bias(b1),
        second(w2),
        second_bias(b2),
        clusters(w2.rows),
        inputs(w1.width),
        scratch(w1.rows) {}

  HUNCH_HOST_DEVICE kernel::dense_layer<Weight> hidden_layer() const {
    return {first, first_bias, true};
  }
  HUNCH_HOST_DEVICE kernel::dense_layer<Weight> score_layer() const {
    return {second, second_bias, false};
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, const float* context, float* workspace,
                                    float* scores) const {
    hidden_layer()(team, context, workspace);
    score_layer()(team, workspace, scores);
  }
};

}  // namespace router
}  // namespace hunch
