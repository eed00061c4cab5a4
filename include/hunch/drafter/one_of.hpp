// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <hunch/core/alternatives.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/members.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>

namespace hunch::drafter {

/// One of several drafters, chosen when the program runs: one type for all of them, so that what is
/// composed with it is compiled once. The others need no model: only the one that was chosen
/// exists, and has memory. A decoder keeps the one that it was made with; `drafter::cascade`
/// changes between several.
///
/// Children come about as those of the one that was chosen do, and its decoder's constructor
/// refuses a verifier that does not fit. One that is certain of its drafts, as `lookup` is, drafts
/// as those of the others do that draw, so that it goes with the same verifiers. Lossless with
/// every verifier that is lossless with the one that was chosen.
///
/// Costs a comparison for each call of the host, and memory of a draft for the largest trees of
/// all; where the host does not read the memory of a step, also passes as large as these. A target
/// has what any of them reads: none of it is asked for on behalf of the others.
///
/// \tparam D `Drafter`s; references where the caller keeps them.
template <class... D>
class one_of {
  static_assert(all_differ<D...>, "hunch: drafter::one_of chooses by type: name each drafter once");
  using all = members<D...>;
  template <class Member>
  using bare = std::remove_reference_t<Member>;

 public:
  static constexpr std::int32_t max_nodes = all::max_nodes;
  static constexpr std::int32_t max_depth = all::max_depth;
  static constexpr child_law children = all::children;
  static constexpr bool is_chain = all::are_chains;
  static constexpr bool is_certain = (hunch::is_certain<bare<D>> && ...);
  static constexpr bool uses_selector = all::use_selector;
  static constexpr bool needs_hidden = all::need_hidden;
  static constexpr bool needs_clock = all::need_clock;
  static constexpr bool reads_own_draft = all::read_own_draft;
  static constexpr std::int32_t streams = all::streams;
  static constexpr std::int32_t law_rows = all::law_rows;

  template <class Member>
  requires(std::same_as<Member, D> || ...) one_of(Member&& drafter)
      : drafter_(std::in_place_type<held<Member>>, std::forward<Member>(drafter)) {}

  /// Of the drafts of the one that was chosen.
  draft_traits chosen() const requires(!all::are_alike) {
    draft_traits traits;
    use([&](auto place) {
      using member = bare<std::tuple_element_t<place, std::tuple<D...>>>;
      const bool draws = hunch::is_certain<member> && all::drawing > 0;
      traits = {draws ? child_law::independent : member::children, member::is_chain};
    });
    return traits;
  }

  /// Of the states that the one that was chosen reads; 0: it reads none.
  std::int32_t hidden_size() const requires(needs_hidden || streams > 0) {
    std::int32_t size = 0;
    use([&](auto place) { size = hidden_size_of(std::get<place>(drafter_).drafter); });
    return size;
  }

  template <class Real, class Executor>
  struct state {
    state(const one_of& all_of, Executor& executor, drafter_setup setup) {
      setup.has_laws = setup.has_laws || all::drawing > 0;
      all_of.use([&](auto place) {
        auto& made = std::get<place>(of);
        made = std::make_unique<typename std::remove_reference_t<decltype(made)>::element_type>(
            std::get<place>(all_of.drafter_).drafter, executor, setup);
      });
    }

    /// That of the one that was chosen.
    std::tuple<std::unique_ptr<typename bare<D>::template state<Real, Executor>>...> of;
  };

  /// \throws std::invalid_argument as the one that was chosen does.
  void check(const drafter_setup& setup) {
    use([&](auto place) { std::get<place>(drafter_).drafter.check(setup); });
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    use([&](auto place) {
      std::get<place>(drafter_).drafter.propose(*std::get<place>(s.of), slots, contexts, drafts,
                                                selector, sampler, draw, executor);
    });
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    use([&](auto place) {
      std::get<place>(drafter_).drafter.observe(*std::get<place>(s.of), outcomes, evaluation,
                                                executor);
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    use([&](auto place) {
      std::get<place>(drafter_).drafter.release(*std::get<place>(s.of), slot, executor);
    });
  }

 private:
  /// A variant asks of what it holds what a length policy cannot say.
  template <class Member>
  struct held {
    explicit held(Member&& of) : drafter(std::forward<Member>(of)) {}

    Member drafter;
  };

  /// use(place) with the place of the one that was chosen, a constant.
  template <class Use>
  void use(const Use& use) const {
    [&]<std::size_t... Place>(std::index_sequence<Place...>) {
      ((drafter_.index() == Place ? use(std::integral_constant<std::size_t, Place>{}) : void()),
       ...);
    }
    (std::index_sequence_for<D...>{});
  }

  std::variant<held<D>...> drafter_;
};

}  // namespace hunch::drafter
