// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// A selector of any type as one type, for programs that choose it while they run: what is composed
/// with it is compiled once. It costs a call of a function pointer per depth. Copies share the
/// selector. Lossless, as every selector.
///
/// It asks the draft model for contexts, which a selector without a router does not read; see
/// `RoutedModel`.
/// \tparam Real of the draft logits. \tparam E the executor of the decoder.
template <class Real = float, class E = executor::host>
class any {
  using memory_type = step_memory<E>;  // what steps on E launch on

  struct erased_memory {
    virtual ~erased_memory() = default;
  };

 public:
  template <VocabSelector S>
  explicit any(S selector) : self_(std::make_shared<holder<S>>(std::move(selector))) {}

  const vocab_layout& layout() const { return self_->layout(); }
  std::int32_t max_ranges() const { return self_->max_ranges(); }
  std::int32_t max_rows() const { return self_->max_rows(); }
  std::int32_t context_width() const { return self_->context_width(); }

  template <class Executor>
  class memory {
   public:
    memory(const any& of, Executor& executor, std::int32_t capacity)
        : own(of.named(executor).make(executor, capacity)) {}

    std::unique_ptr<erased_memory> own;
  };

  template <class Executor>
  void select(memory<Executor>& m, Executor& executor, const selector_contexts& contexts,
              const selector_lists& lists) {
    named(executor).select(*m.own, executor, contexts, lists);
  }
  template <class Executor>
  void advise(memory<Executor>& m, Executor& executor, const head_rows<Real>& rows) {
    named(executor).advise(*m.own, executor, rows);
  }

 private:
  struct erased;

  template <class Executor>
  erased& named(const Executor&) const {
    static_assert(std::is_same_v<Executor, memory_type>,
                  "hunch: name the executor of the decoder: selector::any<Real, Executor>");
    return *self_;
  }

  struct erased {
    virtual ~erased() = default;
    virtual const vocab_layout& layout() const = 0;
    virtual std::int32_t max_ranges() const = 0;
    virtual std::int32_t max_rows() const = 0;
    virtual std::int32_t context_width() const = 0;
    virtual std::unique_ptr<erased_memory> make(memory_type& executor,
                                                std::int32_t capacity) const = 0;
    virtual void select(erased_memory& m, memory_type& executor, const selector_contexts& contexts,
                        const selector_lists& lists) = 0;
    virtual void advise(erased_memory& m, memory_type& executor, const head_rows<Real>& rows) = 0;
  };

  template <class S>
  struct holder final : erased {
    struct held_memory final : erased_memory {
      held_memory(const S& of, memory_type& executor, std::int32_t capacity)
          : own(of, executor, capacity) {}
      typename S::template memory<memory_type> own;
    };

    explicit holder(S s) : selector(std::move(s)) {}

    const vocab_layout& layout() const override { return selector.layout(); }
    std::int32_t max_ranges() const override { return selector.max_ranges(); }
    std::int32_t max_rows() const override { return selector.max_rows(); }
    std::int32_t context_width() const override { return context_width_of(selector); }
    std::unique_ptr<erased_memory> make(memory_type& executor,
                                        std::int32_t capacity) const override {
      return std::make_unique<held_memory>(selector, executor, capacity);
    }
    void select(erased_memory& m, memory_type& executor, const selector_contexts& contexts,
                const selector_lists& lists) override {
      selector.select(static_cast<held_memory&>(m).own, executor, contexts, lists);
    }
    void advise(erased_memory& m, memory_type& executor, const head_rows<Real>& rows) override {
      if constexpr (AdvisingSelector<S, Real>) {
        selector.advise(static_cast<held_memory&>(m).own, executor, rows);
      }
    }

    S selector;
  };

  std::shared_ptr<erased> self_;
};

static_assert(RoutedSelector<any<>> && AdvisingSelector<any<>>);

}  // namespace hunch::selector
