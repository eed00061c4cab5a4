// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/composition.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/decoder/token_census.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/resident/step.hpp>
#include <hunch/selector/selecting.hpp>

namespace hunch {

/// Sizes that a resident loop fixes at construction.
struct resident_options {
  std::int32_t max_batch = 1;      ///< requests that run at the same time
  std::int32_t max_length = 4096;  ///< tokens of a sequence, prompt and emitted, >= 2; the models'
                                   ///< caches hold as many
  std::int32_t chunk = 256;        ///< prompt tokens that a step reads, of all requests, >= 1
  std::int32_t draft_length = 1 << 30;  ///< draft at most so deep, at least 1
  std::int32_t max_bias = 64;           ///< biased tokens of a request
  std::int32_t ring = 1024;  ///< emitted tokens of a request that wait to be polled: at least the
                             ///< drafter's `max_nodes`, as many as a step may emit
  /// While a step has at most so many target rows, their laws are made side by side before the
  /// verifier asks; else one after the other, and only those that it reads. 0: never.
  std::int32_t eager_rows = 256;
};

/// Speculative decoding as a loop that does not wait for the host: the same policies, laws, random
/// addresses and texts as `decoder`, with everything that a step reads or writes at fixed places in
/// the executor's resident memory. A step is a fixed sequence of launches and calls of the models,
/// so that an executor can record it and repeat it by itself (see `ResidentExecutor`); tokens leave
/// it through rings that the host reads meanwhile.
///
/// What needs the host between two steps is refused: grammars, stop strings, log-probabilities.
/// Use `decoder` for these, also on the same models.
///
/// Prompts are read in the passes in which other requests decode, `chunk` tokens of all requests at
/// a time. A pass has at most `max_batch * max_nodes + chunk` rows.
///
/// The models' contracts are those of `decoder`, with these additions. Caches hold `max_length`
/// tokens per sequence: statuses are not looked at. And where the executor's resident memory is not
/// its buffers, so that the host reads nothing of it: rows, kept rows, inputs of heads and released
/// slots may be padding (see `rows`), and all passes have as many as they may have at most.
/// `evaluate`, `forward`, `head` and `commit` look at their arrays on the executor, in order with
/// its launches, and at nothing on the host but the numbers of rows. The logits of row i of a pass,
/// padding and what is not wanted included, lie at the same address in every pass; so do hidden
/// states and streams, for drafters that read them.
///
/// One host thread at a time uses a loop.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
class resident_decoder {
  using memory = resident_memory<E>;
  using parts = composition<Target, D, Selector, S, V, Random, memory>;
  using drafter_type = typename parts::drafter_type;
  using sampler_type = typename parts::sampler_type;
  using verifier_type = typename parts::verifier_type;
  static_assert(ResidentExecutor<E>,
                "hunch: a resident loop needs an executor that models hunch::ResidentExecutor, "
                "such as executor::host or executor::cuda");

 public:
  using real = typename parts::real;

  /// Whether the emitted text has exactly the law of plain decoding.
  static constexpr bool lossless = parts::lossless;
  static constexpr std::int32_t max_nodes = parts::max_nodes;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  resident_decoder(Target&& target, D&& drafter, Selector&& selector, S&& sampler, V&& verifier,
                   resident_options options = {}, Random random = {}, E executor = {})
      : target_(std::forward<Target>(target)),
        drafter_(std::forward<D>(drafter)),
        selector_(std::forward<Selector>(selector)),
        sampler_(sampler),
        verifier_(verifier),
        random_(random),
        executor_(std::move(executor)),
        options_(checked(options)),
        vocab_size_(static_cast<std::int32_t>(target_.vocab_size())),
        memory_(executor_),
        sequences_(memory_, {.max_batch = options_.max_batch,
                             .max_length = options_.max_length,
                             .max_bias = options_.max_bias,
                             .vocab_size = vocab_size_,
                             .counts = sampler_type::needs_counts}),
        trees_(memory_, {.max_batch = options_.max_batch,
                         .max_nodes = max_nodes,
                         .max_ranges = selector_.max_ranges(),
                         .max_rows = drafter_type::uses_selector ? selector_.max_rows() : 0,
                         .vocab_size = vocab_size_,
                         .grammars = false,
                         .max_parts = shifted_parts_of(selector_),
                         .law_rows = law_rows_of<drafter_type>()}),
        draft_state_(memory_, setup()),
        selecting_(selector_, memory_, options_.max_batch * law_rows_of<drafter_type>()),
        plans_(memory_, batch()),
        contexts_(memory_, batch()),
        outcomes_(memory_, batch()),
        rows_(memory_, max_rows()),
        kept_(memory_, max_rows(), options_.max_batch),
        counts_(memory_, 3),
        laws_(memory_, batch_nodes()),
        scratch_(memory_, batch_nodes()),
        paths_(memory_, batch_nodes()),
        counters_(memory_, batch()),
        counted_(memory_, batch()),
        steps_(memory_, 1),
        steps_left_(memory_, 1),
        again_(memory_, 1),
        logits_(executor_, static_cast<std::size_t>(max_rows())),
        entries_(executor_, batch() * static_cast<std::size_t>(options_.ring)),
        written_(executor_, batch()),
        read_(executor_, batch()),
        signals_(executor_, 1),
        released_(executor_, 0, 1),
        slots_(batch()) {
    drafter_.check(setup());
  }

  resident_decoder(const resident_decoder&) = delete;
  resident_decoder& operator=(const resident_decoder&) = delete;

  /// Ends the loop and drops the caches of what still runs.
  ~resident_decoder() {
    try {
      for (const request_id id : slots_) { cancel(id); }
      wait();  // for a loop of which every end has been polled before its last step was over, too
    } catch (...) {  // an executor that has failed: what it ran is lost, and so are the caches
    }
    if constexpr (requires { executor_.forget(again_.data()); }) {
      executor_.forget(again_.data());
    }
  }

  /// Adds a request: ends the loop as `wait` does, and lets the request take part from the next
  /// `run` on. Tokens that were not polled stay in their rings.
  /// \throws std::invalid_argument naming what is wrong with the request: nothing is ever ignored.
  /// \throws std::length_error if `max_batch` requests are running, or their ends are not polled.
  request_id add(std::span<const token> prompt, const generation_options& options) {
    check(prompt, options);
    wait();
    const auto free = std::ranges::find(slots_, request_id{0});
    if (free == slots_.end()) {
      throw std::length_error(
          message({"hunch::resident_decoder: ", options_.max_batch,
                   " requests are running; raise resident_options::max_batch"}));
    }
    const auto slot = static_cast<std::int32_t>(free - slots_.begin());
    place(slot, prompt, options);
    *free = last_id_;
    ++running_;
    return last_id_;
  }

  /// Ends a request, and drops what was not polled of it; ends the loop as `wait` does. False if it
  /// is not running, or its end has been polled.
  bool cancel(request_id id) {
    const auto found = std::ranges::find(slots_, id);
    if (id == 0 || found == slots_.end()) { return false; }
    wait();
    const auto slot = static_cast<std::int32_t>(found - slots_.begin());
    const resident::sequence none;
    executor_.upload(sequences_.view().of + slot, &none, 1);
    release(slot);
    read_.data()[slot] = written_.data()[slot];
    *found = 0;
    --running_;
    return true;
  }

  /// Requests whose end has not been polled.
  std::int32_t running() const { return running_; }

  /// Starts at most `max_steps` steps and need not wait for them. The loop ends by itself when
  /// every request has ended, or one of them has no room in its ring for what a step may emit:
  /// `poll`, and run again. A run after another one waits for that one.
  /// \throws std::logic_error if the target's logits of a row have moved, and what models throw in
  ///         a step or while it is recorded.
  void run(std::int64_t max_steps = std::int64_t{1} << 40) {
    executor_.synchronize();
    if (max_steps < 1 || !can_step()) { return; }
    signals_.data()->stop = 0;
    executor_.upload(steps_left_.data(), &max_steps, 1);
    const std::int32_t slots = used_slots();
    executor_.repeat(
        static_cast<std::uint64_t>(slots), [&] { step(slots); }, again_.data());
  }

  /// Asks the loop to end after its present step.
  void stop() { resident::store_release(&signals_.data()->stop, 1); }

  /// Asks the loop to end and waits for it.
  void wait() {
    stop();
    executor_.synchronize();
  }

  /// Calls use(entry) for every `resident::ring_entry` that has come out: tokens, and the end of
  /// every request, those of one request in order. May be called while the loop runs; does not
  /// wait. `use` does not throw and does not call this object.
  template <class Use>
  void poll(Use&& use) {
    const resident::rings out = rings();
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      const std::int64_t end = resident::load_acquire(out.written + slot);
      std::int64_t n = out.read[slot];
      for (; n < end; ++n) {
        const resident::ring_entry entry = out.at(slot, n);
        if (entry.finish != finish_reason::none) {
          slots_[static_cast<std::size_t>(slot)] = 0;
          --running_;
        }
        use(entry);
      }
      resident::store_release(out.read + slot, n);
    }
  }

  /// What one request emits, run to its end. What other requests emit meanwhile is lost. \throws
  /// what `add` and `run` do; after an error of `run` the request is still there.
  finished_text generate(std::span<const token> prompt, const generation_options& options = {}) {
    const request_id id = add(prompt, options);
    finished_text out;
    while (std::ranges::find(slots_, id) != slots_.end()) {
      run();
      executor_.synchronize();
      poll([&](const resident::ring_entry& e) {
        if (e.id != id) { return; }
        if (e.t != no_token) { out.tokens.push_back(e.t); }
        out.finish = e.finish;
        out.status = e.status;
      });
    }
    return out;
  }

  /// Counters since construction; ends the loop as `wait` does. Times are not measured, rows of the
  /// target are not counted.
  statistics<max_nodes> stats() {
    wait();
    std::vector<statistics<max_nodes>> of_slots(batch());
    executor_.download(of_slots.data(), counters_.data(), of_slots.size());
    statistics<max_nodes> all;
    for (const statistics<max_nodes>& s : of_slots) { all += s; }
    all.target_passes = signals_.data()->steps;
    return all;
  }

  E& executor() { return executor_; }

 private:
  template <class T>
  using resident_buffer = typename memory::template buffer<T>;
  template <class T>
  using buffer = typename E::template buffer<T>;
  using arrays_type = resident::step_arrays<real, max_nodes>;
  using view_type =
      verify_view<resident::slot_laws<real, sampler_type, max_nodes>,
                  stored_drafts<law<real>, selects_one_range<Selector>>,
                  std::conditional_t<drafter_type::is_chain, chain_tokens, drafted_tokens>>;

  static resident_options checked(resident_options o) {
    const refusal refuse{"hunch::resident_decoder"};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (o.max_length < 2) { refuse({"max_length must be at least 2"}); }
    if (o.chunk < 1) { refuse({"chunk must be at least 1"}); }
    if (o.draft_length < 1) { refuse({"draft_length must be at least 1; or use drafter::none"}); }
    if (o.max_bias < 0) { refuse({"max_bias must not be negative"}); }
    if (o.ring < max_nodes) {
      refuse({"ring must have room for the ", max_nodes, " tokens that a step may emit"});
    }
    o.draft_length = std::min(o.draft_length, max_nodes - 1);
    return o;
  }

  void check(std::span<const token> prompt, const generation_options& options) const {
    const refusal refuse{"hunch::resident_decoder"};
    if (options.grammar) { refuse({"grammars need the host in every step: use hunch::decoder"}); }
    if (!options.stop_strings.empty()) {
      refuse({"stop strings need the host in every step: use hunch::decoder"});
    }
    if (options.log_probabilities) {
      refuse({"log-probabilities are not reported here: use hunch::decoder"});
    }
    check_request(prompt, options, sampler_,
                  {.owner = "hunch::resident_decoder",
                   .options = "resident_options",
                   .vocab_size = vocab_size_,
                   .max_length = options_.max_length});
    if (options.stop_tokens.size() > static_cast<std::size_t>(resident::max_stop_tokens)) {
      refuse({"at most ", resident::max_stop_tokens, " stop tokens"});
    }
    if (options.bias.size() > static_cast<std::size_t>(options_.max_bias)) {
      refuse({options.bias.size(), " biased tokens: raise resident_options::max_bias"});
    }
  }

  std::size_t batch() const { return static_cast<std::size_t>(options_.max_batch); }
  std::size_t batch_nodes() const { return batch() * static_cast<std::size_t>(max_nodes); }

  /// Of a pass.
  std::int32_t max_rows() const { return options_.max_batch * max_nodes + options_.chunk; }

  drafter_setup setup() {
    return setup_of(drafter_, selector_,
                    {.max_batch = options_.max_batch,
                     .chunk = options_.chunk,
                     .chunks = options_.chunk,
                     .max_length = options_.max_length,
                     .vocab_size = vocab_size_});
  }
  resident::rings rings() const {
    return {.capacity = options_.ring,
            .entries = entries_.data(),
            .written = written_.data(),
            .read = read_.data(),
            .counted = counted_.data()};
  }

  arrays_type arrays(std::int32_t slots) const {
    return {.all = sequences_.view(),
            .trees = trees_.view(),
            .slots = slots,
            .chunk = options_.chunk,
            .draft_length = options_.draft_length,
            .plans = plans_.data(),
            .contexts = contexts_.data(),
            .outcomes = outcomes_.data(),
            .rows = rows_.arrays(),
            .logits = logits_.data(),
            .laws = laws_.data(),
            .scratch = scratch_.data(),
            .paths = paths_.data(),
            .kept = kept_.arrays(),
            .counts = counts_.data(),
            .out = rings(),
            .counters = counters_.data()};
  }

  void place(std::int32_t slot, std::span<const token> prompt, const generation_options& options) {
    const resident::sequences all = sequences_.view();
    resident::sequence s;
    s.id = ++last_id_;
    s.length = static_cast<std::int32_t>(prompt.size());
    s.remaining = options.max_new_tokens;
    s.seed = options.seed;
    s.parameters = options.sampling();
    s.parameters.bias = s.parameters.bias_count > 0 ? all.bias(slot) : nullptr;
    s.stop_count = static_cast<std::int32_t>(options.stop_tokens.size());
    std::ranges::copy(options.stop_tokens, s.stop);
    executor_.upload(all.text(slot), prompt.data(), prompt.size());
    executor_.upload(all.bias(slot), options.bias.data(), options.bias.size());
    if (sampler_type::needs_counts) {
      executor::host host;
      const token_census<executor::host> census(host, vocab_size_, prompt, 0);
      const token_counts counts = census.view();
      const token_counts to = all.counts(slot);
      const auto size = static_cast<std::size_t>(counts.size);
      s.occurring = counts.size;
      executor_.upload(const_cast<token*>(to.tokens), counts.tokens, size);
      executor_.upload(const_cast<std::int32_t*>(to.emitted), counts.emitted, size);
      executor_.upload(const_cast<std::int32_t*>(to.index), counts.index,
                       static_cast<std::size_t>(vocab_size_));
    }
    executor_.upload(all.of + slot, &s, 1);
  }

  /// Drops the caches of a slot.
  void release(std::int32_t slot) {
    released_.clear();
    released_.release(slot);
    drafter_.release(draft_state_, slot, memory_);
    target_.commit(released_.view());
    executor_.synchronize();
  }

  bool can_step() const {
    const resident::rings out = rings();
    bool any = false;
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      if (slots_[static_cast<std::size_t>(slot)] == 0) { continue; }
      if (!out.has_room(slot, out.written[slot], max_nodes)) { return false; }
      any = true;
    }
    return any;
  }

  /// The slots that a step goes over: those in use, rounded up so that few shapes occur.
  std::int32_t used_slots() const {
    std::int32_t used = 0;
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      used = slots_[static_cast<std::size_t>(slot)] != 0 ? slot + 1 : used;
    }
    std::int32_t size = 1;
    while (size < used) { size *= 2; }
    return std::min(size, options_.max_batch);
  }

  /// One step over the first `slots` slots: launches and calls of the models, always the same.
  void step(std::int32_t slots) {
    const arrays_type of = arrays(slots);
    propose(of);
    auto evaluation = evaluate(of);
    verify(of);
    const profiler_range<E> range("hunch: commit");
    memory_.launch(slots, resident::keep_rows<real, max_nodes>{of});
    drafter_.observe(draft_state_,
                     draft_outcomes{.slots = slots,
                                    .of = of.outcomes,
                                    .streams = streams_of<drafter_type>(),
                                    .rows = of.capacity()},
                     evaluation, memory_);
    const std::int32_t kept = known_count(memory_, of.counts + 1, of.capacity());
    target_.commit(of.kept.view(kept, known_count(memory_, of.counts + 2, slots)));
    memory_.launch(1, resident::decide_repeat{.all = of.all,
                                              .slots = slots,
                                              .out = of.out,
                                              .shared = signals_.data(),
                                              .steps = steps_.data(),
                                              .steps_left = steps_left_.data(),
                                              .again = again_.data(),
                                              .max_new_entries = max_nodes});
  }

  void propose(const arrays_type& of) {
    const profiler_range<E> range("hunch: propose");
    memory_.launch(of.slots, resident::begin_step<real, max_nodes>{of});
    drafter_.propose(draft_state_, of.slots, of.contexts, trees_, selecting_, sampler_,
                     child_draw<Random, verifier_type::shares_noise>{random_}, memory_);
    memory_.launch(of.slots, resident::place_rows<real, sampler_type, max_nodes>{of});
  }

  auto evaluate(const arrays_type& of) {
    const profiler_range<E> range("hunch: evaluate");
    const std::int32_t size = known_count(memory_, of.counts, of.capacity());
    auto evaluation = target_.evaluate(of.rows.view(size, streams_of<drafter_type>()));
    set_logits(of, size, evaluation);
    return evaluation;
  }

  void verify(const arrays_type& of) {
    const profiler_range<E> range("hunch: verify");
    if (of.slots * max_nodes <= options_.eager_rows) {
      memory_.launch(of.slots * max_nodes,
                     resident::make_laws<real, sampler_type, max_nodes>{of, sampler_});
    }
    memory_.launch(
        of.slots,
        resident::end_step<view_type, real, sampler_type, verifier_type, Random, max_nodes>{
            .of = of,
            .children = drafter_type::children,
            .has_lists = drafter_type::uses_selector,
            .sampler = sampler_,
            .verifier = verifier_,
            .random = random_});
  }

  /// Where the logits of each row lie: in every step at the same place, unless the host reads which
  /// rows there are.
  template <class Evaluation>
  void set_logits(const arrays_type& of, std::int32_t size, Evaluation& evaluation) {
    for (std::int32_t i = 0; i < size; ++i) {
      row_view<real>& known = logits_.data()[i];
      if constexpr (host_reads<memory>) {
        if (of.rows.wanted[i] != 0) { known = evaluation.logits(i); }
        continue;
      }
      const row_view<real> row = evaluation.logits(i);
      if (known.data != nullptr && known.data != row.data) {
        throw std::logic_error(message(
            {"hunch::resident_decoder: the target's logits of row ", i,
             " have moved; in a resident loop they lie at the same address in every pass"}));
      }
      known = row;
    }
  }

  Target target_;
  D drafter_;
  Selector selector_;
  sampler_type sampler_;
  verifier_type verifier_;
  Random random_;
  E executor_;
  resident_options options_;
  std::int32_t vocab_size_;
  memory memory_;
  resident::sequence_storage<memory> sequences_;
  draft_batch<real, memory> trees_;
  typename drafter_type::template state<real, memory> draft_state_;
  selecting<std::remove_reference_t<Selector>, memory> selecting_;
  resident_buffer<resident::planned> plans_;
  resident_buffer<draft_context> contexts_;
  resident_buffer<draft_outcome> outcomes_;
  staged_rows<memory> rows_;
  kept_list<memory> kept_;
  resident_buffer<std::int32_t> counts_;
  resident_buffer<law<real>> laws_;
  resident_buffer<double> scratch_;
  resident_buffer<std::int32_t> paths_;
  resident_buffer<statistics<max_nodes>> counters_;
  resident_buffer<std::int64_t> counted_;
  resident_buffer<std::int64_t> steps_;
  resident_buffer<std::int64_t> steps_left_;
  resident_buffer<std::int32_t> again_;
  buffer<row_view<real>> logits_;
  buffer<resident::ring_entry> entries_;
  buffer<std::int64_t> written_;
  buffer<std::int64_t> read_;
  buffer<resident::signals> signals_;
  kept_list<E> released_;
  std::vector<request_id> slots_;
  std::int32_t running_ = 0;
  request_id last_id_ = 0;
};

template <class Target, class D, class Selector, class S, class V, class... Rest>
resident_decoder(Target&&, D&&, Selector&&, S&&, V&&, Rest...)
    -> resident_decoder<Target, D, Selector, S, V>;

template <class Target, class D, class Selector, class S, class V, class Random>
resident_decoder(Target&&, D&&, Selector&&, S&&, V&&, resident_options, Random)
    -> resident_decoder<Target, D, Selector, S, V, Random>;

template <class Target, class D, class Selector, class S, class V, class Random, class E>
resident_decoder(Target&&, D&&, Selector&&, S&&, V&&, resident_options, Random, E)
    -> resident_decoder<Target, D, Selector, S, V, Random, E>;

}  // namespace hunch
