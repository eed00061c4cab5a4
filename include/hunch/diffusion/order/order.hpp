// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

namespace hunch::diffusion {

/// In which order masked positions are unmasked: which position is next, and which drafts come
/// before which.
///
/// 1. `o.score(team, law, token)` says how soon `token`, which the position would get, is to be
///    unmasked; collective, a function of its arguments alone, the same on all ranks, and no NaN.
///    `law` is what the token was drawn from; at temperature 0, where that is a point mass and says
///    nothing, the law of the same logits at temperature 1.
/// 2. `o.before(a, b)` is whether candidate a is unmasked before candidate b: a strict total order
///    of candidates at different positions, with the block before all else.
///
/// Whatever the order, blocks are unmasked from left to right: the next unmasking is one in the
/// first block with masks. Drafts take the positions that are left in this order.
///
/// Not required: a state. A position's score must not depend on which others are masked. An order
/// that depends on positions alone may say so by `static constexpr bool of_positions = true`: then
/// what is next is known, and no canvas is spent on anything else.
template <class O>
concept Order = std::copyable<O> && std::is_trivially_copyable_v<O> &&
    requires(const O& o, team::serial& t, const law<float>& l, token x, const candidate& c) {
  { o.score(t, l, x) } -> std::same_as<double>;
  { o.before(c, c) } -> std::same_as<bool>;
};

namespace order {

/// What orders have in common: blocks from left to right, then the larger score, the lower position
/// on ties.
struct by_score {
  HUNCH_HOST_DEVICE static constexpr bool before(const candidate& a, const candidate& b) {
    if (a.block != b.block) { return a.block < b.block; }
    if (a.score != b.score) { return a.score > b.score; }
    return a.what.position < b.what.position;
  }
};

}  // namespace order
}  // namespace hunch::diffusion
