// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/core/alternatives.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// One of several verifiers, chosen when the program runs: one type for all of them, so that what
/// is composed with it is compiled once. By default the first. A decoder keeps the one that it was
/// made with, and refuses it in its constructor if it does not fit the drafter. The type is
/// `lossless`, and `accepts` drafts, if that is true of all; it needs what any of them needs.
///
/// Costs a comparison for each step: a decoder launches a body of the one that was chosen. By
/// itself it is for the host; a loop of your own launches what `with_rule` gives it.
///
/// \tparam V trivially copyable.
template <Verifier... V>
class one_of {
  static_assert(sizeof...(V) >= 2, "hunch: verifier::one_of chooses between two or more");
  static_assert(all_differ<V...>, "hunch: verifier::one_of chooses by type: name each rule once");
  using rules = alternatives<V...>;

 public:
  static constexpr bool lossless = (V::lossless && ...);
  static constexpr bool needs_draft_law = (V::needs_draft_law || ...);
  static constexpr bool needs_greedy = (V::needs_greedy || ...);
  static constexpr bool shares_noise = (V::shares_noise || ...);
  static constexpr bool accepts(child_law children, bool is_chain) {
    return (V::accepts(children, is_chain) && ...);
  }

  one_of() : one_of(typename rules::first_type()) {}
  template <class Rule>
  requires(std::same_as<Rule, V> || ...) one_of(const Rule& rule)
      : index_(rules::template index_of<Rule>()) {
    rules_.template put<Rule>(rule);
  }

  verifier_traits chosen() const {
    return use_held(index_, rules_,
                    []<class Rule>(const Rule&) { return verifier_traits::of<Rule>(); });
  }

  /// use(rule) with the one that was chosen.
  template <class Use>
  void visit(const Use& use) const {
    use_held(index_, rules_, use);
  }

  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    visit([&](const auto& rule) { rule(team, view, random, out); });
  }

 private:
  std::int32_t index_;
  rules rules_;
};

}  // namespace hunch::verifier
