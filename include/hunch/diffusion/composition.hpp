// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/diffusion/order/order.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/length/length.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch::diffusion {

/// What a loop over canvases is composed of, and whether it fits: parts that do not are refused
/// when this is instantiated, with a sentence that says what to use instead. References are looked
/// through.
template <class Model, class O, class S, class V, class D, class Random, class E>
struct composition {
  template <class T>
  using bare = std::remove_cvref_t<T>;

  static_assert(MaskedModel<bare<Model>>,
                "hunch: the first argument of a diffusion::decoder must model "
                "hunch::diffusion::MaskedModel: vocab_size(), mask_token(), max_positions(), "
                "evaluate(canvases) and release(slot) noexcept");
  static_assert(Order<bare<O>>,
                "hunch: the second argument of a diffusion::decoder must model "
                "hunch::diffusion::Order, such as diffusion::order::confidence");
  static_assert(Sampler<bare<S>>,
                "hunch: the third argument of a diffusion::decoder must model hunch::Sampler, such "
                "as sampler::greedy or sampler::pipeline");
  static_assert(DraftVerifier<bare<V>>,
                "hunch: the fourth argument of a diffusion::decoder must model "
                "hunch::diffusion::DraftVerifier, such as diffusion::verifier::stepwise_exact");
  static_assert(
      DraftPolicy<bare<D>>,
      "hunch: the fifth argument of a diffusion::decoder must be a "
      "diffusion::self_speculation, diffusion::stepwise or diffusion::drafted_by<N>(...)");
  static_assert(NoiseSource<Random>,
                "hunch: Random must model hunch::NoiseSource: tokens of a canvas are drawn with "
                "the noise of their positions");
  static_assert(Executor<E>, "hunch: E must model hunch::Executor");

  using order_type = bare<O>;
  using sampler_type = bare<S>;
  using verifier_type = bare<V>;
  using draft_type = bare<D>;

  static_assert(!sampler_type::needs_counts && !sampler_type::needs_allowed,
                "hunch: a canvas is not unmasked from left to right, so no tokens come before a "
                "position: leave out sampler::penalties and sampler::allowed_tokens");

  using real = masked_logit<bare<Model>>;
  static_assert(LogitType<real>,
                "hunch: logits must be float, hunch::bfloat16, hunch::float16 or double: give the "
                "model's evaluation rows of one of these");

  static_assert(!length::needs_clock<typename draft_type::length_policy>,
                "hunch: this length policy is taught by the host's clock, with what each step of a "
                "decoder has done, which no loop over canvases says: use length::cost");

  /// Drafts that come from a model of their own, and whether it reads what the target computed.
  static constexpr bool drafts_by_model = DraftsByModel<draft_type>;
  using drafting = drafting_traits<draft_type, real>;
  static constexpr bool drafts_observe = drafting::reads_target;
  static_assert(!drafts_observe || drafting::template observes<masked_evaluation_of<bare<Model>>>,
                "hunch: a draft model with reads_target must model "
                "hunch::diffusion::ObservingModel over the target's evaluation");
  static_assert(LogitType<typename drafting::real>,
                "hunch: logits of a draft model must be float, hunch::bfloat16, hunch::float16 or "
                "double: give its evaluation rows of one of these");

  /// Whether the draft model says that it reads canvases on the host.
  static constexpr bool drafts_read_on_host = drafting::reads_on_host;

  /// Whether which position is next depends on nothing that the model says.
  static constexpr bool order_of_positions = requires { requires order_type::of_positions; };

  /// Whether the unmaskings are those of decoding one token a pass.
  static constexpr bool lossless = verifier_type::lossless;
  static constexpr std::int32_t max_drafts = draft_type::max_drafts;
  static constexpr bool caches_blocks = BlockCachedModel<bare<Model>>;
};

}  // namespace hunch::diffusion
