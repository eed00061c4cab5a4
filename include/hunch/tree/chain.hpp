// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/tree/shape.hpp>

namespace hunch::tree {

/// A chain of up to `Length` drafted tokens, each drawn from the draft law of its place: lossless
/// with every lossless verifier. (Leviathan et al. 2023, arXiv:2211.17192)
template <std::int32_t Length>
struct chain {
  static_assert(Length >= 1 && Length <= 63,
                "hunch: tree::chain<N> drafts N tokens, 1 <= N <= 63; for plain decoding use "
                "drafter::none");

  static constexpr std::int32_t max_nodes = Length + 1;
  static constexpr std::int32_t max_inner = Length;
  static constexpr std::int32_t max_depth = Length;
  static constexpr std::int32_t max_width = 1;
  static constexpr std::int32_t max_children = 1;
  static constexpr child_law children = child_law::independent;
  static constexpr bool is_chain = true;

  static constexpr std::int32_t asked(std::int32_t place) { return place < Length ? 1 : 0; }
  static constexpr std::int32_t child(std::int32_t place, std::int32_t) { return place + 1; }
};

static_assert(TreeShape<chain<1>>);

}  // namespace hunch::tree
