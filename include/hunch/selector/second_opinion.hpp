// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/model/rows.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// A clustered selector whose router also weighs the drafter's choice: of the mass that a draft law
/// gives to the clusters of a shortlist, the share `weight` is divided among them as the router
/// would, the rest as the drafter does. Within a cluster, and in the core, the drafter decides. A
/// router learns from the target, and may know of some contexts what the drafter does not.
///
/// Draft logits are changed, on the host, so that this holds at temperature 1. Lossless: any draft
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
    parts_.resize(clusters());
  }

  const vocab_layout& layout() const { return selector_.layout(); }
  std::int32_t max_ranges() const { return selector_.max_ranges(); }
  std::int32_t max_rows() const { return selector_.max_rows(); }
  std::int32_t context_width() const { return selector_.context_width(); }

  /// Allocates when there are more contexts than ever before.
  void select(const selector_contexts& contexts, const selector_lists& lists) {
    const std::size_t needed = static_cast<std::size_t>(contexts.size) * clusters();
    if (scores_.size() < needed) { scores_.resize(needed); }
    selector_.select(contexts, lists, [this](std::int32_t i, const float* scores) {
      std::copy_n(scores, clusters(), scores_of(i));
    });
  }

  /// Changes the logits of the rows that the last `select` has chosen lists for, in their order.
  template <class Real>
  void advise(const head_rows<Real>& rows) {
    for (std::int32_t i = 0; i < rows.size; ++i) {
      weigh(rows.lists[i], scores_of(i), rows.logits[i]);
    }
  }

 private:
  /// The rows of a cluster in a shortlist.
  struct part {
    std::int32_t cluster;
    std::int32_t begin;  ///< position of the first
    std::int32_t end;
    double drafted;  ///< mass by the drafter
    double routed;   ///< and by the router, in another unit
  };

  std::size_t clusters() const { return static_cast<std::size_t>(layout().clusters()); }
  float* scores_of(std::int32_t i) {
    return scores_.data() + static_cast<std::size_t>(i) * clusters();
  }

  template <class Real>
  void weigh(const shortlist& list, const float* scores, row_view<Real> logits) {
    const std::int32_t count = find_parts(list);
    const Real top = *std::max_element(logits.data, logits.data + logits.size);
    double best = -std::numeric_limits<double>::infinity();
    for (std::int32_t p = 0; p < count; ++p) {
      best = std::max(best, static_cast<double>(scores[at(p).cluster]));
    }
    double drafted = 0.0;
    double routed = 0.0;
    for (std::int32_t p = 0; p < count; ++p) {
      part& of = at(p);
      of.drafted = 0.0;
      for (std::int32_t k = of.begin; k < of.end; ++k) {
        of.drafted += static_cast<double>(std::exp(logits[k] - top));
      }
      // A cluster that the drafter rules out stays so, and its share goes to the others.
      of.routed = of.drafted > 0.0 ? std::exp(static_cast<double>(scores[of.cluster]) - best) : 0.0;
      drafted += of.drafted;
      routed += of.routed;
    }
    if (!(drafted > 0.0 && routed > 0.0)) { return; }
    for (std::int32_t p = 0; p < count; ++p) {
      const part& of = at(p);
      if (!(of.drafted > 0.0)) { continue; }
      const double wanted = drafted * of.routed / routed;
      const auto shift =
          static_cast<Real>(std::log((1.0 - weight_) + weight_ * wanted / of.drafted));
      for (std::int32_t k = of.begin; k < of.end; ++k) { logits.data[k] += shift; }
    }
  }

  /// Notes where the clusters of a list lie; returns how many there are.
  std::int32_t find_parts(const shortlist& list) {
    const std::int32_t* const begin = layout().cluster_begin();
    std::int32_t count = 0;
    std::int32_t before = 0;
    std::int32_t c = 0;
    for (std::int32_t r = 0; r < list.range_count; ++r) {
      const row_range range = list.ranges[r];
      for (; c < layout().clusters() && begin[c] < range.end; ++c) {
        if (begin[c] < range.begin) { continue; }
        const std::int32_t first = before + begin[c] - range.begin;
        at(count++) = {.cluster = c,
                       .begin = first,
                       .end = first + begin[c + 1] - begin[c],
                       .drafted = 0.0,
                       .routed = 0.0};
      }
      before += range.end - range.begin;
    }
    return count;
  }

  part& at(std::int32_t p) { return parts_[static_cast<std::size_t>(p)]; }

  clustered<R, B> selector_;
  double weight_;
  std::vector<float> scores_;  ///< [contexts, clusters]
  std::vector<part> parts_;
};

}  // namespace hunch::selector
