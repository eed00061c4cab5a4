// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <hunch/draft/find_match.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/resident/drafting.hpp>

/// \file
/// Prompt lookup inside a resident step: one body that searches the text where it is.

namespace hunch::resident {

/// Plants the tree of slot `slot` and grows it by what followed the longest tail of its text that
/// occurs earlier.
template <class Real, std::int32_t Longest>
struct plant_match {
  sequences all;
  draft_trees<Real> trees;
  std::int32_t shortest;
  std::int32_t length;  ///< draft at most so many tokens
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    plant_root<Real>{all, trees}(team, slot);
    team.sync();  // the tree is there for all ranks
    const sequence& s = all.of[slot];
    if (!s.runs()) { return; }
    // The last token of a text is never drafted.
    const std::int32_t wanted = s.remaining - 1 < length ? s.remaining - 1 : length;
    const std::int32_t matched =
        kernel::propose_match<Longest>(team, {.text = all.text(slot),
                                              .length = s.length,
                                              .shortest = shortest,
                                              .wanted = wanted,
                                              .proposed = trees.tree(slot).tokens + 1});
    if (team.rank() != 0 || matched == 0) { return; }
    for (std::int32_t node = 1; node <= wanted; ++node) { trees.grow(slot, node, node - 1); }
  }
};

template <std::int32_t Length, std::int32_t Longest, class Policy, class Selector, class Real,
          class Executor>
class drafting<drafter::lookup<Length, Longest, Policy>, Selector, Real, Executor> {
  static_assert(std::is_same_v<Policy, length::fixed>,
                "hunch: in a resident loop drafter::lookup has length::fixed, since length "
                "policies are asked by the host");

 public:
  drafting(drafter::lookup<Length, Longest, Policy>& drafter, const Selector&, Executor&,
           std::int32_t)
      : drafter_(&drafter) {}

  draft_keeping keeping() const { return {}; }

  template <class S, class Draw>
  void propose(std::int32_t slots, const sequences& all, const draft_trees<Real>& trees,
               const layout_tables&, std::int32_t length, const S&, const Draw&,
               Executor& executor) {
    const std::int32_t most = std::min({length, Length, drafter_->policy.levels});
    executor.launch(slots, plant_match<Real, Longest>{all, trees, drafter_->shortest, most});
  }

  void commit(std::int32_t) noexcept {}
  void read(const rows&) {}
  void keep(const kept_rows&) noexcept {}

 private:
  drafter::lookup<Length, Longest, Policy>* drafter_;
};

}  // namespace hunch::resident
