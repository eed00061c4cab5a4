// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/merging.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>

namespace hunch::drafter {

/// How many nodes the trees of an ensemble have at most, with the root.
template <std::int32_t N>
struct nodes {};

/// Several drafters in one tree: what a text repeats and what a model expects, say. One after the
/// other they grow trees of their own; of nodes with the same tokens on their paths one is left,
/// and the target verifies what any of them has drafted. Where there is no room for all, the
/// drafters that are named first have theirs, and of a later one its first nodes, which of
/// `tree::dynamic` are its most valuable ones. (Token trees of several draft models, merged:
/// SpecInfer, Miao et al. 2023, arXiv:2305.09781; here of any drafters)
///
/// Each drafter observes what it has drafted itself of the accepted path, and reads the rest as
/// text. Its states, models and length policy are its own; the selector is the decoder's.
///
/// The tree is ranked, however children come about: what is merged, or has no room, is not drawn
/// from any law any more. So it is lossless with every lossless verifier that needs no draft law,
/// such as `point_mass`, `greedy` and `coupled`, and does not compile with others. Under `coupled`
/// a drafter that draws still does so with the target's noise. A token outside of the vocabulary
/// ends the tree of the drafter that proposed it, and of the first such drafter the request.
/// Launches one body more for each drafter, and one in `observe`; waits where its drafters do, and
/// once for each while a text follows a grammar.
///
/// \tparam Nodes of a merged tree at most, with the root.
/// \tparam D `Drafter`s; references where the caller keeps them. One at most draws its children,
///         for their random addresses are the same.
template <std::int32_t Nodes, class... D>
class ensemble {
  template <class Member>
  using bare = std::remove_reference_t<Member>;
  static_assert(sizeof...(D) >= 2 && (Drafter<bare<D>> && ...),
                "hunch: drafter::ensemble is made of two or more that model hunch::Drafter, such "
                "as drafter::lookup and drafter::autoregressive");
  static_assert(Nodes >= 2,
                "hunch: drafter::nodes<N> are the root and what is drafted after it: N >= 2");
  static_assert(((bare<D>::children == child_law::ranked ? 0 : 1) + ...) <= 1,
                "hunch: two drafters of drafter::ensemble draw their children, at the same random "
                "addresses: use tree::fixed or tree::dynamic for all but one");
  static_assert((... + (bare<D>::needs_hidden ? 1 : 0)) == 0 || (... + streams_of<bare<D>>()) == 0,
                "hunch: one drafter of drafter::ensemble reads hidden states of the target and "
                "another its streams: use drafters that read the same");
  static_assert(((streams_of<bare<D>>() == 0 ||
                  streams_of<bare<D>>() == std::max({streams_of<bare<D>>()...})) &&
                 ...),
                "hunch: the drafters of drafter::ensemble that read streams read as many: use "
                "trees of the same depth");

 public:
  static constexpr std::int32_t max_nodes = std::max({Nodes, bare<D>::max_nodes...});
  static constexpr std::int32_t max_depth = std::max({max_depth_of<bare<D>>()...});
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = false;
  static constexpr bool uses_selector = (bare<D>::uses_selector || ...);
  static constexpr bool needs_hidden = (bare<D>::needs_hidden || ...);
  static constexpr bool needs_clock = (drafts_by_clock<bare<D>> || ...);
  static constexpr bool reads_own_draft = true;
  static constexpr std::int32_t streams = std::max({streams_of<bare<D>>()...});
  static constexpr std::int32_t law_rows = std::max({law_rows_of<bare<D>>()...});

  /// With room for the trees of all.
  explicit ensemble(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}
  /// With room for so many nodes.
  explicit ensemble(drafter::nodes<Nodes>, D&&... drafters)
      : drafters_(std::forward<D>(drafters)...) {}

  /// Of the states that are read.
  std::int32_t hidden_size() const requires(needs_hidden || streams > 0) {
    std::int32_t size = 0;
    std::apply([&](const auto&... of) { ((size = std::max(size, size_of(of.drafter))), ...); },
               drafters_);
    return size;
  }

  template <class Real, class Executor>
  struct state {
    state(Executor& executor, const drafter_setup& setup)
        : of(std::make_unique<typename bare<D>::template state<Real, Executor>>(
              executor, merged_setup(setup))...),
          arrays(executor) {
      merged.max_nodes = max_nodes;
      merged.room = Nodes;
      merged.max_batch = setup.max_batch;
      merged.allocate(arrays, count);
      const std::int64_t shared = std::int64_t{count} * setup.max_batch;
      arrays.give(shared, shares);
      arrays.give(shared * max_nodes, paths);
    }

    std::tuple<std::unique_ptr<typename bare<D>::template state<Real, Executor>>...> of;
    owned_arrays<Executor> arrays;
    merged_trees merged;
    draft_outcome* shares = nullptr;  ///< [drafters, max_batch]
    std::int32_t* paths = nullptr;    ///< [drafters, max_batch, max_nodes]
  };

  /// \throws std::invalid_argument as its drafters do, or if they read states of two sizes.
  void check(const drafter_setup& setup) {
    std::apply(
        [&](auto&... of) {
          (of.drafter.check(merged_setup(setup)), ...);
          (check_states(size_of(of.drafter), setup.hidden_size), ...);
        },
        drafters_);
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    std::int32_t member = 0;
    for_each(s, [&](auto& drafter, auto& state) {
      drafter.propose(state, slots, contexts, drafts, selector, sampler, draw, executor);
      if (drafts.levels() == 0) { return; }
      executor.launch(slots,
                      merge_drafts<typename Drafts::real>{
                          .merged = s.merged,
                          .trees = drafts.view(),
                          .member = member++,
                          .members = count,
                          .has_lists = std::remove_cvref_t<decltype(drafter)>::uses_selector});
      drafts.follow_anew(executor);
    });
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    attempt([&] {
      executor.launch(outcomes.slots, share_outcomes{s.merged, count, outcomes, s.shares, s.paths});
      // Only then: else the shares would be those of the step before.
      draft_outcomes share = outcomes;
      share.of = s.shares;
      for_each(s, [&](auto& drafter, auto& state) {
        drafter.observe(state, share, evaluation, executor);
        share.of += s.merged.max_batch;
      });
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    for_each(s, [&](auto& drafter, auto& state) { drafter.release(state, slot, executor); });
  }

 private:
  /// A tuple asks whether what it holds can be made of nothing, which is an error of drafters whose
  /// length policy cannot.
  template <class Member>
  struct held {
    explicit held(Member&& of) : drafter(std::forward<Member>(of)) {}

    Member drafter;
  };

  static constexpr auto count = static_cast<std::int32_t>(sizeof...(D));

  /// Calls f(drafter, its state) with each.
  template <class State, class F>
  void for_each(State& s, const F& f) {
    [&]<std::size_t... Place>(std::index_sequence<Place...>) {
      (f(std::get<Place>(drafters_).drafter, *std::get<Place>(s.of)), ...);
    }
    (std::index_sequence_for<D...>{});
  }

  static drafter_setup merged_setup(drafter_setup setup) {
    setup.merged_depth = std::max(setup.merged_depth, max_depth);
    return setup;
  }

  /// Of the states that a drafter reads; 0: none.
  template <class Member>
  static std::int32_t size_of(const Member& drafter) {
    if constexpr (Member::needs_hidden || streams_of<Member>() > 0) {
      return drafter.hidden_size();
    } else {
      return 0;
    }
  }
  static void check_states(std::int32_t size, std::int32_t expected) {
    if (size == 0 || size == expected) { return; }
    throw std::invalid_argument(message({"hunch::drafter::ensemble: one drafter reads states of ",
                                         size, " numbers, another of ", expected}));
  }

  std::tuple<held<D>...> drafters_;
};

template <std::int32_t N, class... D>
ensemble(nodes<N>, D&&...) -> ensemble<N, D...>;
template <class... D>
ensemble(D&&...) -> ensemble<(1 + ... + (std::remove_reference_t<D>::max_nodes - 1)), D...>;

}  // namespace hunch::drafter
