// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <hunch/collective/collective.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/core/message.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/shortlist.hpp>

namespace hunch {

/// A draft head that is divided among ranks, by its rows: what `head(hidden, head_rows)` of a draft
/// model asks for is computed by the ranks that have these rows, each its part of each shortlist,
/// and all of them get all of it.
///
///     void head(states& hidden, const hunch::head_rows<float>& asked) {
///       shards_(asked, [&](const hunch::head_rows<float>& own) { multiply(hidden, own); });
///     }
///
/// The logits of a shortlist are gathered, not its law: a shortlist is in the order of the head,
/// and verification reads it by tokens, so that no division of one is one of the other; and a logit
/// is 4 bytes, for which its rank has read a whole row of the head. What follows, laws, draws, the
/// choice of children, each rank does for itself, of the same numbers.
///
/// Collective: one exchange for each call, of as many logits as the rank with most of them has. The
/// text is that of one rank if a logit is the same whatever is multiplied beside it, as of the
/// heads of this library; in any case all ranks have the same.
///
/// The host reads what is asked for, and the logits. Where it does not, a model's `head` gathers
/// them on the device itself, after its product.
///
/// \tparam C a `Collective`, used by nobody else while a call runs. \tparam Real of the logits.
template <Collective C, class Real = float>
class head_shards {
 public:
  /// \param collective and \param shards outlive this; \param shards divides the rows of the head,
  /// in the order in which it is stored, as if they were tokens.
  head_shards(C& collective, const vocab_shards& shards)
      : collective_(&collective), shards_(&shards) {}

  /// Of the rows that are asked for this rank computes its own by compute(own): `own` is as what
  /// the decoder asks for, with those parts of the ranges that this rank has, and without lists of
  /// which it has none. Where compute throws, the others throw a `collective_error`. \throws
  /// std::invalid_argument where a list has rows that no rank has.
  template <class Compute>
  void operator()(const head_rows<Real>& asked, const Compute& compute) {
    try {
      divide(asked);
      compute_own(asked, compute);
    } catch (const collective_error&) { throw; } catch (...) {
      collective_->fail();
      throw;
    }
    collective_->all_gather(sent_.data(), most_ * sizeof(Real), received_.data());
    put_together(asked);
  }

 private:
  /// What a rank has of a range of rows.
  row_range part(const row_range& of, std::int32_t rank) const {
    const std::int32_t begin = std::max(of.begin, shards_->first(rank));
    return {begin, std::max(begin, std::min(of.end, shards_->end(rank)))};
  }

  /// Finds the ranges of this rank, and how much each has.
  void divide(const head_rows<Real>& asked) {
    ranges_.clear();
    own_.clear();
    counts_.assign(static_cast<std::size_t>(shards_->ranks()), 0);
    for (std::int32_t i = 0; i < asked.size; ++i) {
      if (asked.row[i] < 0) { continue; }  // padding
      const shortlist& list = asked.lists[i];
      own_list own{.index = i, .first_range = ranges_.size()};
      for (std::int32_t k = 0; k < list.range_count; ++k) {
        if (list.ranges[k].end > shards_->vocab_size()) {
          refusal{"hunch::head_shards"}({"a shortlist has row ", list.ranges[k].end - 1,
                                         " of the head, and the shards are of ",
                                         shards_->vocab_size()});
        }
        for (std::int32_t r = 0; r < shards_->ranks(); ++r) {
          const row_range here = part(list.ranges[k], r);
          const std::int32_t size = here.end - here.begin;
          counts_[static_cast<std::size_t>(r)] += static_cast<std::size_t>(size);
          if (r != shards_->rank() || size == 0) { continue; }
          ranges_.push_back(here);
          own.size += size;
        }
      }
      if (own.size > 0) { own_.push_back(own); }
    }
    most_ = *std::max_element(counts_.begin(), counts_.end());
    sent_.resize(most_);
    received_.resize(most_ * counts_.size());
  }

  template <class Compute>
  void compute_own(const head_rows<Real>& asked, const Compute& compute) {
    rows_.clear();
    lists_.clear();
    logits_.clear();
    Real* to = sent_.data();
    for (std::size_t k = 0; k < own_.size(); ++k) {
      const own_list& own = own_[k];
      const std::size_t end = k + 1 < own_.size() ? own_[k + 1].first_range : ranges_.size();
      shortlist list = asked.lists[own.index];
      list.ranges = ranges_.data() + own.first_range;
      list.range_count = static_cast<std::int32_t>(end - own.first_range);
      list.size = own.size;
      list.shift = nullptr;  // which is of whole clusters
      rows_.push_back(asked.row[own.index]);
      lists_.push_back(list);
      logits_.push_back({to, own.size});
      to += own.size;
    }
    const auto count = static_cast<std::int32_t>(own_.size());
    if (count > 0) { compute(head_rows<Real>{count, rows_.data(), lists_.data(), logits_.data()}); }
    to = sent_.data();
    for (const row_view<Real>& row : logits_) {  // which the model may have lent
      if (row.data != to) { copy(to, row.data, row.size); }
      to += row.size;
    }
  }

  void put_together(const head_rows<Real>& asked) {
    counts_.assign(counts_.size(), 0);  // read of each rank
    for (std::int32_t i = 0; i < asked.size; ++i) {
      if (asked.row[i] < 0) { continue; }
      Real* to = asked.logits[i].data;
      for (std::int32_t k = 0; k < asked.lists[i].range_count; ++k) {
        for (std::int32_t r = 0; r < shards_->ranks(); ++r) {
          const row_range here = part(asked.lists[i].ranges[k], r);
          const std::int32_t size = here.end - here.begin;
          const auto of = static_cast<std::size_t>(r);
          copy(to, received_.data() + of * most_ + counts_[of], size);
          counts_[of] += static_cast<std::size_t>(size);
          to += size;
        }
      }
    }
  }

  static void copy(Real* to, const Real* from, std::int32_t n) {
    if (n > 0) { std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Real)); }
  }

  /// A list of which this rank has some.
  struct own_list {
    std::int32_t index = 0;
    std::size_t first_range = 0;
    std::int32_t size = 0;
  };

  C* collective_;
  const vocab_shards* shards_;
  std::vector<row_range> ranges_;
  std::vector<own_list> own_;
  std::vector<std::size_t> counts_;  ///< [ranks]
  std::size_t most_ = 0;             ///< logits of a rank
  std::vector<std::int32_t> rows_;
  std::vector<shortlist> lists_;
  std::vector<row_view<Real>> logits_;
  std::vector<Real> sent_;      ///< [most]
  std::vector<Real> received_;  ///< [ranks, most]
};

template <Collective C>
head_shards(C&, const vocab_shards&) -> head_shards<C>;

}  // namespace hunch
