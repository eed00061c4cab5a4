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
#include <hunch/executor/host.hpp>
#include <hunch/resident/drafting.hpp>
#include <hunch/resident/lookup.hpp>
#include <hunch/resident/step.hpp>

namespace hunch {

/// Sizes that a resident loop fixes at construction.
struct resident_options {
  std::int32_t max_batch = 1;      ///< requests that run at the same time
  std::int32_t max_length = 4096;  ///< tokens of a sequence, prompt and emitted, >= 2; the models'
                                   ///< caches hold as many
  std::int32_t chunk = 256;        ///< prompt tokens read in one pass, >= 1
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
/// The models' contracts are those of `decoder`, with these additions. Rows may be padding (see
/// `rows`). `evaluate`, `forward`, `head` and `commit` look at their arrays on the executor, in
/// order with its launches, and at nothing on the host but the numbers of rows. The logits of row i
/// of a pass, padding included, lie at the same address in every pass. Caches hold `max_length`
/// tokens per sequence: statuses are not looked at.
///
/// One host thread at a time uses a loop.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
class resident_decoder {
  using parts = composition<Target, D, Selector, S, V, Random, E>;
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
        drafting_(drafter_, selector_, executor_, options_.max_batch),
        rows_(memory_, options_.max_batch * max_nodes),
        kept_(memory_, options_.max_batch * max_nodes, options_.max_batch),
        laws_(memory_, batch_nodes()),
        scratch_(memory_, batch_nodes()),
        paths_(memory_, batch_nodes()),
        counters_(memory_, batch()),
        row_token_(memory_,
                   table_size(selector_.layout().row_token(), selector_.layout().head_rows())),
        token_row_(memory_, table_size(selector_.layout().token_row(), vocab_size_)),
        token_part_(memory_, table_size(selector_.layout().token_part(), vocab_size_)),
        counted_(memory_, batch()),
        steps_(memory_, 1),
        steps_left_(memory_, 1),
        again_(memory_, 1),
        logits_(executor_, batch_nodes()),
        entries_(executor_, batch() * static_cast<std::size_t>(options_.ring)),
        written_(executor_, batch()),
        read_(executor_, batch()),
        signals_(executor_, 1),
        piece_(executor_, options_.chunk),
        piece_kept_(executor_, options_.chunk, 1),
        slots_(batch()) {
    drafter_.check({.max_batch = options_.max_batch,
                    .chunk = options_.chunk,
                    .max_length = options_.max_length,
                    .vocab_size = vocab_size_,
                    .layout = &selector_.layout(),
                    .context_width = context_width_of(selector_),
                    .max_rows = selector_.max_rows()});
    upload_table(row_token_, selector_.layout().row_token());
    upload_table(token_row_, selector_.layout().token_row());
    upload_table(token_part_, selector_.layout().token_part());
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

  /// Adds a request: ends the loop as `wait` does, reads the prompt up to its last token, and lets
  /// the request take part from the next `run` on. Tokens that were not polled stay in their rings.
  /// \throws std::invalid_argument naming what is wrong with the request: nothing is ever ignored.
  /// \throws std::length_error if `max_batch` requests are running, or their ends are not polled.
  /// \throws what a model throws while it reads the prompt; then nothing is left of the request.
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
    try {
      read_prompt(slot, prompt);
    } catch (...) {
      release(slot);
      throw;
    }
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
  using memory = resident_memory<E>;
  template <class T>
  using resident_buffer = typename memory::template buffer<T>;
  template <class T>
  using buffer = typename E::template buffer<T>;
  using arrays_type = resident::step_arrays<real, max_nodes>;

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

  static std::size_t table_size(const std::int32_t* table, std::int32_t n) {
    return table == nullptr ? 0 : static_cast<std::size_t>(n);
  }
  void upload_table(resident_buffer<std::int32_t>& to, const std::int32_t* table) {
    if (table != nullptr) { executor_.upload(to.data(), table, to.size()); }
  }
  resident::layout_tables tables() const {
    const auto of = [](const resident_buffer<std::int32_t>& table) {
      return table.size() > 0 ? table.data() : nullptr;
    };
    return {.row_token = of(row_token_),
            .token_row = of(token_row_),
            .vocab_size = vocab_size_,
            .token_part = of(token_part_)};
  }
  resident::rings rings() const {
    return {.capacity = options_.ring,
            .entries = entries_.data(),
            .written = written_.data(),
            .read = read_.data(),
            .counted = counted_.data()};
  }

  arrays_type arrays() const {
    return {.all = sequences_.view(),
            .trees = trees_.view(),
            .rows = rows_.arrays(),
            .logits = logits_.data(),
            .laws = laws_.data(),
            .scratch = scratch_.data(),
            .paths = paths_.data(),
            .kept = kept_.arrays(),
            .draft = drafting_.keeping(),
            .out = rings(),
            .counters = counters_.data()};
  }

  /// Reads all tokens of a prompt but the last, in pieces.
  void read_prompt(std::int32_t slot, std::span<const token> prompt) {
    const auto count = static_cast<std::int32_t>(prompt.size()) - 1;
    for (std::int32_t first = 0; first < count; first += options_.chunk) {
      const std::int32_t size = std::min(options_.chunk, count - first);
      piece_.clear();
      piece_kept_.clear();
      for (std::int32_t i = 0; i < size; ++i) {
        piece_.push({.slot = slot,
                     .id = i,
                     .parent = i == 0 ? end_of_cache : i - 1,
                     .position = first + i,
                     .t = prompt[static_cast<std::size_t>(first + i)],
                     .wanted = false});
        piece_kept_.keep({.slot = slot, .id = i});
      }
      target_.evaluate(piece_.view());
      target_.commit(piece_kept_.view());
      drafting_.read(piece_.view());  // after the target, whose states a draft model may read
      drafting_.keep(piece_kept_.view());
      executor_.synchronize();  // the rows of the next piece take the place of these
    }
  }

  void place(std::int32_t slot, std::span<const token> prompt, const generation_options& options) {
    const resident::sequences all = sequences_.view();
    resident::sequence s;
    s.id = ++last_id_;
    s.length = static_cast<std::int32_t>(prompt.size());
    s.draft_cached = s.length - 1;
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
    piece_kept_.clear();
    piece_kept_.release(slot);
    target_.commit(piece_kept_.view());
    drafting_.keep(piece_kept_.view());
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
    const arrays_type of = arrays();
    propose(slots, of);
    executor_.launch(slots, resident::place_rows<real, sampler_type, max_nodes>{of});
    evaluate(slots, of);
    verify(slots, of);
    const profiler_range<E> range("hunch: commit");
    drafting_.commit(slots);
    target_.commit(of.kept.view(slots * max_nodes, slots));
    executor_.launch(1, resident::decide_repeat{.all = of.all,
                                                .slots = slots,
                                                .out = of.out,
                                                .shared = signals_.data(),
                                                .steps = steps_.data(),
                                                .steps_left = steps_left_.data(),
                                                .again = again_.data(),
                                                .max_new_entries = max_nodes});
  }

  void propose(std::int32_t slots, const arrays_type& of) {
    const profiler_range<E> range("hunch: propose");
    using draw_type = child_draw<Random, verifier_type::shares_noise>;
    drafting_.propose(slots, of.all, of.trees, tables(), options_.draft_length, sampler_,
                      draw_type{random_}, executor_);
  }

  void evaluate(std::int32_t slots, const arrays_type& of) {
    const profiler_range<E> range("hunch: evaluate");
    auto evaluation = target_.evaluate(of.rows.view(slots * max_nodes));
    set_logits(slots, evaluation);
  }

  void verify(std::int32_t slots, const arrays_type& of) {
    const profiler_range<E> range("hunch: verify");
    if (slots * max_nodes <= options_.eager_rows) {
      executor_.launch(slots * max_nodes,
                       resident::make_laws<real, sampler_type, max_nodes>{of, sampler_});
    }
    executor_.launch(slots,
                     resident::end_step<real, sampler_type, verifier_type, Random, max_nodes>{
                         of, drafter_type::children, sampler_, verifier_, random_});
  }

  /// Where the logits of each row lie, which must be the same in every step.
  template <class Evaluation>
  void set_logits(std::int32_t slots, Evaluation& evaluation) {
    for (std::int32_t i = 0; i < slots * max_nodes; ++i) {
      const row_view<real> row = evaluation.logits(i);
      row_view<real>& known = logits_.data()[i];
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
  resident::drafting<drafter_type, std::remove_reference_t<Selector>, real, E> drafting_;
  staged_rows<memory> rows_;
  kept_list<memory> kept_;
  resident_buffer<law<real>> laws_;
  resident_buffer<double> scratch_;
  resident_buffer<std::int32_t> paths_;
  resident_buffer<statistics<max_nodes>> counters_;
  resident_buffer<token> row_token_;
  resident_buffer<std::int32_t> token_row_;
  resident_buffer<std::int32_t> token_part_;
  resident_buffer<std::int64_t> counted_;
  resident_buffer<std::int64_t> steps_;
  resident_buffer<std::int64_t> steps_left_;
  resident_buffer<std::int32_t> again_;
  buffer<row_view<real>> logits_;
  buffer<resident::ring_entry> entries_;
  buffer<std::int64_t> written_;
  buffer<std::int64_t> read_;
  buffer<resident::signals> signals_;
  staged_rows<E> piece_;
  kept_list<E> piece_kept_;
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
