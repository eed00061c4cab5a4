// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/alternatives.hpp>
#include <hunch/core/config.hpp>
#include <hunch/length/length.hpp>

namespace hunch::length {

/// One of several policies, chosen when the program runs: one type for all of them, so that a
/// decoder is compiled once. By default the first. It may be assigned between steps; memories of
/// another policy begin anew then.
template <LengthPolicy... L>
class one_of {
  using policies = alternatives<L...>;
  using memories = alternatives<typename L::memory...>;

 public:
  static constexpr bool needs_entropy = (L::needs_entropy || ...);
  static constexpr bool needs_clock = (length::needs_clock<L> || ...);
  /// Of the policy with the index `of`.
  struct memory {
    std::int32_t of = -1;
    memories held;
  };

  one_of() : one_of(typename policies::first_type()) {}
  template <class P>
  requires(std::same_as<P, L> || ...) one_of(const P& policy)
      : index_(policies::template index_of<P>()) {
    policies_.template put<P>(policy);
  }

  /// Has the policy take what the host knows, see `metered`.
  void refresh() requires(needs_clock) {
    use_held(index_, policies_, [](auto& policy) {
      if constexpr (requires { policy.refresh(); }) { policy.refresh(); }
    });
  }

  HUNCH_HOST_DEVICE std::int32_t begin(memory& m, std::int32_t max_depth) const {
    return ask(m, [=](const auto& policy, auto& own) { return policy.begin(own, max_depth); });
  }
  HUNCH_HOST_DEVICE bool continues(memory& m, const length_evidence& e) const {
    return ask(m, [&](const auto& policy, auto& own) { return policy.continues(own, e); });
  }
  HUNCH_HOST_DEVICE void observe(memory& m, std::int32_t drafted,
                                 std::int32_t accepted) const noexcept {
    ask(m, [=](const auto& policy, auto& own) { policy.observe(own, drafted, accepted); });
  }

 private:
  template <class Use>
  HUNCH_HOST_DEVICE auto ask(memory& m, const Use& use) const {
    if (m.of != index_) {
      m.of = index_;
      m.held.begin(index_);
    }
    return use_both(index_, policies_, m.held, use);
  }

  std::int32_t index_;
  policies policies_;
};

}  // namespace hunch::length
