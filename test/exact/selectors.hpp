// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include <hunch/selector/second_opinion.hpp>
#include <hunch/selector/united.hpp>
#include "../support/toy_router.hpp"
#include "exact.hpp"

namespace hunch::test {

/// The tokens of `vocab` in a fixed other order, the first `rows` of them.
inline vocab_layout shuffled_layout(std::int32_t vocab, std::int32_t rows) {
  std::vector<token> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  dice random{static_cast<std::uint64_t>(vocab)};
  for (std::int32_t i = vocab - 1; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  order.resize(static_cast<std::size_t>(rows));
  return vocab_layout::permuted(order, vocab);
}

/// Calls use(selector) with every kind of shortlist: the whole head in order, permuted and trimmed;
/// a prefix of one row, of some and of all, or shrinking with depth; several ranges that change
/// with depth and context, of a whole and of a trimmed head; clusters that a router chooses; and
/// the union of such lists over the nodes of a depth. Shortlists that miss what the target likes
/// best are among them.
template <class Use>
void for_each_selector(std::int32_t vocab, Use&& use) {
  use(selector::full{vocab});
  use(selector::full{shuffled_layout(vocab, vocab)});
  use(selector::full{shuffled_layout(vocab, 2)});
  use(selector::frequency{shuffled_layout(vocab, vocab), 1});
  use(selector::frequency{shuffled_layout(vocab, vocab), 2});
  use(selector::frequency{shuffled_layout(vocab, vocab), vocab});
  use(toy_selector{shuffled_layout(vocab, vocab)});
  use(toy_selector{shuffled_layout(vocab, vocab - 1)});
  use(selector::frequency{shuffled_layout(vocab, vocab), budget::position_aware{vocab}});
  use(toy_clustered(shuffled_layout(vocab, vocab), 0, budget::position_aware{2}));
  use(toy_clustered(shuffled_layout(vocab, vocab - 1), 1, budget::mass{3, 0.6f}));
  use(toy_clustered(shuffled_layout(vocab, vocab), 0, budget::per_row{budget::rows{3, 2}}));
  use(selector::united{toy_selector{shuffled_layout(vocab, vocab - 1)}, 4});
  use(selector::united{toy_clustered(shuffled_layout(vocab, vocab), 0, budget::fixed{1}), 4});
  use(selector::second_opinion{toy_clustered(shuffled_layout(vocab, vocab), 1, budget::fixed{2}),
                               0.7});
}
inline constexpr std::int64_t selector_count = 15;

/// One exactness case over every kind of shortlist. Returns the number of tapes.
template <class S, class V>
std::int64_t over_selectors(const exact_case& c, S sampler, V verifier) {
  std::int64_t tapes = 0;
  for_each_selector(c.target.vocab, [&](const auto& selector) {
    tapes += exact_chain<3>(c, selector, sampler, verifier).tapes;
  });
  return tapes;
}

}  // namespace hunch::test
