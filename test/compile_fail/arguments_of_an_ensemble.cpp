// SPDX-License-Identifier: Apache-2.0
// expect: hunch: drafter::ensemble, drafter::cascade and drafter::one_of are made of two or more
// expect: hunch: drafter::nodes<N> are the root and what is drafted after it: N >= 2
// expect: hunch: two drafters of drafter::ensemble draw their children
// expect: hunch: one of several drafters reads hidden states of the target and another its streams
// expect: hunch: those of several drafters that read streams read as many
// expect: hunch: how the drafts of one of several drafters come about is chosen when the
// expect: hunch: drafter::one_of chooses by type

#include <cstdint>
#include <type_traits>

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// What fits, but in one place.
#ifdef WRONG
template <int Which, class Right, class Wrong>
using in = std::conditional_t<Which == WRONG, Wrong, Right>;
#else
template <int, class Right, class>
using in = Right;
#endif
template <std::int32_t N>
using room = std::integral_constant<std::int32_t, N>;

using ranked = tree::dynamic<2, 2, 5>;
using deeper = tree::dynamic<2, 3, 7>;
using copies = hunch::drafter::lookup<3>;
using drawn = hunch::drafter::autoregressive<draft_model, tree::chain<3>>;
using heads_of = hunch::drafter::heads<draft_heads, ranked>;
template <class Tree>
using streams_of_heads = hunch::drafter::streaming<draft_heads, Tree>;

using alike =
    hunch::drafter::one_of<drawn, hunch::drafter::autoregressive<draft_model, tree::chain<2>>>;
using unlike = hunch::drafter::one_of<drawn, heads_of>;

template <std::int32_t N, class... D>
using ensemble_of = hunch::drafter::ensemble<N, D...>;

constexpr std::int32_t nodes[] = {
    ensemble_of<5, drawn, in<1, copies, draft_model>>::max_nodes,
    ensemble_of<in<2, room<5>, room<1>>::value, drawn, copies>::max_nodes,
    ensemble_of<5, drawn, in<3, copies, drawn>>::max_nodes,
    ensemble_of<5, streams_of_heads<ranked>, in<4, copies, heads_of>>::max_nodes,
    ensemble_of<5, streams_of_heads<ranked>,
                in<5, streams_of_heads<ranked>, streams_of_heads<deeper>>>::max_nodes,
    ensemble_of<5, copies, in<6, alike, unlike>>::max_nodes,
    hunch::drafter::one_of<copies, in<7, drawn, copies>>::max_nodes,
};
static_assert(nodes[0] > 0);
