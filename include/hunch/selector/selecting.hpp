// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/model/rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// A selector and what it needs in memory of an executor: what a loop gives its drafter. Both
/// outlive it.
template <VocabSelector S, class E>
class selecting {
 public:
  using selector_type = S;

  /// \param capacity contexts at a depth, of all sequences.
  selecting(S& selector, E& executor, std::int32_t capacity)
      : selector_(&selector), executor_(&executor), memory_(selector, executor, capacity) {}

  const vocab_layout& layout() const { return selector_->layout(); }

  /// Launches what writes one shortlist per context.
  void select(const selector_contexts& contexts, const selector_lists& lists) {
    select(*executor_, contexts, lists);
  }
  /// The same on an executor that runs beside ours.
  void select(E& executor, const selector_contexts& contexts, const selector_lists& lists) {
    selector_->select(memory_, executor, contexts, lists);
  }
  /// The body of which `select` launches one for each context, of a selector that says how it
  /// chooses: it may run behind others in one launch.
  auto choosing(const selector_contexts& contexts, const selector_lists& lists) const requires
      requires(const S& s) {
    selector::choose_each{s.chooser(), contexts, lists};
  }
  { return selector::choose_each{selector_->chooser(), contexts, lists}; }
  /// Launches what changes the logits of the rows that the last `select` has chosen lists for, if
  /// the selector advises.
  template <class Real>
  void advise(const head_rows<Real>& rows) {
    if constexpr (AdvisingSelector<S, Real>) { selector_->advise(memory_, *executor_, rows); }
  }

 private:
  S* selector_;
  E* executor_;
  typename S::template memory<E> memory_;
};

}  // namespace hunch
