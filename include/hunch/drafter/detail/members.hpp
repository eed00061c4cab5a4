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
#include <hunch/drafter/drafter.hpp>

namespace hunch::drafter {

/// Several drafters that draft for the same sequences, and what a drafter that is made of them has.
/// \tparam D `Drafter`s; references where the caller keeps them.
template <class... D>
class members {
  template <class Member>
  using bare = std::remove_reference_t<Member>;
  static_assert(
      sizeof...(D) >= 2 && (Drafter<bare<D>> && ...),
      "hunch: drafter::ensemble, drafter::cascade and drafter::one_of are made of two or more "
      "that model hunch::Drafter, such as drafter::lookup and drafter::autoregressive");
  static_assert(!(is_chosen_drafter<bare<D>> || ...),
                "hunch: how the drafts of one of several drafters come about is chosen when the "
                "program runs: make a drafter::one_of of ensembles and cascades in its place");
  static_assert((... + (bare<D>::needs_hidden ? 1 : 0)) == 0 || (... + streams_of<bare<D>>()) == 0,
                "hunch: one of several drafters reads hidden states of the target and another its "
                "streams: use drafters that read the same");
  static_assert(((streams_of<bare<D>>() == 0 ||
                  streams_of<bare<D>>() == std::max({streams_of<bare<D>>()...})) &&
                 ...),
                "hunch: those of several drafters that read streams read as many: use trees of the "
                "same depth");

 public:
  static constexpr auto count = static_cast<std::int32_t>(sizeof...(D));
  static constexpr std::int32_t max_nodes = std::max({bare<D>::max_nodes...});
  static constexpr std::int32_t max_depth = std::max({max_depth_of<bare<D>>()...});
  /// How children come about, if that is the same for all that are not certain of theirs; else they
  /// are taken for ranked.
  static constexpr child_law children = [] {
    child_law of_all = child_law::ranked;
    ((of_all = is_certain<bare<D>> ? of_all : bare<D>::children), ...);
    return ((is_certain<bare<D>> || bare<D>::children == of_all) && ...) ? of_all
                                                                         : child_law::ranked;
  }();
  static constexpr bool are_chains = (bare<D>::is_chain && ...);
  /// Whether what verifiers ask of drafts is the same for all.
  static constexpr bool are_alike =
      ((is_certain<bare<D>> || bare<D>::children == children) && ...) &&
      (are_chains || (!bare<D>::is_chain && ...));
  static constexpr bool use_selector = (bare<D>::uses_selector || ...);
  static constexpr bool need_hidden = (bare<D>::needs_hidden || ...);
  static constexpr bool read_own_draft = (reads_own_draft<bare<D>> || ...);
  static constexpr bool need_clock = (drafts_by_clock<bare<D>> || ...);
  static constexpr std::int32_t streams = std::max({streams_of<bare<D>>()...});
  static constexpr std::int32_t law_rows = std::max({law_rows_of<bare<D>>()...});
  /// How many have laws that their children are drawn from.
  static constexpr std::int32_t drawing = ((bare<D>::children == child_law::ranked ? 0 : 1) + ...);

  explicit members(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}

  /// The states of all. \param in_turn whether each is asked where those before it draft nothing,
  /// so that every tree is one drafter's own.
  template <class Real, class Executor>
  struct states {
    states(const members& all, Executor& executor, const drafter_setup& setup, bool in_turn = false)
        : states(all, executor, merged(setup), in_turn, std::index_sequence_for<D...>{}) {}

    std::tuple<std::unique_ptr<typename bare<D>::template state<Real, Executor>>...> of;

   private:
    template <std::size_t... Place>
    states(const members& all, Executor& executor, const drafter_setup& setup, bool in_turn,
           std::index_sequence<Place...>)
        : of(std::make_unique<typename bare<D>::template state<Real, Executor>>(
              std::get<Place>(all.drafters_).drafter, executor,
              in_turn ? asked_in_turn(setup, Place) : setup)...) {}
  };

  /// Of the states that are read.
  std::int32_t hidden_size() const requires(need_hidden || streams > 0) {
    std::int32_t size = 0;
    std::apply(
        [&](const auto&... of) { ((size = std::max(size, hidden_size_of(of.drafter))), ...); },
        drafters_);
    return size;
  }

  /// \throws std::invalid_argument as they do, or if they read states of two sizes.
  void check(const drafter_setup& setup) {
    std::apply(
        [&](auto&... of) {
          (of.drafter.check(merged(setup)), ...);
          (check_states(hidden_size_of(of.drafter), setup.hidden_size), ...);
        },
        drafters_);
  }

  /// Calls f(drafter, its state) with each.
  template <class States, class F>
  void for_each(States& s, const F& f) {
    [&]<std::size_t... Place>(std::index_sequence<Place...>) {
      (f(std::get<Place>(drafters_).drafter, *std::get<Place>(s.of)), ...);
    }
    (std::index_sequence_for<D...>{});
  }

 private:
  /// A tuple asks whether what it holds can be made of nothing, which is an error of drafters whose
  /// length policy cannot.
  template <class Member>
  struct held {
    explicit held(Member&& of) : drafter(std::forward<Member>(of)) {}

    Member drafter;
  };

  /// What each is told: others may have drafted what a step adds.
  static drafter_setup merged(drafter_setup setup) {
    setup.merged_depth = std::max(setup.merged_depth, max_depth);
    return setup;
  }

  static drafter_setup asked_in_turn(drafter_setup setup, std::size_t place) {
    setup.contested = setup.contested || place + 1 < sizeof...(D);
    setup.has_laws = children != child_law::ranked;
    return setup;
  }

  static void check_states(std::int32_t size, std::int32_t expected) {
    if (size == 0 || size == expected) { return; }
    throw std::invalid_argument(message({"hunch::drafter: one of several drafters reads states of ",
                                         size, " numbers, another of ", expected}));
  }

  std::tuple<held<D>...> drafters_;
};

}  // namespace hunch::drafter
