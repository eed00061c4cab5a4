// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include <hunch/length/length.hpp>

namespace hunch::length {

/// One of several policies, chosen when the program runs: one type for all of them, so that a
/// decoder is compiled once. By default the first. It may be assigned between steps; memories of
/// another policy begin anew then.
template <LengthPolicy... L>
class one_of {
 public:
  static constexpr bool needs_entropy = (L::needs_entropy || ...);
  using memory = std::variant<typename L::memory...>;

  one_of() = default;
  template <class P>
  requires(std::same_as<P, L> || ...) one_of(P policy) : policy_(std::move(policy)) {}

  std::int32_t begin(memory& m, std::int32_t max_depth) const {
    return ask(m, [=](const auto& policy, auto& own) { return policy.begin(own, max_depth); });
  }
  bool continues(memory& m, const length_evidence& e) const {
    return ask(m, [&](const auto& policy, auto& own) { return policy.continues(own, e); });
  }
  void observe(memory& m, std::int32_t drafted, std::int32_t accepted) const noexcept {
    ask(m, [=](const auto& policy, auto& own) { policy.observe(own, drafted, accepted); });
  }

 private:
  template <class Use>
  auto ask(memory& m, Use&& use) const {
    return ask(m, use, std::make_index_sequence<sizeof...(L)>{});
  }
  template <class Use, std::size_t First, std::size_t... Rest>
  auto ask(memory& m, Use& use, std::index_sequence<First, Rest...>) const {
    if constexpr (sizeof...(Rest) > 0) {
      if (policy_.index() != First) { return ask(m, use, std::index_sequence<Rest...>{}); }
    }
    if (m.index() != First) { m.template emplace<First>(); }
    return use(*std::get_if<First>(&policy_), *std::get_if<First>(&m));
  }

  std::variant<L...> policy_;
};

}  // namespace hunch::length
