// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/decoding_step.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/decoder/stop.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/length/step_summary.hpp>
#include <hunch/sampler/grammar.hpp>

namespace hunch {

/// Sizes that a decoder fixes at construction, so that a step allocates nothing.
struct decoder_options {
  std::int32_t max_batch = 1;           ///< requests that run at the same time
  std::int32_t chunk = 256;             ///< prompt tokens read per sequence and step, >= 2
  std::int32_t draft_length = 1 << 30;  ///< draft at most so deep; see `decoder::draft_length`
  /// Tokens of a text at most, prompt and answer, >= 2: longer requests are refused. Drafters that
  /// keep something for every token have room for so many.
  std::int32_t max_length = std::numeric_limits<std::int32_t>::max();
  /// Most probable tokens that a request may have reported for each of its own, at most all of
  /// them; -1: none, and not the log-probabilities of its own either. Fixes the memory for them.
  std::int32_t max_log_probabilities = -1;
  /// Whether the times of the phases of a step are those of what they compute, for which the host
  /// waits at the end of each; else each is how long the host took to launch it. Where the host
  /// reads the executor's memory they always are.
  bool times_phases = true;
  /// The bytes of a token, for stop strings; not needed without them. The view must stay valid
  /// until the next call. However long a token is, no step allocates for it.
  std::function<std::string_view(token)> token_text = {};
};

/// Speculative decoding, composed at compile time from a target model and four policies, and driven
/// by the host.
///
/// A step (see `decoding_step`) is: propose (the drafter grows one tree per sequence), evaluate
/// (one target pass over all rows), verify (sampler and verifier decide, stops cut), commit (caches
/// and texts advance). Everything before the commit is staged: a model that throws leaves the
/// decoder as it was, and the step can be repeated with the same result. The commit itself neither
/// throws nor allocates.
///
/// Requests join between steps, finish at any step, and can be cancelled between steps. The text
/// of a request depends on its prompt, its parameters and its seed, and not on the batch.
///
/// Grammars, stop strings and log-probabilities need the host within a step: it waits for them in
/// steps of requests that use them, and in no others. Where the host does not read the executor's
/// memory, what is said of models of a `resident_decoder` holds here too, but that logits and
/// states may move; rows are padded up to what the host knows of a step.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
class decoder {
  using step_type = decoding_step<Target, D, Selector, S, V, Random, E>;
  using memory = typename step_type::memory;
  using drafter_type = typename step_type::drafter_type;

 public:
  using real = typename step_type::real;

  /// Whether the emitted text has exactly the law of plain decoding: ask with a static_assert.
  static constexpr bool lossless = step_type::parts::lossless;
  static constexpr std::int32_t max_nodes = step_type::max_nodes;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  decoder(Target&& target, D&& drafter, Selector&& selector, S&& sampler, V&& verifier,
          decoder_options options = {}, Random random = {}, E executor = {})
      : target_(std::forward<Target>(target)),
        executor_(std::move(executor)),
        vocab_size_(static_cast<std::int32_t>(target_.vocab_size())),
        options_(checked(std::move(options), vocab_size_)),
        step_(executor_, std::forward<D>(drafter), std::forward<Selector>(selector), sampler,
              verifier, random,
              {.max_batch = options_.max_batch,
               .chunk = options_.chunk,
               .chunks = options_.max_batch * options_.chunk,
               .max_length = options_.max_length,
               .vocab_size = vocab_size_,
               .ring = max_nodes,
               .log_probabilities = options_.max_log_probabilities,
               .eager_rows = host_reads<memory> ? 0 : 256,
               .moves = false,
               .reports = true}),
        slots_(options_.max_batch, "hunch::decoder", "decoder_options"),
        tokens_(index(options_.max_batch) * index(max_nodes)),
        origins_(tokens_.size()) {
    emissions_.reserve(index(options_.max_batch));
    draft_length(options_.draft_length);
  }

  /// Neither copied nor moved: its memory refers to its own selector. `auto d = make()` works.
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  /// Drops the caches of what still runs, so that models held by reference can serve again.
  ~decoder() {
    for (const request& r : slots_) { cancel(r.id); }
    attempt([this] { executor_.synchronize(); });  // before what it runs loses its memory
  }

  /// Adds a request; it takes part from the next step on. Only the id is returned: text comes from
  /// `step`. Allocates room for the prompt and `max_new_tokens`, so that no step has to. Waits for
  /// the executor.
  /// \throws std::invalid_argument naming what is wrong with the request: nothing is ever ignored.
  /// \throws std::length_error if `max_batch` requests are running.
  request_id add(std::span<const token> prompt, const generation_options& options) {
    check_request(prompt, options, step_.sampler(),
                  {.owner = "hunch::decoder",
                   .options = "decoder_options",
                   .vocab_size = vocab_size_,
                   .max_length = options_.max_length,
                   .log_probabilities = options_.max_log_probabilities,
                   .has_token_text = bool(options_.token_text)});
    slots_.require_room();
    request r(prompt, options, max_nodes);
    executor_.synchronize();  // what a step that threw has launched may read what was here
    const std::int32_t slot = slots_.first_free();
    step_.requests().reserve(
        step_.where(), slot,
        {.tokens = prompt.size() + static_cast<std::size_t>(options.max_new_tokens),
         .bias = options.bias.size(),
         .stops = options.stop_tokens.size()});
    const request_id id = slots_.admit(std::move(r));
    step_.requests().put(slot, id, prompt, options);
    step_.take(slot);
    step_.trees().constrain(slot, slots_[index(slot)].grammar.get());
    return id;
  }

  /// Ends a request between two steps. False if it is not running. Waits for the executor.
  bool cancel(request_id id) noexcept {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0) { return false; }
    target_.commit(step_.release(slot, executor_));
    free(slot);
    return true;
  }

  std::int32_t running() const { return slots_.running(); }
  bool is_running(request_id id) const { return slots_.find(id) >= 0; }

  /// Runs one step for all running requests and returns what each of them emitted; the views are
  /// valid until the next call of `step`, `add` or `cancel`. A request that only read a piece of
  /// its prompt is left out. Returns nothing when nothing runs. Waits for the executor at its end,
  /// for grammars and stop strings, and where times of phases are taken or the host reads how many
  /// rows there are.
  /// \throws what a model throws; nothing is lost, and the next call repeats the step.
  std::span<const emission> step() {
    detail::stopwatch watch;
    emissions_.clear();
    if (slots_.running() == 0) { return {}; }
    const step_bounds now = bounds();
    step_.propose(now);
    end_phase();
    summary_ = {};
    const double draft_seconds = watch.lap();
    const rows pass = step_.rows(now);
    auto evaluation = target_.evaluate(pass);
    end_phase();
    const double target_seconds = watch.lap();
    step_.verify(now, pass, evaluation, false);
    if (some([](const request& r) { return r.log_probabilities >= 0; })) { step_.report(now); }
    const bool cut =
        some([](const request& r) { return !r.stops.empty(); }) && cut_at_stop_strings();
    step_.commit(now, pass, evaluation, cut);
    target_.commit(step_.kept(now));
    attempt([this] { executor_.synchronize(); });
    summary_.draft_length = draft_length();
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) { advance(slot); }
    summary_.draft_seconds = draft_seconds;
    summary_.target_seconds = target_seconds;
    summary_.verify_seconds = watch.lap();
    times_.draft_seconds += draft_seconds;
    times_.target_seconds += target_seconds;
    times_.verify_seconds += summary_.verify_seconds;
    return emissions_;
  }

  /// The tokens of one request as a lazy range: each increment takes a token, and a step is run
  /// when none is left. Other running requests advance in the same steps, and what they emit is
  /// lost; use `add` and `step` for batches. \throws what `add` does.
  generation<decoder> generate(std::span<const token> prompt,
                               const generation_options& options = {}) {
    return generation<decoder>(*this, prompt, options);
  }

  /// Drafts at most `length` levels from the next step on, within what the drafter's tree holds;
  /// 0 is plain decoding. Changes speed, never the law.
  void draft_length(std::int32_t length) { step_.draft_length(length); }
  std::int32_t draft_length() const { return step_.draft_length(); }

  /// The same for one request, whatever is allowed to others. With `emission::drafted` of an
  /// earlier run, step by step, and `length::fixed`, its text is repeated, whatever chose these
  /// lengths. False if it is not running.
  bool draft_length(request_id id, std::int32_t length) {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0) { return false; }
    slots_[index(slot)].draft_length = std::max(length, std::int32_t{0});
    step_.draft_length(slot, slots_[index(slot)].draft_length);
    return true;
  }

  /// Waits for the executor.
  statistics<max_nodes> stats() const {
    statistics<max_nodes> all = step_.stats();
    all += times_;
    return all;
  }
  void reset_stats() {
    step_.reset_stats();
    times_ = {};
  }
  /// Of the last step that was completed.
  const step_summary& last_step() const { return summary_; }

 private:
  /// What the host knows of a request while it runs.
  struct request {
    request_id id = 0;        ///< 0: none
    std::int32_t unread = 0;  ///< tokens before the root that the target has not read
    std::int32_t draft_length = std::numeric_limits<std::int32_t>::max();  ///< levels, at most
    std::int32_t log_probabilities = -1;
    std::unique_ptr<grammar_walk> grammar;  ///< nullptr: none
    stop_strings stops;
    stop_tail tail;
    stop_tail staged_tail;  ///< `tail` after the tokens of this step

    request() = default;
    request(std::span<const token> prompt, const generation_options& options,
            std::int32_t max_nodes_of_tree)
        : unread(static_cast<std::int32_t>(prompt.size()) - 1),
          log_probabilities(options.log_probabilities.value_or(-1)),
          stops(options.stop_strings) {
      if (options.grammar) { grammar = options.grammar.begin(max_nodes_of_tree); }
      tail.text.reserve(stops.tail_size());
      staged_tail.text.reserve(tail.text.capacity());
    }
  };

  static decoder_options checked(decoder_options o, std::int32_t vocab_size) {
    const refusal refuse{"hunch::decoder"};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (o.chunk < 2) { refuse({"chunk must be at least 2"}); }
    if (o.max_length < 2) { refuse({"max_length must be at least 2"}); }
    if (o.max_log_probabilities < -1 || o.max_log_probabilities > vocab_size) {
      refuse({"max_log_probabilities is ", o.max_log_probabilities,
              "; it may be -1, for none, up to the ", vocab_size, " tokens of the vocabulary"});
    }
    const std::int64_t rows_per_sequence = static_cast<std::int64_t>(o.chunk) + max_nodes;
    if (rows_per_sequence * o.max_batch > std::numeric_limits<std::int32_t>::max()) {
      refuse({"max_batch * chunk is too large for a step"});
    }
    return o;
  }

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  /// What the next step has at most.
  step_bounds bounds() const {
    step_bounds b{.slots = options_.max_batch};
    for (const request& r : slots_) {
      if (r.id == 0) { continue; }
      b.prompt_rows += std::min(r.unread, options_.chunk);
      if (r.unread > options_.chunk) { continue; }
      b.tree_rows += std::min(draft_length(), r.draft_length) > 0 ? max_nodes : 1;
    }
    return b;
  }

  /// Whether a running request is such a one.
  template <class Is>
  bool some(Is&& is) const {
    return std::ranges::any_of(slots_, [&](const request& r) { return r.id != 0 && is(r); });
  }

  void end_phase() {
    if (options_.times_phases || host_reads<memory>) { executor_.synchronize(); }
  }

  /// Looks for stop strings in what requests with some are about to emit, so that an accepted run
  /// ends where plain decoding would have ended. Returns whether one was found.
  bool cut_at_stop_strings() {
    executor_.synchronize();
    const rings out = step_.ring_view();
    bool found = false;
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      step_decision& cut = step_.cuts()[slot] = {};
      cut.emitted = max_nodes + 1;  // longer than any
      request& r = slots_[index(slot)];
      const step_decision& decided = step_.report_of(slot).decided;
      if (r.id == 0 || r.stops.empty()) { continue; }
      r.staged_tail = r.tail;
      for (std::int32_t i = 0; i < decided.emitted; ++i) {
        const ring_entry& e = out.at(slot, out.written[slot] + i);
        if (e.finish == finish_reason::stop_token ||
            !r.stops.feed(r.staged_tail, options_.token_text(e.t))) {
          continue;
        }
        cut = {.emitted = i + 1, .finish = finish_reason::stop_string, .status = status::ok};
        found = true;
        break;
      }
    }
    return found;
  }

  /// Takes what a slot has emitted, and reports it.
  void advance(std::int32_t slot) {
    request& r = slots_[index(slot)];
    const step_report& report = step_.report_of(slot);
    if (r.id == 0 || !report.takes_part) { return; }
    r.unread -= report.prefix;
    const std::size_t first = index(slot) * index(max_nodes);
    std::size_t count = 0;
    emission e;
    e.id = r.id;
    step_.ring().take(slot, [&](const ring_entry& entry) {
      e.finish = entry.finish;
      e.status = entry.status;
      if (entry.t == no_token) { return; }
      tokens_[first + count] = entry.t;
      origins_[first + count] = entry.origin;
      ++count;
      if (r.grammar != nullptr) { r.grammar->commit(entry.t); }
    });
    e.tokens = {tokens_.data() + first, count};
    e.origins = {origins_.data() + first, count};
    std::swap(r.tail, r.staged_tail);
    if (e.finish == finish_reason::stop_string) { e.cut_bytes = r.tail.cut; }
    if (r.log_probabilities >= 0) {
      e.log_probabilities = {step_.log_probabilities(slot), count * index(1 + r.log_probabilities)};
    }
    e.drafted = report.levels;
    sum_up(report, e);
    if (count > 0 || e.finish != finish_reason::none) { emissions_.push_back(e); }
    if (e.finish != finish_reason::none) { free(slot); }
  }

  void sum_up(const step_report& report, const emission& e) {
    summary_.prompt_rows += report.prefix;
    if (!report.verified) { return; }
    ++summary_.sequences;
    summary_.finished += e.finish != finish_reason::none ? 1 : 0;
    summary_.deepest = std::max(summary_.deepest, report.levels);
    summary_.levels += report.levels;
    summary_.tested += std::min(report.levels, report.accepted + 1);
    summary_.accepted += report.accepted;
    summary_.drafted += report.drafted;
    summary_.emitted += report.decided.emitted;
  }

  /// What a slot had is gone.
  void free(std::int32_t slot) noexcept {
    step_.trees().constrain(slot, nullptr);
    slots_.release(slot);
  }

  Target target_;
  E executor_;
  std::int32_t vocab_size_;
  decoder_options options_;
  mutable step_type step_;  // reading its counters waits for the executor
  request_slots<request> slots_;
  std::vector<token> tokens_;    ///< [max_batch, max_nodes]
  std::vector<origin> origins_;  ///< [max_batch, max_nodes]
  std::vector<emission> emissions_;
  statistics<max_nodes> times_;
  step_summary summary_;
};

template <class Target, class D, class Selector, class S, class V, class... Rest>
decoder(Target&&, D&&, Selector&&, S&&, V&&, Rest...) -> decoder<Target, D, Selector, S, V>;

template <class Target, class D, class Selector, class S, class V, class Random>
decoder(Target&&, D&&, Selector&&, S&&, V&&, decoder_options, Random)
    -> decoder<Target, D, Selector, S, V, Random>;

template <class Target, class D, class Selector, class S, class V, class Random, class E>
decoder(Target&&, D&&, Selector&&, S&&, V&&, decoder_options, Random, E)
    -> decoder<Target, D, Selector, S, V, Random, E>;

}  // namespace hunch
