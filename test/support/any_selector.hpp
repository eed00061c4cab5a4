// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <hunch/selector/selector.hpp>

namespace hunch::test {

/// A selector of any type as one type, so that what is composed with it is compiled once.
class any_selector {
 public:
  template <VocabSelector S>
  any_selector(S selector) : self_(std::make_shared<holder<S>>(std::move(selector))) {}

  const vocab_layout& layout() const { return self_->layout(); }
  std::int32_t max_ranges() const { return self_->max_ranges(); }
  std::int32_t max_rows() const { return self_->max_rows(); }
  std::int32_t context_width() const { return self_->context_width(); }
  void select(const selector_contexts& contexts, const selector_lists& lists) {
    self_->select(contexts, lists);
  }
  void advise(const head_rows<double>& rows) { self_->advise(rows); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual const vocab_layout& layout() const = 0;
    virtual std::int32_t max_ranges() const = 0;
    virtual std::int32_t max_rows() const = 0;
    virtual std::int32_t context_width() const = 0;
    virtual void select(const selector_contexts& contexts, const selector_lists& lists) = 0;
    virtual void advise(const head_rows<double>& rows) = 0;
  };
  template <class S>
  struct holder final : interface {
    explicit holder(S s) : selector(std::move(s)) {}
    const vocab_layout& layout() const override { return selector.layout(); }
    std::int32_t max_ranges() const override { return selector.max_ranges(); }
    std::int32_t max_rows() const override { return selector.max_rows(); }
    std::int32_t context_width() const override { return context_width_of(selector); }
    void select(const selector_contexts& contexts, const selector_lists& lists) override {
      selector.select(contexts, lists);
    }
    void advise(const head_rows<double>& rows) override {
      if constexpr (AdvisingSelector<S, double>) { selector.advise(rows); }
    }
    S selector;
  };

  std::shared_ptr<interface> self_;
};

static_assert(RoutedSelector<any_selector> && AdvisingSelector<any_selector, double>);

}  // namespace hunch::test
