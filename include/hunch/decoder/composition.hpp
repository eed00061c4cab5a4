// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include <hunch/distribution/random.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch {

/// Whether a drafter can propose and observe in a decoder of these parts: points 4 and 5 of
/// `Drafter`, which hold for the types of one composition.
template <class D, class Evaluation, class Real, class Selector, class S, class Draw, class E>
concept DrafterOf = requires(D& drafter, typename D::template state<Real, E>& state,
                             std::int32_t size, const draft_context* contexts,
                             draft_batch<Real, E>& drafts, selecting<Selector, E>& selector,
                             const S& sampler, const Draw& draw, E& executor,
                             const draft_outcomes& outcomes, Evaluation& evaluation) {
  drafter.propose(state, size, contexts, drafts, selector, sampler, draw, executor);
  { drafter.observe(state, outcomes, evaluation, executor) }
  noexcept;
};

/// What a loop is composed of, and whether it fits: parts that do not are refused when this is
/// instantiated, with a sentence that says what to use instead. References are looked through.
template <class Target, class D, class Selector, class S, class V, class Random, class E>
struct composition {
  template <class T>
  using bare = std::remove_cvref_t<T>;

  static_assert(TargetModel<bare<Target>>,
                "hunch: the first argument of a decoder must model hunch::TargetModel: "
                "vocab_size(), evaluate(rows) and commit(kept_rows) noexcept");
  static_assert(Drafter<bare<D>>,
                "hunch: the second argument of a decoder must model hunch::Drafter, such as "
                "drafter::autoregressive or drafter::none");
  static_assert(VocabSelector<bare<Selector>>,
                "hunch: the third argument of a decoder must model hunch::VocabSelector, such as "
                "selector::full or selector::frequency");
  static_assert(Sampler<bare<S>>,
                "hunch: the fourth argument of a decoder must model hunch::Sampler, such as "
                "sampler::greedy or sampler::pipeline");
  static_assert(Verifier<bare<V>>,
                "hunch: the fifth argument of a decoder must model hunch::Verifier, such as "
                "verifier::rejection or verifier::greedy");
  static_assert(RandomSource<Random>, "hunch: Random must model hunch::RandomSource");
  static_assert(Executor<E>, "hunch: E must model hunch::Executor");

  using drafter_type = bare<D>;
  using sampler_type = bare<S>;
  using verifier_type = bare<V>;

  /// Whether a part is chosen when the program runs, so that `check` says whether they fit.
  static constexpr bool is_chosen =
      is_chosen_drafter<drafter_type> || is_chosen_verifier<verifier_type>;

  static_assert(is_chosen || !verifier_type::needs_draft_law ||
                    drafter_type::children != child_law::ranked,
                "hunch: this verifier needs the law that tokens were drawn from, and a ranked "
                "drafter has none: use verifier::point_mass, or a drafter that samples");
  static_assert(is_chosen || verifier_type::accepts(drafter_type::children, drafter_type::is_chain),
                "hunch: this verifier is not exact on such draft trees: use a tree::chain, or a "
                "verifier that accepts them");
  static_assert(is_chosen_verifier<verifier_type> || !verifier_type::needs_greedy ||
                    sampler_type::always_greedy,
                "hunch: verifier::greedy keeps only greedy decoding exact: use sampler::greedy, "
                "or verifier::rejection or verifier::point_mass for sampled text");
  static_assert(is_chosen_drafter<drafter_type> || !has_one_state<Target> || drafter_type::is_chain,
                "hunch: the target has one state for a sequence and reads no branches: use a "
                "tree::chain");
  static_assert(!drafter_type::needs_hidden || HiddenStates<evaluation_of<bare<Target>>>,
                "hunch: this drafter reads the target's hidden states: give the target's "
                "evaluation a function hidden(row)");

  static_assert(streams_of<drafter_type>() == 0 || SpeculativeStreams<evaluation_of<bare<Target>>>,
                "hunch: this drafter reads streams of the target: give the target's evaluation a "
                "function stream(row, j)");

  static_assert(!gives_shards<Target> || team::spans_ranks<E>,
                "hunch: the rows of this target are those of one rank of several: give the decoder "
                "an executor::sharded");

  using real = model_logit<bare<Target>>;
  static_assert(LogitType<real>,
                "hunch: logits must be float, hunch::bfloat16, hunch::float16 or double: give the "
                "target's evaluation rows of one of these");

  static_assert(
      DrafterOf<drafter_type, evaluation_of<bare<Target>>, real, bare<Selector>, sampler_type,
                child_draw<Random, verifier_type::shares_noise>, E>,
      "hunch: this drafter cannot draft here: give it propose(state, size, contexts, drafts, "
      "selector, sampler, draw, executor) and observe(state, outcomes, evaluation, executor) "
      "noexcept, for the types of these models");

  /// use(draw) with how drafters draw under this verifier.
  template <class Use>
  static void with_draw(const verifier_type& verifier, const Random& random, const Use& use) {
    if constexpr (is_chosen_verifier<verifier_type> && verifier_type::shares_noise) {
      if (!traits_of(verifier).shares_noise) { return use(child_draw<Random, false>{random}); }
    }
    use(child_draw<Random, verifier_type::shares_noise>{random});
  }

  /// Of parts that are chosen when the program runs. \throws std::invalid_argument if they do not
  /// fit.
  static void check(const drafter_type& drafter, const verifier_type& verifier) {
    const draft_traits drafts = traits_of_drafts(drafter);
    const verifier_traits rule = traits_of(verifier);
    const auto refuse = [](const char* why) { throw std::invalid_argument(why); };
    if (rule.needs_draft_law && drafts.children == child_law::ranked) {
      refuse(
          "hunch: the verifier that was chosen needs the law that tokens were drawn from, and "
          "the drafter that was chosen ranks them: use verifier::point_mass, or a drafter that "
          "samples");
    }
    if (!rule.accepts(drafts.children, drafts.is_chain)) {
      refuse(
          "hunch: the verifier that was chosen is not exact on the trees of the drafter that was "
          "chosen: use a tree::chain, or a verifier that accepts them");
    }
    if (has_one_state<Target> && !drafts.is_chain) {
      refuse(
          "hunch: the target has one state for a sequence and reads no branches, which the "
          "drafter that was chosen drafts: use a tree::chain");
    }
    if (rule.needs_greedy && !sampler_type::always_greedy) {
      refuse(
          "hunch: the verifier that was chosen keeps only greedy decoding exact, and this "
          "sampler draws: use sampler::greedy, verifier::rejection or verifier::point_mass");
    }
  }

  /// Whether the emitted text has exactly the law of plain decoding.
  static constexpr bool lossless = verifier_type::lossless;
  static constexpr std::int32_t max_nodes = drafter_type::max_nodes;
};

}  // namespace hunch
