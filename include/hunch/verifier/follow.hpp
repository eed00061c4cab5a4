// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/verifier/verifier.hpp>

namespace hunch::kernel {

/// Descends while a child of the node equals the token that `choose(p, node)` makes of the target's
/// law there, and emits the first one that no child equals. The emitted tokens are those that
/// `choose`, which is collective, would make one after the other, whatever was drafted.
template <Team T, class View, class Choose>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void follow(T& team, const View& view, verdict& out,
                                                     Choose&& choose) {
  std::int32_t c = 0;
  for (;;) {
    const auto p = view.target(team, c);
    if (p.status != status::ok) { return fail(out, p.status, c); }
    const token chosen = choose(p, c);
    const std::int32_t first = view.tree.next_child(c, c);
    std::int32_t child = first;
    while (child >= 0 && view.tree.tokens[child] != chosen) {
      child = view.tree.next_child(c, child);
    }
    if (child < 0) {
      out.next = chosen;
      out.next_origin = first >= 0 ? origin::corrected : undrafted(out);
      return;
    }
    accept(team, out, child);
    c = child;
  }
}

}  // namespace hunch::kernel
