// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/drafter/detail/canvas_pass.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::diffusion {

/// What became of a pass of the target: for each request, the canvas that all of its accepted
/// drafts are on, from whose logits the last unmasking was made.
struct decided_canvases {
  canvases pass;
  std::int32_t size = 0;               ///< requests of the pass
  const std::int32_t* kept = nullptr;  ///< [size] index of that canvas in the pass; where the pass
                                       ///< may have padding, behind the last one -1
};

/// A masked model that drafts from what the target's passes computed, such as a head on its hidden
/// states, by `static constexpr bool reads_target = true`.
///
/// 1. `m.observe(decided, evaluation)` is called after each pass of the target, before its next
///    one; does not throw. Slots that are not in it keep what they have.
/// 2. `m.evaluate(canvases)` may be called in between, as often as drafts are wanted, with canvases
///    that have a few masks less than what was observed; wanted are positions that were wanted, and
///    masked, there.
///
/// A slot of which nothing was observed is not drafted for. Where there is padding, passes are made
/// that nobody may want anything of, and what is said of `canvases` there goes for `observe`.
template <class M, class TargetEvaluation>
concept ObservingModel = MaskedModel<M> && M::reads_target &&
    requires(M& m, const decided_canvases& decided, const TargetEvaluation& evaluation) {
  { m.observe(decided, evaluation) }
  noexcept;
};

/// Up to N drafts in a round, by another masked model: what it would unmask next, one token a pass
/// of its own, by the decoder's order and sampler, with the noise of the positions. As many as the
/// length policy wants. Its passes are batched over the requests. Vocabulary and mask token are
/// those of the target; it is no `BlockCachedModel`. `M` is a reference if the model was an lvalue.
///
/// Whatever it drafts, the unmaskings of a lossless verifier are the same.
template <std::int32_t N, class M, LengthPolicy L = length::fixed>
struct model_drafts {
  static_assert(N >= 1 && N <= 63,
                "hunch: diffusion::model_drafts<N> has N drafts in a round, 1 <= N <= 63");
  static_assert(MaskedModel<std::remove_cvref_t<M>>,
                "hunch: the model of diffusion::drafted_by must model "
                "hunch::diffusion::MaskedModel");
  static_assert(!BlockCachedModel<std::remove_cvref_t<M>>,
                "hunch: the model of diffusion::drafted_by reads canvases as they are: it must not "
                "have a block cache");

  static constexpr std::int32_t max_drafts = N;
  using model_type = std::remove_cvref_t<M>;
  using length_policy = L;

  M model;
  L length{};
  double spread = default_spread;  ///< over orders of unmasking, see `draft_sets`; 0: a chain
};

/// Drafts by a model, for a decoder's fifth argument: `drafted_by<4>(small)`. Lvalues are held by
/// reference. The decoder refuses a model of another vocabulary, mask token or shorter canvases,
/// and a spread that is negative or not finite.
template <std::int32_t N, class M, LengthPolicy L = length::fixed>
model_drafts<N, M, L> drafted_by(M&& model, L policy = {}, double spread = default_spread) {
  return {std::forward<M>(model), policy, spread};
}

/// Whether drafts come from a model of their own.
template <class D>
concept DraftsByModel = DraftPolicy<D> && MaskedModel<typename D::model_type>;

/// What follows from where drafts come from. \tparam Real of the target's logits.
template <class D, class Real>
struct drafting_traits {
  using real = Real;
  static constexpr bool reads_target = false;
  static constexpr bool reads_on_host = false;
  template <class TargetEvaluation>
  static constexpr bool observes = false;
};

template <DraftsByModel D, class Real>
struct drafting_traits<D, Real> {
  using model_type = typename D::model_type;
  using real = masked_logit<model_type>;
  static constexpr bool reads_target = requires { requires model_type::reads_target; };
  static constexpr bool reads_on_host = diffusion::reads_on_host<model_type>;
  template <class TargetEvaluation>
  static constexpr bool observes = ObservingModel<model_type, TargetEvaluation>;
};

/// What is drafted by a model. A trivially copyable view.
/// \tparam Digests of its logits.
template <class Digests>
struct drafting_arrays {
  pass_arrays<Digests> pass;
  std::uint64_t* begun = nullptr;  ///< [max_batch] the chain so far, as a set
  planned_draft* lists = nullptr;  ///< [depths, max_batch, capacity] position -1 after the last
  std::int32_t max_batch = 0;
  std::int32_t capacity = 0;

  /// Of a slot, after the first `depth` drafts of its chain, in the order's order.
  HUNCH_HOST_DEVICE planned_draft* list(std::int32_t depth, std::int32_t slot) const {
    return lists + (static_cast<std::int64_t>(depth) * max_batch + slot) * capacity;
  }
  /// Whether the next pass has the text of a slot, with `chain` drafts. By one rank.
  HUNCH_HOST_DEVICE void ask(std::int32_t slot, bool more, std::int32_t chain) const {
    pass.of[slot].count = more ? 1 : 0;
    begun[slot] = (std::uint64_t{1} << chain) - 1;
  }
};

/// In the place of the following, where there is no draft model.
struct no_drafting_passes {
  struct arrays_type {};
  template <class... Arguments>
  explicit no_drafting_passes(const Arguments&...) {}
  template <class... Arguments>
  arrays_type arrays(const Arguments&...) const {
    return {};
  }
};

/// The passes of a draft model, one for each draft of the chain.
/// \tparam Digests of its logits. \tparam M the memory of a step, see `step_memory`.
template <class Digests, class M>
class drafting_passes {
 public:
  using arrays_type = drafting_arrays<Digests>;

  /// \param batch requests at most. \param drafts of each at most.
  /// \param length positions of a canvas at most.
  drafting_passes(M& memory, std::int32_t batch, std::int32_t drafts, std::int32_t length)
      : pass_(memory, batch, 1, length, host_reads<M> ? 1 : drafts), owned_(memory) {
    made_.max_batch = batch;
    made_.capacity = drafts;
    owned_.give(batch, made_.begun);
    owned_.give(std::int64_t{batch} * drafts * drafts, made_.lists);
  }

  /// Of the pass after `depth` drafts. \param padded canvases, 0: not.
  /// \param drafts [max_batch, draft_sets::most] of the target.
  arrays_type arrays(std::int32_t padded, const unmasking* drafts, std::int32_t depth) const {
    arrays_type of = made_;
    of.pass = pass_.arrays(padded, made_.begun, 1, drafts, number(depth));
    return of;
  }

  canvases view(M& memory, const pass_bounds& most) const { return pass_.view(memory, most); }

  /// See `canvas_pass::take`.
  template <class Evaluation>
  void take(M& memory, const canvases& asked, Evaluation& evaluation, bool fixed,
            std::int32_t depth) {
    pass_.take(memory, asked, evaluation, fixed, number(depth));
  }

 private:
  /// The host that waits for the canvases of a pass has seen the end of the one before.
  static std::int32_t number(std::int32_t depth) { return host_reads<M> ? 0 : depth; }

  canvas_pass<Digests, M> pass_;
  owned_arrays<M> owned_;
  arrays_type made_;  ///< but for what varies from pass to pass
};

}  // namespace hunch::diffusion
