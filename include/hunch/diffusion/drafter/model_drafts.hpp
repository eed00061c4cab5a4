// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/drafter/choose_unmaskings.hpp>
#include <hunch/diffusion/drafter/detail/canvas_pass.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::diffusion {

/// What became of a pass of the target: for each request, the canvas that all of its accepted
/// drafts are on, from whose logits the last unmasking was made.
struct decided_canvases {
  canvases pass;
  std::int32_t size = 0;               ///< requests of the pass
  const std::int32_t* kept = nullptr;  ///< [size] index of that canvas in the pass; in memory of
                                       ///< the host
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
/// A slot of which nothing was observed is not drafted for.
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
  template <class TargetEvaluation>
  static constexpr bool observes = false;
};

template <DraftsByModel D, class Real>
struct drafting_traits<D, Real> {
  using model_type = typename D::model_type;
  using real = masked_logit<model_type>;
  static constexpr bool reads_target = requires { requires model_type::reads_target; };
  template <class TargetEvaluation>
  static constexpr bool observes = ObservingModel<model_type, TargetEvaluation>;
};

/// In the place of the following, where there is no draft model.
struct no_drafting_passes {
  template <class... Arguments>
  explicit no_drafting_passes(const Arguments&...) {}
};

/// The passes of a draft model, one for each draft of the chain.
/// \tparam Digests of its logits.
template <class Digests, class E>
class drafting_passes {
 public:
  /// \param batch requests at most. \param drafts of each at most.
  /// \param length positions of a canvas at most.
  drafting_passes(E& executor, std::int32_t batch, std::int32_t drafts, std::int32_t length)
      : pass_(executor, batch, 1, length),
        batch_(batch),
        max_drafts_(drafts),
        drafts_(executor,
                static_cast<std::size_t>(batch * drafts) * static_cast<std::size_t>(drafts)) {}

  void clear() { pass_.clear(); }

  /// A request, with the drafts that it has so far.
  void push(step_place place, const running_canvas& r, std::span<const unmasking> drafts,
            const Digests& digests) {
    pass_.show(place.index, pass_.push(place, r, drafts, false, 1, digests.mask_token), {},
               digests);
  }
  /// A request without more drafts.
  void skip(std::int32_t k, const Digests& digests) { pass_.show(k, -1, {}, digests); }

  /// What comes after the first `depth` drafts of each request that was pushed. Waits for the
  /// executor.
  template <class Model>
  void run(E& executor, Model& model, std::int32_t size, std::int32_t depth, bool entropies) {
    auto evaluation = model.evaluate(pass_.view());
    pass_.take(executor, evaluation);
    executor.launch(size, kernel::choose_unmaskings<typename canvas_pass<Digests, E>::view_type>{
                              .views = pass_.views(),
                              .drafts = drafts_.data() + first(depth, 0),
                              .capacity = max_drafts_,
                              .entropies = entropies});
    executor.synchronize();
  }

  /// Of request k, in the order's order; position -1 after the last.
  std::span<const planned_draft> list(std::int32_t k, std::int32_t depth) const {
    return {drafts_.data() + first(depth, k), static_cast<std::size_t>(max_drafts_)};
  }

 private:
  std::size_t first(std::int32_t depth, std::int32_t k) const {
    return static_cast<std::size_t>(depth * batch_ + k) * static_cast<std::size_t>(max_drafts_);
  }

  canvas_pass<Digests, E> pass_;
  std::int32_t batch_;
  std::int32_t max_drafts_;
  typename E::template buffer<planned_draft> drafts_;
};

}  // namespace hunch::diffusion
