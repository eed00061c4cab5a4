// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/draft_tree.hpp>

namespace hunch::tree {

/// A chain of up to `Length` drafted tokens, each drawn from the draft law of its place.
template <std::int32_t Length>
struct chain {
  static_assert(Length >= 1 && Length <= 63,
                "hunch: tree::chain<N> drafts N tokens, 1 <= N <= 63; for plain decoding use "
                "drafter::none");

  static constexpr std::int32_t max_nodes = Length + 1;
  static constexpr std::int32_t max_depth = Length;
  static constexpr child_law children = child_law::independent;
  static constexpr bool is_chain = true;
};

}  // namespace hunch::tree
