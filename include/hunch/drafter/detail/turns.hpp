// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Whose turn it is to draft, and what each drafter is told of it.

namespace hunch::drafter {

/// Who has drafted in this step, and what the next drafter is asked. A trivially copyable view.
struct turn_arrays {
  std::int32_t max_batch = 0;
  std::int32_t* by = nullptr;         ///< [max_batch] which drafter
  draft_context* contexts = nullptr;  ///< [max_batch] of the drafters behind the first
  draft_outcome* shares = nullptr;    ///< [drafters, max_batch]
};

/// Asks the drafters behind `member` for nothing where that one, or one before it, has drafted for
/// slot `k`. What is no token was drafted too: it ends the request if the text gets there.
template <class Real>
struct pass_on {
  turn_arrays of;
  draft_trees<Real> trees;
  const draft_context* contexts;  ///< [slots] of the first one
  std::int32_t member;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    if (team.rank() != 0) { return; }
    if (member == 0) {
      of.contexts[k] = contexts[k];
    } else if (of.by[k] < member) {
      return;
    }
    const bool drafted = trees.count(k) > 1 || (trees.count(k) == 1 && trees.refused[k] >= 0);
    of.by[k] = drafted ? member : member + 1;
    if (drafted) {
      of.contexts[k].max_depth = 0;
      of.contexts[k].later = true;
    }
  }
};

/// Tells each drafter of slot `k` what became of its own draft. To the others the accepted path is
/// text.
struct tell_drafters {
  turn_arrays of;
  std::int32_t members;
  draft_outcomes outcomes;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    for (std::int32_t m = team.rank(); m < members; m += team.size()) {
      draft_outcome share = outcomes.of[k];
      if (of.by[k] != m) { share.kept = 0; }
      of.shares[m * of.max_batch + k] = share;
    }
  }
};

}  // namespace hunch::drafter
