// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/detail/step_bodies.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/inbox.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/decoder/sum_of_slots.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/position_digest.hpp>
#include <hunch/diffusion/composition.hpp>
#include <hunch/diffusion/detail/round_bodies.hpp>
#include <hunch/diffusion/drafter/detail/canvas_pass.hpp>
#include <hunch/diffusion/drafter/detail/draft_sets.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/diffusion/verifier/verify_unmaskings.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>

namespace hunch::diffusion {

/// Sizes of a round, fixed at construction: nothing is allocated later.
struct round_sizes {
  std::int32_t max_batch = 1;
  std::int32_t max_canvas = 0;  ///< positions of one
  std::int32_t vocab_size = 0;
  token mask_token = no_token;
  std::int32_t ring = 0;    ///< entries of a slot: at least what a round may write
  bool ring_waits = false;  ///< see `rings`
};

/// What the host knows of a round before it is launched: so many there are at most.
struct round_bounds {
  std::int32_t slots = 0;  ///< that the round goes over
  pass_bounds target;
  pass_bounds draft;  ///< of each pass of a draft model
};

/// One round of self-speculation over all running canvases, as launches and calls of a draft model,
/// always the same ones in the same order; what varies from one round to the next is in the
/// executor's memory. Whoever drives it does for each round:
///
/// 1. `propose(bounds)`, then the target's pass over `pass(bounds)`;
/// 2. `verify(bounds, pass, evaluation)`: what is decided is not final, and the round may be begun
///    anew;
/// 3. `commit(bounds, pass, evaluation)`, which neither throws nor allocates.
///
/// Requests come by an inbox, and unmaskings leave by rings. Nothing else crosses to the host,
/// unless it reads the memory of the round: then it asks how many canvases there are, passes no
/// padding, and makes no pass of a draft model that nobody asks for.
///
/// \tparam Model decides what the round is composed for; it is not called.
/// \tparam E the executor: the arrays lie in its `step_memory`.
template <class Model, class O, class S, class V, class D, class Random, class E>
class decoding_round {
 public:
  using memory = step_memory<E>;
  using parts = composition<Model, O, S, V, D, Random, memory>;
  using draft_type = typename parts::draft_type;
  using length_policy = typename draft_type::length_policy;
  using real = typename parts::real;
  static constexpr std::int32_t max_drafts = parts::max_drafts;
  /// Entries that a round may write to a ring.
  static constexpr std::int32_t max_entries = max_drafts + 1;

  static_assert(host_reads<memory> || !(reads_on_host<Model> || parts::drafts_read_on_host),
                "hunch: this masked model reads its canvases on the host, which does not reach the "
                "executor's memory: give it an executor such as executor::host, or a model that "
                "reads them on the executor");

  /// \param executor outlives the round.
  /// \throws std::invalid_argument naming what does not fit.
  decoding_round(E& executor, D&& drafts, const typename parts::order_type& order,
                 const typename parts::sampler_type& sampler,
                 const typename parts::verifier_type& verifier, const Random& random,
                 const round_sizes& sizes, const char* owner)
      : drafts_(std::forward<D>(drafts)),
        order_(order),
        sampler_(sampler),
        verifier_(verifier),
        random_(random),
        sizes_(checked(sizes, owner)),
        memory_(executor),
        requests_(memory_, sizes.max_batch, sizes.vocab_size, false),
        ring_(memory_, sizes.max_batch, sizes.ring, sizes.ring_waits),
        pass_(memory_, sizes.max_batch, max_drafts + 1, sizes.max_canvas),
        draft_passes_(memory_, sizes.max_batch, max_drafts, sizes.max_canvas),
        lengths_(memory_, sizes.max_batch),
        owned_(memory_) {
    made_.mask_token = sizes.mask_token;
    made_.spread = parts::order_of_positions ? 0.0 : drafts_.spread;
    made_.in = requests_.view();
    made_.out = ring_.view();
    const std::int64_t batch = sizes.max_batch;
    owned_.give_host_written(batch, made_.block_lengths);
    owned_.give(batch, made_.canvases, made_.plans, made_.proposed, made_.verdicts, made_.kept,
                made_.counters);
    owned_.give(batch * max_drafts, made_.planned, made_.next, made_.accepted);
    owned_.give(batch * draft_sets::most, made_.drafts);
    owned_.give(batch * (max_drafts + 1), made_.sets);
    owned_.give(batch * draft_sets::room(max_drafts), made_.reached);
    owned_.give(batch * draft_sets::looked_at, made_.considered);
    owned_.give(1, made_.kept_count);
    memory_.launch(sizes.max_batch, clear_slots{made_.canvases});
    reset_stats();
  }

  decoding_round(const decoding_round&) = delete;
  decoding_round& operator=(const decoding_round&) = delete;

  const typename parts::sampler_type& sampler() const { return sampler_; }
  memory& where() { return memory_; }
  inbox<memory>& requests() { return requests_; }
  const rings& ring() const { return ring_.view(); }

  /// At most so many canvases with drafts of a request from the next round on. Recorded rounds keep
  /// what they have.
  void draft_length(std::int32_t length) {
    draft_length_ = std::clamp(length, std::int32_t{0}, max_drafts);
  }
  std::int32_t draft_length() const { return draft_length_; }

  /// What a request with such a canvas may have in a round, at most.
  void add_bounds(round_bounds& bounds, std::int32_t length, std::int32_t answer,
                  std::int32_t block_length) const {
    const auto wanted = [&](std::int32_t enough) {
      return static_cast<std::int32_t>(
          std::min<std::int64_t>(answer, std::int64_t{block_length} + enough - 1));
    };
    const std::int32_t canvases = draft_length_ + 1;
    bounds.target.canvases += canvases;
    bounds.target.tokens += canvases * length;
    bounds.target.wanted += canvases * wanted(enough());
    bounds.draft.canvases += 1;
    bounds.draft.tokens += length;
    bounds.draft.wanted += wanted(1);
  }

  /// Writes a request that has room to a slot that no round uses, see `inbox::put`.
  /// \param canvas prompt and answer, of which the last `options.max_new_tokens` are the answer.
  void put(std::int32_t slot, request_id id, std::span<const token> canvas,
           const generation_options& options, std::int32_t block_length) {
    made_.block_lengths[slot] = block_length;
    requests_.put(slot, id, canvas, options);
  }
  /// Takes a request that was put into a free slot, at once.
  void take(std::int32_t slot) { memory_.launch(1, take_arrivals{requests_.view(), slot}); }

  /// Drafts, and places the canvases of the target's pass. \throws what a draft model does.
  /// \param fixed whether a draft model's logits must lie where they lay before.
  void propose(const round_bounds& bounds, bool fixed) {
    const profiler_range<E> range("hunch: propose");
    memory_.launch(bounds.slots, kernel::begin_round<round_type>{arrays(bounds)});
    if constexpr (parts::drafts_by_model) { draft(bounds, fixed); }
    const round_type of = arrays(bounds);
    memory_.launch(bounds.slots, kernel::choose_canvases<round_type>{of});
    const auto placed = placing(of, of.pass, enough(), parts::caches_blocks, false);
    memory_.launch(bounds.slots, placed);
    memory_.launch(bounds.slots,
                   kernel::place_wanted<digests_type>{.placed = placed,
                                                      .view = shown<digests_type>(of.pass),
                                                      .proposed = made_.proposed,
                                                      .accepted = made_.accepted,
                                                      .stride = max_drafts});
  }

  /// The canvases of the target's pass. Waits for the executor where the host reads their number.
  canvases pass(const round_bounds& bounds) { return pass_.view(memory_, bounds.target); }

  /// Decides which drafts are unmasked, and what after them.
  /// \param fixed whether the pass's logits must lie where they lay before.
  /// \throws std::logic_error if they do not.
  template <class Evaluation>
  void verify(const round_bounds& bounds, const canvases& pass, Evaluation& evaluation,
              bool fixed) {
    const profiler_range<E> range("hunch: verify");
    pass_.take(memory_, pass, evaluation, fixed);
    memory_.launch(
        bounds.slots,
        kernel::verify_unmaskings<drafts_view<digests_type>, typename parts::verifier_type>{
            .views = arrays(bounds).pass.views,
            .verdicts = made_.verdicts,
            .plans = made_.next,
            .capacity = parts::drafts_by_model ? 0 : max_drafts,
            .entropies = length_policy::needs_entropy,
            .verifier = verifier_});
  }

  /// Makes the round final.
  template <class Evaluation>
  void commit(const round_bounds& bounds, [[maybe_unused]] const canvases& pass,
              [[maybe_unused]] const Evaluation& evaluation) noexcept {
    const profiler_range<E> range("hunch: commit");
    attempt([&] { memory_.launch(bounds.slots, kernel::end_round<round_type>{arrays(bounds)}); });
    if constexpr (parts::drafts_observe) {
      attempt([&] {
        const std::int32_t size = known_count(memory_, made_.kept_count, bounds.slots);
        drafts_.model.observe(decided_canvases{pass, size, made_.kept}, evaluation);
      });
    }
  }

  /// Ends the canvas of a slot between two rounds, and says so to a draft model.
  void release(std::int32_t slot) noexcept {
    attempt([&] {
      memory_.launch(1, clear_slots{requests_.view().all + slot});
      lengths_.release(slot, memory_);
    });
    forget(slot);
  }
  /// Says to a draft model that the canvas of a slot has ended.
  void forget([[maybe_unused]] std::int32_t slot) noexcept {
    if constexpr (parts::drafts_by_model) { drafts_.model.release(slot); }
  }

  /// Counters of all rounds; waits for the executor.
  statistics<max_drafts + 1> stats() {
    return sum_of_slots(memory_, made_.counters, sizes_.max_batch);
  }
  void reset_stats() { memory_.launch(sizes_.max_batch, clear_slots{made_.counters}); }

 private:
  template <class T>
  using digests_of =
      position_digests<T, typename parts::sampler_type, typename parts::order_type, Random>;
  using digests_type = digests_of<real>;
  using draft_digests = digests_of<typename parts::drafting::real>;
  using drafting_type =
      std::conditional_t<parts::drafts_by_model, drafting_passes<draft_digests, memory>,
                         no_drafting_passes>;
  using of_round =
      round_parts<max_drafts, parts::drafts_by_model, parts::drafts_observe, parts::caches_blocks>;
  using drafting_arrays_type = typename drafting_type::arrays_type;
  using round_type = round_arrays<of_round, digests_type, length_policy, drafting_arrays_type>;
  round_sizes checked(const round_sizes& sizes, const char* owner) {
    const refusal refuse{owner};
    if (sizes.mask_token < 0) { refuse({"the model's mask_token() is negative"}); }
    if (!(drafts_.spread >= 0.0 && std::isfinite(drafts_.spread))) {
      refuse({"spread must be finite and not negative"});
    }
    if constexpr (parts::drafts_by_model) {
      if (drafts_.model.vocab_size() != sizes.vocab_size ||
          drafts_.model.mask_token() != sizes.mask_token) {
        refuse({"the draft model has another vocabulary or mask token than the target"});
      }
      if (drafts_.model.max_positions() < sizes.max_canvas) {
        refuse({"max_canvas is ", sizes.max_canvas, ", the draft model's max_positions() ",
                drafts_.model.max_positions()});
      }
    }
    const std::int64_t tokens = static_cast<std::int64_t>(sizes.max_canvas) * (max_drafts + 1);
    if (tokens * sizes.max_batch > std::numeric_limits<std::int32_t>::max()) {
      refuse({"max_batch * max_canvas is too large for a pass"});
    }
    return sizes;
  }

  /// Positions that are wanted of a canvas, if there are so many.
  std::int32_t enough() const { return parts::caches_blocks ? 1 : draft_length_ + 1; }
  static std::int32_t padded(std::int32_t most) { return host_reads<memory> ? 0 : most; }

  round_type arrays(const round_bounds& bounds, std::int32_t depth = 0) const {
    round_type of{made_, lengths_.with(drafts_.length)};
    of.slots = bounds.slots;
    of.draft_length = draft_length_;
    of.padded = padded(bounds.slots);
    of.pass = pass_.arrays(padded(bounds.target.canvases), of.sets, max_drafts + 1, of.drafts);
    of.drafting = draft_passes_.arrays(padded(bounds.draft.canvases), of.drafts, depth);
    return of;
  }

  template <class Digests>
  static kernel::place_canvases<Digests> placing(const round_type& of,
                                                 const pass_arrays<Digests>& pass,
                                                 std::int32_t enough, bool caches_blocks,
                                                 bool for_drafts) {
    return {.pass = pass,
            .sequences = of.in.all,
            .canvases = of.canvases,
            .slots = of.slots,
            .mask_token = of.mask_token,
            .enough = enough,
            .caches_blocks = caches_blocks,
            .for_drafts = for_drafts};
  }

  /// What is shown of any slot in a pass.
  template <class Digests>
  drafts_view<Digests> shown(const pass_arrays<Digests>& pass) const {
    return {{},
            nullptr,
            Digests{.wanted = pass.wanted,
                    .logits = pass.logits,
                    .made = pass.made,
                    .parameters = {},
                    .seed = 0,
                    .mask_token = sizes_.mask_token,
                    .sampler = sampler_,
                    .order = order_,
                    .random = random_}};
  }

  /// The chain of drafts of every request, by passes of a draft model: for as long as somebody
  /// wants one more, where the host sees that.
  void draft(const round_bounds& bounds, bool fixed) {
    for (std::int32_t depth = 0; depth < draft_length_; ++depth) {
      const round_type of = arrays(bounds, depth);
      const auto placed = placing(of, of.drafting.pass, 1, false, true);
      memory_.launch(bounds.slots, placed);
      memory_.launch(bounds.slots, kernel::place_wanted<draft_digests>{
                                       .placed = placed,
                                       .view = shown<draft_digests>(of.drafting.pass),
                                       .proposed = nullptr,
                                       .accepted = nullptr,
                                       .stride = 0});
      const canvases pass = draft_passes_.view(memory_, bounds.draft);
      if (pass.size == 0) { return; }
      auto evaluation = drafts_.model.evaluate(pass);
      draft_passes_.take(memory_, pass, evaluation, fixed, depth);
      memory_.launch(bounds.slots,
                     kernel::draft_next<round_type, drafts_view<draft_digests>>{
                         .round = of, .depth = depth, .entropies = length_policy::needs_entropy});
    }
  }

  D drafts_;
  typename parts::order_type order_;
  typename parts::sampler_type sampler_;
  typename parts::verifier_type verifier_;
  Random random_;
  round_sizes sizes_;
  std::conditional_t<std::is_same_v<memory, E>, E&, memory> memory_;
  inbox<memory> requests_;
  ring_storage<memory> ring_;
  canvas_pass<digests_type, memory> pass_;
  drafting_type draft_passes_;
  drafter::length_slots<length_policy, memory> lengths_;
  owned_arrays<memory> owned_;
  round_data<of_round, digests_type, drafting_arrays_type>
      made_;  ///< but for what varies from round to round
  std::int32_t draft_length_ = max_drafts;
};

}  // namespace hunch::diffusion
