// SPDX-License-Identifier: Apache-2.0
// expect: drafter::heads or drafter::streaming must model hunch::TreeShape
// expect: drafter::heads or drafter::streaming must model hunch::DraftHeads
// expect: drafter::heads or drafter::streaming must model hunch::TreeShape
// expect: drafter::heads or drafter::streaming must model hunch::DraftHeads
// expect: hunch: the first argument of drafter::pruned must model hunch::Drafter
// expect: hunch: drafter::pruned needs a drafter that has shortlists and no cache of its own
// expect: hunch: the second argument of drafter::pruned must be a view of the target's first layers

#include <type_traits>

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A model with a cache of its own, which is no view of the target.
struct first_layers : draft_model {
  static constexpr bool shares_target_cache = true;
};

/// It does not say how many children a node has.
struct bush {
  static constexpr std::int32_t max_nodes = 4;
  static constexpr std::int32_t max_depth = 2;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = false;
};

using shape = tree::dynamic<2, 2, 5>;
using streams = hunch::drafter::streaming<draft_heads, shape>;
using with_a_cache = hunch::drafter::autoregressive<draft_model, shape>;

/// What fits, but in one place.
#ifdef WRONG
template <int Which, class Right, class Wrong>
using in = std::conditional_t<Which == WRONG, Wrong, Right>;
#else
template <int, class Right, class>
using in = Right;
#endif

template <class Model, class Shape>
using heads_of = hunch::drafter::heads<Model, Shape>;
template <class Model, class Shape>
using streams_of_heads = hunch::drafter::streaming<Model, Shape>;
template <class Inner, class View>
using pruned_of = hunch::drafter::pruned<Inner, View>;

constexpr std::int32_t nodes[] = {
    heads_of<draft_heads, in<1, shape, bush>>::max_nodes,
    heads_of<in<2, draft_heads, draft_model>, shape>::max_nodes,
    streams_of_heads<draft_heads, in<3, shape, bush>>::max_nodes,
    streams_of_heads<in<4, draft_heads, draft_model>, shape>::max_nodes,
    pruned_of<in<5, streams, draft_heads>, first_layers>::max_nodes,
    pruned_of<in<6, streams, with_a_cache>, first_layers>::max_nodes,
    pruned_of<streams, in<7, first_layers, draft_model>>::max_nodes,
};
static_assert(nodes[0] > 0);
