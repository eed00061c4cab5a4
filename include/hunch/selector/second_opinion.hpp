// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <hunch/model/rows.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/detail/weigh_opinions.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// A clustered selector whose router also weighs the drafter's choice: of the mass that a draft law
/// gives to the clusters of a shortlist, the share `weight` is divided among them as the router
/// would, the rest as the drafter does. Within a cluster, and in the core, the drafter decides. A
/// router learns from the target, and may know of some contexts what the drafter does not.
///
/// Draft logits are changed so that this holds at temperature 1. Lossless: any draft
/// law is.
/// \tparam R a `Router`; \tparam B a `ClusterBudget`.
template <Router R, ClusterBudget B>
class second_opinion {
 public:
  /// \param weight in [0, 1]; 0: the drafter alone.
  /// \throws std::invalid_argument for a weight outside of that.
  second_opinion(clustered<R, B> selector, double weight)
      : selector_(std::move(selector)), weight_(weight) {
    if (!(weight >= 0.0 && weight <= 1.0)) {
      throw std::invalid_argument("hunch::selector::second_opinion: a weight outside of [0, 1]");
    }
  }

  const vocab_layout& layout() const { return selector_.layout(); }
  std::int32_t max_ranges() const { return selector_.max_ranges(); }
  std::int32_t max_rows() const { return selector_.max_rows(); }
  std::int32_t context_width() const { return selector_.context_width(); }

  /// What the router said of each context, and where the clusters of its shortlist lie.
  template <class E>
  class memory {
   public:
    memory(const second_opinion& of, E& executor, std::int32_t capacity)
        : inner(of.selector_, executor, capacity),
          scores_(executor, values(capacity, of.layout().clusters())),
          parts_(executor, values(capacity, of.max_ranges())) {}

    typename clustered<R, B>::template memory<E> inner;
    float* scores() const { return scores_.data(); }               ///< [capacity, clusters]
    kernel::opinion_part* parts() const { return parts_.data(); }  ///< [capacity, max_ranges]

   private:
    static std::size_t values(std::int32_t capacity, std::int32_t each) {
      return static_cast<std::size_t>(capacity) * static_cast<std::size_t>(each);
    }

    typename E::template buffer<float> scores_;
    typename E::template buffer<kernel::opinion_part> parts_;
  };

  template <class E>
  void select(memory<E>& m, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) const {
    selector_.select(m.inner, executor, contexts, lists, m.scores());
  }

  /// Changes the logits of the rows that the last `select` has chosen lists for, in their order.
  template <class Real, class E>
  void advise(memory<E>& m, E& executor, const head_rows<Real>& rows) const {
    executor.launch(rows.size, kernel::weigh_opinions<Real>{.rows = rows,
                                                            .weight = weight_,
                                                            .begin = m.inner.begin(),
                                                            .clusters = layout().clusters(),
                                                            .scores = m.scores(),
                                                            .parts = m.parts(),
                                                            .max_parts = max_ranges()});
  }

 private:
  clustered<R, B> selector_;
  double weight_;
};

}  // namespace hunch::selector
