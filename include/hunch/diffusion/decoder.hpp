// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/position_digest.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/composition.hpp>
#include <hunch/diffusion/drafter/detail/canvas_pass.hpp>
#include <hunch/diffusion/drafter/detail/draft_sets.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/diffusion/verifier/verify_unmaskings.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/executor/host.hpp>

namespace hunch::diffusion {

/// Sizes that a decoder fixes at construction, so that a round allocates nothing.
struct decoder_options {
  std::int32_t max_batch = 1;   ///< requests that run at the same time
  std::int32_t max_canvas = 0;  ///< positions of one, 2 or more; 0: all that the model reads
  std::int32_t draft_length = 1 << 30;  ///< canvases with drafts; see `decoder::draft_length`
};

/// Lossless self-speculation for masked diffusion models (SSD: Gao et al. 2025, arXiv:2510.04147),
/// composed at compile time from a model and policies.
///
/// The reference is decoding one token a pass: of the masked positions of the first block with
/// masks, the one that the order puts first gets its token. A round does several of these steps in
/// one pass. The logits of the last unmasking, or another model (see `model_drafts`), draft for the
/// positions that are left, in the order's order. The model reads the text and, beside it, the text
/// with sets of drafts that are likely to be unmasked next (see `draft_sets`). Drafts are unmasked
/// as long as the logits of the canvas before them would have unmasked just that, and there is a
/// canvas with it; the logits of the last of these make one more unmasking. So a round makes 1 to
/// N + 1 unmaskings. With a lossless verifier these are, in their order, those of the reference.
///
/// With a `BlockCachedModel` the reference is the same under the same cache, and a round ends with
/// the block. At temperatures above 0 tokens are drawn, by the reference too, with noise that
/// belongs to the request's seed and to the position.
///
/// Everything before the commit of a round is staged: a model that throws leaves the decoder as it
/// was, and the round can be repeated. The commit neither throws nor allocates. Requests join and
/// can be cancelled between rounds. What is unmasked depends on the request, not on the batch.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
class decoder {
  using parts = composition<Model, O, S, V, D, Random, E>;
  using draft_type = typename parts::draft_type;
  template <class T>
  using digests_of =
      position_digests<T, typename parts::sampler_type, typename parts::order_type, Random>;

 public:
  using real = typename parts::real;

  /// Whether the unmaskings are those of decoding one token a pass: ask with a static_assert.
  static constexpr bool lossless = parts::lossless;
  static constexpr std::int32_t max_drafts = parts::max_drafts;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  decoder(Model&& model, O&& order, S&& sampler, V&& verifier, D&& drafts = {},
          decoder_options options = {}, Random random = {}, E executor = {})
      : model_(std::forward<Model>(model)),
        order_(order),
        sampler_(sampler),
        verifier_(verifier),
        drafts_(std::forward<D>(drafts)),
        random_(random),
        executor_(std::move(executor)),
        limits_{.vocab_size = static_cast<std::int32_t>(model_.vocab_size()),
                .mask_token = static_cast<token>(model_.mask_token()),
                .max_canvas = static_cast<std::int32_t>(model_.max_positions())},
        options_(checked(options)),
        pass_(executor_, options_.max_batch, max_drafts + 1, options_.max_canvas),
        draft_passes_(executor_, options_.max_batch, max_drafts, options_.max_canvas),
        drafts_of_requests_(executor_, batch() * sized(draft_sets::most)),
        sets_(executor_, batch() * sized(max_drafts + 1)),
        accepted_(executor_, batch() * sized(max_drafts)),
        verdicts_(executor_, batch()),
        plans_(executor_, batch() * sized(max_drafts)),
        chooser_(max_drafts),
        on_canvas_(sized(max_drafts)),
        kept_(batch()),
        staged_(sized(options_.max_canvas)),
        lengths_(executor_, options_.max_batch),
        slots_(options_.max_batch, "hunch::diffusion::decoder", "diffusion::decoder_options"),
        rounds_(batch()),
        outcomes_(batch()),
        unmaskings_(batch() * sized(max_drafts + 1)),
        origins_(unmaskings_.size()) {
    emissions_.reserve(batch());
    draft_length(options_.draft_length);
  }

  /// Neither copied nor moved: its views refer to its own memory. `auto d = make()` works.
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  /// Releases the slots of what still runs, so that a model held by reference can serve again.
  ~decoder() {
    for (const running_canvas& r : slots_) { cancel(r.id); }
  }

  /// Adds a request: a prompt, and after it `max_new_tokens` positions to be unmasked. It takes
  /// part from the next round on. Allocates all that it needs. There are no penalties, grammars,
  /// stop strings and log-probabilities here. A stop token ends the text once it and all before it
  /// are unmasked. \throws std::invalid_argument naming what is wrong with the request: nothing is
  /// ever ignored. \throws std::length_error if `max_batch` requests are running.
  request_id add(std::span<const token> prompt, const generation_options& options,
                 const canvas_options& canvas = {}) {
    check_canvas(prompt, options, canvas, sampler_,
                 {.vocab_size = limits_.vocab_size,
                  .mask_token = limits_.mask_token,
                  .max_canvas = options_.max_canvas});
    slots_.require_room();
    running_canvas r(prompt, options, canvas, limits_.mask_token, max_drafts);
    if constexpr (parts::drafts_by_model && !parts::drafts_observe && !parts::caches_blocks) {
      r.planned = max_drafts;
    }
    return slots_.admit(std::move(r));
  }

  /// Ends a request between two rounds. False if it is not running.
  bool cancel(request_id id) noexcept {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0) { return false; }
    lengths_.with(drafts_.length).release(slot);
    release(slot);
    return true;
  }

  std::int32_t running() const { return slots_.running(); }
  bool is_running(request_id id) const { return slots_.find(id) >= 0; }

  /// Runs one round for all running requests, in one pass of the model, and returns what was
  /// unmasked for each of them; the views are valid until the next call of `step`, `add` or
  /// `cancel`. Returns nothing when nothing runs. Waits for the executor once, and once for each
  /// pass of a draft model. \throws what a model throws; the next call repeats the round.
  std::span<const emission> step() {
    emissions_.clear();
    if (running() == 0) { return {}; }
    detail::stopwatch watch;
    const std::int32_t size = begin_round();
    draft(size);
    place(size);
    const double draft_seconds = watch.lap();
    auto evaluation = model_.evaluate(pass_.view());
    const double target_seconds = watch.lap();
    verify(size, evaluation);
    for (std::int32_t k = 0; k < size; ++k) { trim(k); }
    commit(size, evaluation);
    statistics_.draft_seconds += draft_seconds;
    statistics_.target_seconds += target_seconds;
    statistics_.verify_seconds += watch.lap();
    return emissions_;
  }

  /// The answer to one request, unmasked to its end: up to the stop token; masks are left after an
  /// error. Other running requests advance in the same rounds, and what is unmasked for them is
  /// lost; use `add` and `step` for batches. \throws what these do; then the request is cancelled.
  finished_text generate(std::span<const token> prompt, const generation_options& options,
                         const canvas_options& canvas = {}) {
    const request_id id = add(prompt, options, canvas);
    try {
      for (;;) {
        for (const emission& e : step()) {
          if (e.id != id || e.finish == finish_reason::none) { continue; }
          return {{e.answer.begin(), e.answer.end()}, e.finish, e.status};
        }
      }
    } catch (...) {
      cancel(id);
      throw;
    }
  }

  /// At most so many canvases with drafts for a request from the next round on, within what there
  /// is room for; 0 is decoding one token a pass. With a lossless verifier it changes speed only.
  void draft_length(std::int32_t length) {
    draft_length_ = std::clamp(length, std::int32_t{0}, max_drafts);
  }
  std::int32_t draft_length() const { return draft_length_; }

  /// Counters. A step is one round of one request, a target row one canvas in a pass.
  const statistics<max_drafts + 1>& stats() const { return statistics_; }
  void reset_stats() { statistics_ = {}; }

 private:
  /// What the current round does with one request.
  struct planned_round {
    std::int32_t slot = 0;
    std::int32_t chain = 0;     ///< drafts, one after the other
    std::int32_t drafted = 0;   ///< canvases with drafts
    std::int32_t proposed = 0;  ///< different drafts on them
    std::int32_t deepest = 0;   ///< drafts on one of them at most
    bool drafts = false;        ///< one more is wanted
    length_evidence evidence;   ///< of those that there are
    std::int32_t first_canvas = 0;
    std::int32_t unmasked = 0;
    canvas_state state;  ///< after these unmaskings
    finish_reason finish = finish_reason::none;
    hunch::status status = hunch::status::ok;
  };

  template <class T>
  using buffer = typename E::template buffer<T>;
  using pass_type = canvas_pass<digests_of<real>, E>;
  using draft_digests = digests_of<typename parts::drafting::real>;
  using length_policy = typename draft_type::length_policy;

  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }
  std::size_t batch() const { return sized(options_.max_batch); }
  static std::size_t draft_index(std::int32_t k, std::int32_t i = 0) {
    return sized(k) * sized(max_drafts) + sized(i);
  }
  static std::size_t canvas_index(std::int32_t k, std::int32_t i = 0) {
    return sized(k) * sized(max_drafts + 1) + sized(i);
  }

  decoder_options checked(decoder_options o) {
    const refusal refuse{"hunch::diffusion::decoder"};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (limits_.mask_token < 0) { refuse({"the model's mask_token() is negative"}); }
    if (o.max_canvas == 0) { o.max_canvas = limits_.max_canvas; }
    if (o.max_canvas < 2) { refuse({"max_canvas must be at least 2"}); }
    if (!(drafts_.spread >= 0.0 && std::isfinite(drafts_.spread))) {
      refuse({"spread must be finite and not negative"});
    }
    if constexpr (parts::drafts_by_model) {
      if (drafts_.model.vocab_size() != limits_.vocab_size ||
          drafts_.model.mask_token() != limits_.mask_token) {
        refuse({"the draft model has another vocabulary or mask token than the target"});
      }
      if (drafts_.model.max_positions() < o.max_canvas) {
        refuse({"max_canvas is ", o.max_canvas, ", the draft model's max_positions() ",
                drafts_.model.max_positions()});
      }
    }
    if (o.max_canvas > limits_.max_canvas) {
      refuse(
          {"max_canvas is ", o.max_canvas, ", the model's max_positions() ", limits_.max_canvas});
    }
    const std::int64_t tokens = static_cast<std::int64_t>(o.max_canvas) * (max_drafts + 1);
    if (tokens * o.max_batch > std::numeric_limits<std::int32_t>::max()) {
      refuse({"max_batch * max_canvas is too large for a pass"});
    }
    return o;
  }

  std::int32_t begin_round() {
    std::int32_t size = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const running_canvas& r = slots_[i];
      if (r.id == 0) { continue; }
      planned_round& round = rounds_[sized(size)];
      round = {};
      round.slot = static_cast<std::int32_t>(i);
      round.evidence.max_rows = max_drafts + 1;
      round.drafts = lengths_.with(drafts_.length).begin(round.slot, room(r)) > 0;
      ++size;
    }
    return size;
  }

  /// How many drafts a request can have: as many as were planned, or as its draft model has
  /// observed positions for. The pass on a text without masks would decide nothing, so at least one
  /// is left.
  std::int32_t room(const running_canvas& r) const {
    const std::int32_t masks = parts::caches_blocks ? masks_of_block(r) : r.state.masks;
    return std::min({draft_length_, r.planned, masks - 1});
  }

  /// The chain of drafts of every request, one after the other, as many as its length policy wants.
  void draft(std::int32_t size) {
    const auto wants = [](const planned_round& round) { return round.drafts; };
    const auto rounds = std::span<planned_round>(rounds_).first(sized(size));
    for (std::int32_t depth = 0; std::ranges::any_of(rounds, wants); ++depth) {
      if constexpr (parts::drafts_by_model) { run_draft_model(size, depth); }
      for (std::int32_t k = 0; k < size; ++k) {
        if (rounds[sized(k)].drafts) { take_draft(k, next_draft(k, depth)); }
      }
    }
  }

  const planned_draft& next_draft(std::int32_t k, std::int32_t depth) const {
    return parts::drafts_by_model ? known_after(k, depth)[0] : known_after(k, 0)[sized(depth)];
  }

  /// What may be unmasked in request k after the first `depth` drafts of its chain.
  std::span<const planned_draft> known_after(std::int32_t k, std::int32_t depth) const {
    if constexpr (parts::drafts_by_model) {
      return draft_passes_.list(k, depth);
    } else {
      const running_canvas& r = slots_[sized(rounds_[sized(k)].slot)];
      return std::span(r.plan).first(sized(r.planned));
    }
  }

  void take_draft(std::int32_t k, const planned_draft& next) {
    planned_round& round = rounds_[sized(k)];
    round.drafts = false;
    if (next.what.position < 0) { return; }
    drafts_of(k)[round.chain] = next.what;
    ++round.chain;
    round.evidence.probability = next.probability;
    round.evidence.reach *= next.probability;
    round.evidence.entropy = next.entropy;
    round.evidence.rows = round.chain + 1;
    round.evidence.drawn = next.drawn;
    const drafter::slot_lengths<length_policy> lengths = lengths_.with(drafts_.length);
    round.drafts = lengths.drew(round.slot) && lengths.continues(round.slot, round.evidence);
  }

  /// One pass of the draft model, for the requests that want one more draft.
  void run_draft_model(std::int32_t size, std::int32_t depth) {
    draft_passes_.clear();
    for (std::int32_t k = 0; k < size; ++k) {
      const planned_round& round = rounds_[sized(k)];
      const running_canvas& r = slots_[sized(round.slot)];
      if (round.drafts) {
        draft_passes_.push({.index = k, .slot = round.slot}, r, {drafts_of(k), sized(round.chain)},
                           digests_for<draft_digests>(r));
      } else {
        draft_passes_.skip(k, digests_for<draft_digests>(r));
      }
    }
    draft_passes_.run(executor_, drafts_.model, size, depth, length_policy::needs_entropy);
  }

  /// [draft_sets::most] the chain first.
  unmasking* drafts_of(std::int32_t k) const {
    return drafts_of_requests_.data() + sized(k) * sized(draft_sets::most);
  }
  /// [max_drafts + 1]
  std::uint64_t* sets_of(std::int32_t k) const { return sets_.data() + canvas_index(k); }

  /// Of a request, without the arrays of a pass.
  template <class Digests>
  Digests digests_for(const running_canvas& r) const {
    return {.wanted = nullptr,
            .made = nullptr,
            .parameters = r.parameters,
            .seed = r.seed,
            .mask_token = limits_.mask_token,
            .sampler = sampler_,
            .order = order_,
            .random = random_};
  }

  /// The canvases of the round: each text without drafts, and with sets of them.
  void place(std::int32_t size) {
    pass_.clear();
    const std::int32_t enough = parts::caches_blocks ? 1 : draft_length_ + 1;
    for (std::int32_t k = 0; k < size; ++k) {
      planned_round& round = rounds_[sized(k)];
      const running_canvas& r = slots_[sized(round.slot)];
      const bool opens = parts::caches_blocks && r.opened != r.known();
      round.first_canvas = pass_.size();
      round.proposed = chooser_.choose(drafts_of(k), round.chain, sets_of(k),
                                       parts::order_of_positions ? 0.0 : drafts_.spread,
                                       parts::drafts_by_model ? round.chain : 1,
                                       [&](std::int32_t d) { return known_after(k, d); });
      round.drafted = chooser_.size();
      round.deepest = chooser_.deepest();
      for (std::int32_t c = 0; c <= round.drafted; ++c) {
        pass_.push({.index = k, .slot = round.slot}, r, drafts_on(k, c), opens, enough,
                   limits_.mask_token);
      }
    }
  }

  std::span<const unmasking> drafts_on(std::int32_t k, std::int32_t c) {
    std::size_t count = 0;
    for (std::int32_t i = 0; i < rounds_[sized(k)].proposed; ++i) {
      if ((sets_of(k)[c] >> i & 1) != 0) { on_canvas_[count++] = drafts_of(k)[i]; }
    }
    return std::span(on_canvas_).first(count);
  }

  drafted_canvases drafted_canvases_of(std::int32_t k) const {
    const planned_round& round = rounds_[sized(k)];
    return {.drafted = round.drafted,
            .proposed = round.proposed,
            .drafts = drafts_of(k),
            .sets = sets_of(k),
            .accepted = accepted_.data() + draft_index(k)};
  }

  std::int32_t masks_of_block(const running_canvas& r) const {
    const auto begin = r.tokens.begin() + r.state.filled;
    const auto end = r.tokens.begin() + r.end_of_block(r.state.filled);
    return static_cast<std::int32_t>(std::count(begin, end, limits_.mask_token));
  }

  template <class Evaluation>
  void verify(std::int32_t size, Evaluation& evaluation) {
    for (std::int32_t k = 0; k < size; ++k) {
      const planned_round& round = rounds_[sized(k)];
      const running_canvas& r = slots_[sized(round.slot)];
      pass_.show(k, round.first_canvas, drafted_canvases_of(k), digests_for<digests_of<real>>(r));
    }
    pass_.take(executor_, evaluation);
    executor_.launch(
        size,
        kernel::verify_unmaskings<typename pass_type::view_type, typename parts::verifier_type>{
            .views = pass_.views(),
            .verdicts = verdicts_.data(),
            .plans = plans_.data(),
            .capacity = parts::drafts_by_model ? 0 : max_drafts,
            .entropies = length_policy::needs_entropy,
            .verifier = verifier_});
    executor_.synchronize();
  }

  /// Cuts the unmaskings of request k where decoding one token a pass would have ended.
  void trim(std::int32_t k) {
    planned_round& round = rounds_[sized(k)];
    const running_canvas& r = slots_[sized(round.slot)];
    const unmask_verdict& v = verdicts_.data()[k];
    const bool failed = v.next.status != status::ok;
    token* const text = staged_.data();
    std::ranges::copy(r.tokens, text);
    round.state = r.state;
    const std::int32_t decided = v.accepted + (failed ? 0 : 1);
    while (round.finish == finish_reason::none && round.unmasked < decided) {
      const bool drafted = round.unmasked < v.accepted;
      const unmasking w = drafted ? accepted_.data()[draft_index(k, round.unmasked)] : v.next.what;
      text[w.position] = w.t;
      unmaskings_[canvas_index(k, round.unmasked)] = w;
      origins_[canvas_index(k, round.unmasked)] = drafted ? origin::accepted : origin_of_next(k);
      ++round.unmasked;
      round.finish = r.ends_with(w, text, round.state, limits_.mask_token);
    }
    if (failed && round.finish == finish_reason::none) {
      round.finish = finish_reason::error;
      round.status = v.next.status;
    }
  }

  /// Of the unmasking after the accepted drafts of request k: was a draft refused for it?
  origin origin_of_next(std::int32_t k) const {
    const unmask_verdict& v = verdicts_.data()[k];
    const drafted_canvases drafts = drafted_canvases_of(k);
    for (std::int32_t c = 1; c <= drafts.drafted; ++c) {
      if (drafts.added(v.canvas, c) >= 0) { return origin::corrected; }
    }
    return v.accepted > 0 ? origin::bonus : origin::sampled;
  }

  template <class Evaluation>
  void commit(std::int32_t size, const Evaluation& evaluation) noexcept {
    std::ranges::fill(outcomes_, draft_outcome{});
    for (std::int32_t k = 0; k < size; ++k) {
      const planned_round& round = rounds_[sized(k)];
      draft_outcome& outcome = outcomes_[sized(round.slot)];
      outcome.slot = round.slot;
      outcome.kept = std::min(round.unmasked, verdicts_.data()[k].accepted);
      outcome.finished = round.finish != finish_reason::none;
    }
    lengths_.with(drafts_.length).observe(draft_outcomes{options_.max_batch, outcomes_.data(), 0});
    if constexpr (parts::drafts_observe) {
      for (std::int32_t k = 0; k < size; ++k) { kept_[sized(k)] = kept_canvas(k); }
      drafts_.model.observe(decided_canvases{pass_.view(), size, kept_.data()}, evaluation);
    }
    for (std::int32_t k = 0; k < size; ++k) { advance(k); }
    ++statistics_.target_passes;
    statistics_.target_rows += pass_.size();
  }

  /// Writes what was decided for request k into its text, and reports it.
  void advance(std::int32_t k) noexcept {
    const planned_round& round = rounds_[sized(k)];
    running_canvas& r = slots_[sized(round.slot)];
    const auto count = sized(round.unmasked);
    const std::span<const unmasking> unmaskings{unmaskings_.data() + canvas_index(k), count};
    for (const unmasking& w : unmaskings) { r.tokens[sized(w.position)] = w.t; }
    r.state = round.state;
    statistics_.count(round.drafted, round.deepest, outcomes_[sized(round.slot)].kept,
                      round.unmasked);
    keep_plan(k, r);
    const bool stopped = round.finish == finish_reason::stop_token;
    const std::int32_t end = stopped ? r.state.stopped_at + 1 : r.length();
    const std::span<const token> canvas = r.tokens;
    emissions_.push_back({.id = r.id,
                          .unmaskings = unmaskings,
                          .origins = {origins_.data() + canvas_index(k), count},
                          .canvas = canvas,
                          .answer = canvas.subspan(sized(r.answer), sized(end - r.answer)),
                          .finish = round.finish,
                          .status = round.status,
                          .failed_position = round.status == status::ok
                                                 ? -1
                                                 : verdicts_.data()[k].next.what.position});
    if (round.finish != finish_reason::none) { release(round.slot); }
  }

  /// The one that all accepted drafts of request k are on.
  std::int32_t kept_canvas(std::int32_t k) const {
    return rounds_[sized(k)].first_canvas + verdicts_.data()[k].canvas;
  }

  /// The drafts of request k's next round, or how many there may be. Logits that were made under an
  /// older cache make none, and say nothing to a draft model.
  void keep_plan(std::int32_t k, running_canvas& r) noexcept {
    r.opened = pass_.known(rounds_[sized(k)].first_canvas);
    r.planned = 0;
    if (parts::caches_blocks && r.known() != r.opened) { return; }
    if constexpr (parts::drafts_observe) {
      // What was wanted of the canvas, but for the unmasking that it decided.
      r.planned = std::min(max_drafts, pass_.positions(kept_canvas(k)).count - 1);
    } else if constexpr (parts::drafts_by_model) {
      r.planned = max_drafts;
    } else {
      const planned_draft* const plan = plans_.data() + draft_index(k);
      while (r.planned < max_drafts && plan[r.planned].digest >= 0) {
        r.plan[sized(r.planned)] = plan[r.planned];
        ++r.planned;
      }
    }
  }

  void release(std::int32_t slot) noexcept {
    model_.release(slot);
    if constexpr (parts::drafts_by_model) { drafts_.model.release(slot); }
    slots_.release(slot);
  }

  Model model_;
  typename parts::order_type order_;
  typename parts::sampler_type sampler_;
  typename parts::verifier_type verifier_;
  D drafts_;
  Random random_;
  E executor_;
  canvas_limits limits_;
  decoder_options options_;
  pass_type pass_;
  std::conditional_t<parts::drafts_by_model, drafting_passes<draft_digests, E>, no_drafting_passes>
      draft_passes_;
  buffer<unmasking> drafts_of_requests_;
  buffer<std::uint64_t> sets_;
  buffer<unmasking> accepted_;
  buffer<unmask_verdict> verdicts_;
  buffer<planned_draft> plans_;
  draft_sets chooser_;
  std::vector<unmasking> on_canvas_;
  std::vector<std::int32_t> kept_;  ///< the canvas of each request that a draft model observes
  std::vector<token> staged_;       ///< the text of one request while its unmaskings are cut
  drafter::length_slots<length_policy, E> lengths_;
  request_slots<running_canvas> slots_;
  std::vector<planned_round> rounds_;
  std::vector<draft_outcome> outcomes_;
  std::vector<unmasking> unmaskings_;
  std::vector<origin> origins_;
  std::vector<emission> emissions_;
  statistics<max_drafts + 1> statistics_;
  std::int32_t draft_length_ = 0;
};

template <class Model, class O, class S, class V>
decoder(Model&&, O&&, S&&, V&&) -> decoder<Model, O, S, V>;

template <class Model, class O, class S, class V, class D>
decoder(Model&&, O&&, S&&, V&&, D&&) -> decoder<Model, O, S, V, D>;

template <class Model, class O, class S, class V, class D>
decoder(Model&&, O&&, S&&, V&&, D&&, decoder_options) -> decoder<Model, O, S, V, D>;

template <class Model, class O, class S, class V, class D, class Random>
decoder(Model&&, O&&, S&&, V&&, D&&, decoder_options, Random) -> decoder<Model, O, S, V, D, Random>;

template <class Model, class O, class S, class V, class D, class Random, class E>
decoder(Model&&, O&&, S&&, V&&, D&&, decoder_options, Random, E)
    -> decoder<Model, O, S, V, D, Random, E>;

}  // namespace hunch::diffusion
