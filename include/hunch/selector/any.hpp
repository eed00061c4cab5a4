// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <hunch/model/rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// A selector of any type as one type, for programs that choose it while they run: what is composed
/// with it is compiled once. It costs a call of a function pointer and a wait for the executor per
/// depth. Copies share the selector. Lossless, as every selector. Not for resident loops.
///
/// It asks the draft model for contexts, which a selector without a router does not read; see
/// `RoutedModel`.
/// \tparam Real of the draft logits.
template <class Real = float>
class any {
 public:
  template <VocabSelector S>
  explicit any(S selector) : self_(std::make_shared<holder<S>>(std::move(selector))) {}

  const vocab_layout& layout() const { return self_->layout(); }
  std::int32_t max_ranges() const { return self_->max_ranges(); }
  std::int32_t max_rows() const { return self_->max_rows(); }
  std::int32_t context_width() const { return self_->context_width(); }
  void select(const selector_contexts& contexts, const selector_lists& lists) {
    self_->select(contexts, lists);
  }
  void advise(const head_rows<Real>& rows) { self_->advise(rows); }

 private:
  struct erased {
    virtual ~erased() = default;
    virtual const vocab_layout& layout() const = 0;
    virtual std::int32_t max_ranges() const = 0;
    virtual std::int32_t max_rows() const = 0;
    virtual std::int32_t context_width() const = 0;
    virtual void select(const selector_contexts& contexts, const selector_lists& lists) = 0;
    virtual void advise(const head_rows<Real>& rows) = 0;
  };

  template <class S>
  struct holder final : erased {
    explicit holder(S s) : selector(std::move(s)) {}

    const vocab_layout& layout() const override { return selector.layout(); }
    std::int32_t max_ranges() const override { return selector.max_ranges(); }
    std::int32_t max_rows() const override { return selector.max_rows(); }
    std::int32_t context_width() const override { return context_width_of(selector); }
    void select(const selector_contexts& contexts, const selector_lists& lists) override {
      selector.select(contexts, lists);
    }
    void advise(const head_rows<Real>& rows) override {
      if constexpr (AdvisingSelector<S, Real>) { selector.advise(rows); }
    }

    S selector;
  };

  std::shared_ptr<erased> self_;
};

static_assert(RoutedSelector<any<>> && AdvisingSelector<any<>>);

}  // namespace hunch::selector
