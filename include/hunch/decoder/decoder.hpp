// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/composition.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/length/step_summary.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/verifier/verify_rows.hpp>

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
  /// The bytes of a token, for stop strings; not needed without them. The view must stay valid
  /// until the next call. However long a token is, no step allocates for it.
  std::function<std::string_view(token)> token_text = {};
};

/// Speculative decoding, composed at compile time from a target model and four policies.
///
/// A step is: propose (the drafter grows one tree per sequence), evaluate (one target pass over
/// all rows), verify (sampler and verifier decide, stops cut), commit (caches and texts advance).
/// Everything before the commit is staged: a model that throws leaves the decoder as it was, and
/// the step can be repeated with the same result. The commit itself neither throws nor allocates.
///
/// Requests join between steps, finish at any step, and can be cancelled between steps. The text
/// of a request depends on its prompt, its parameters and its seed, and not on the batch.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
class decoder {
  using parts = composition<Target, D, Selector, S, V, Random, E>;
  using drafter_type = typename parts::drafter_type;
  using sampler_type = typename parts::sampler_type;
  using verifier_type = typename parts::verifier_type;

 public:
  using real = typename parts::real;

  /// Whether the emitted text has exactly the law of plain decoding: ask with a static_assert.
  static constexpr bool lossless = parts::lossless;
  static constexpr std::int32_t max_nodes = parts::max_nodes;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  decoder(Target&& target, D&& drafter, Selector&& selector, S&& sampler, V&& verifier,
          decoder_options options = {}, Random random = {}, E executor = {})
      : target_(std::forward<Target>(target)),
        drafter_(std::forward<D>(drafter)),
        selector_(std::forward<Selector>(selector)),
        sampler_(sampler),
        verifier_(verifier),
        random_(random),
        executor_(std::move(executor)),
        vocab_size_(static_cast<std::int32_t>(target_.vocab_size())),
        options_(checked(std::move(options), vocab_size_)),
        draft_state_(executor_, setup()),
        selecting_(selector_, executor_, options_.max_batch * law_rows_of<drafter_type>()),
        drafts_(executor_, {.max_batch = options_.max_batch,
                            .max_nodes = max_nodes,
                            .max_ranges = selector_.max_ranges(),
                            .max_rows = drafter_type::uses_selector ? selector_.max_rows() : 0,
                            .vocab_size = vocab_size_,
                            .grammars = sampler_type::needs_allowed,
                            .max_parts = shifted_parts_of(selector_),
                            .law_rows = law_rows_of<drafter_type>()}),
        rows_(executor_, options_.max_batch * (options_.chunk + max_nodes)),
        kept_(executor_, options_.max_batch * (options_.chunk + max_nodes), options_.max_batch),
        target_rows_(executor_, batch_nodes()),
        laws_(executor_, batch_nodes()),
        scratch_(executor_, batch_nodes()),
        views_(executor_, batch()),
        verdicts_(executor_, batch()),
        paths_(executor_, batch_nodes()),
        report_tasks_(executor_, reported_tokens()),
        reports_(executor_, reported_tokens() * report_stride()),
        slots_(options_.max_batch, "hunch::decoder", "decoder_options"),
        contexts_(executor_, batch()),
        plan_(batch()),
        outcomes_(executor_, batch()),
        tokens_(batch_nodes()),
        origins_(batch_nodes()) {
    drafter_.check(setup());
    emissions_.reserve(batch());
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
    check_request(prompt, options, sampler_,
                  {.owner = "hunch::decoder",
                   .options = "decoder_options",
                   .vocab_size = vocab_size_,
                   .max_length = options_.max_length,
                   .log_probabilities = options_.max_log_probabilities,
                   .has_token_text = bool(options_.token_text)});
    slots_.require_room();
    request r(executor_, prompt, options, vocab_size_, sampler_type::needs_counts, max_nodes);
    executor_.synchronize();  // what a step that threw has launched may read the text that was here
    return slots_.admit(std::move(r));
  }

  /// Ends a request between two steps. False if it is not running. Waits for the executor.
  bool cancel(request_id id) noexcept {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0) { return false; }
    attempt([this] { executor_.synchronize(); });  // what was kept last has been read
    kept_.clear();
    kept_.release(slot);
    drafter_.release(draft_state_, slot, executor_);
    target_.commit(kept_.view());
    slots_.release(slot);
    return true;
  }

  std::int32_t running() const { return slots_.running(); }
  bool is_running(request_id id) const { return slots_.find(id) >= 0; }

  /// Runs one step for all running requests and returns what each of them emitted; the views are
  /// valid until the next call of `step`, `add` or `cancel`. A request that only read a piece of
  /// its prompt is left out. Returns nothing when nothing runs. Waits for the executor after the
  /// verification, after log-probabilities if there are any, and where the drafter does.
  /// \throws what a model throws; nothing is lost, and the next call repeats the step.
  std::span<const emission> step() {
    detail::stopwatch watch;
    emissions_.clear();
    if (slots_.running() == 0) { return {}; }
    gather();
    drafter_.propose(draft_state_, options_.max_batch, contexts_.data(), drafts_, selecting_,
                     sampler_, child_draw<Random, verifier_type::shares_noise>{random_}, executor_);
    drafts_.follow(executor_, options_.max_batch, contexts_.data());
    executor_.synchronize();
    const double draft_seconds = watch.lap();
    place_rows();
    auto evaluation = target_.evaluate(rows_.view(streams()));
    const double target_seconds = watch.lap();
    verify(evaluation);
    for_each_running([this](std::int32_t slot) { trim(slot); });
    report();
    commit(evaluation);
    summary_.draft_seconds = draft_seconds;
    summary_.target_seconds = target_seconds;
    summary_.verify_seconds = watch.lap();
    statistics_.draft_seconds += draft_seconds;
    statistics_.target_seconds += target_seconds;
    statistics_.verify_seconds += summary_.verify_seconds;
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
  void draft_length(std::int32_t length) {
    draft_length_ = std::clamp(length, std::int32_t{0}, max_nodes - 1);
  }
  std::int32_t draft_length() const { return draft_length_; }

  /// The same for one request, whatever is allowed to others. With `emission::drafted` of an
  /// earlier run, step by step, and `length::fixed`, its text is repeated, whatever chose these
  /// lengths. False if it is not running.
  bool draft_length(request_id id, std::int32_t length) {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0) { return false; }
    slots_[index(slot)].draft_length = std::max(length, std::int32_t{0});
    return true;
  }

  const statistics<max_nodes>& stats() const { return statistics_; }
  void reset_stats() { statistics_ = {}; }
  /// Of the last step that was completed.
  const step_summary& last_step() const { return summary_; }

 private:
  using request = running_request<E>;

  /// What the current step does with the sequence of a slot.
  struct planned {
    bool runs = false;
    std::int32_t prefix = 0;  ///< prompt tokens read before the root
    bool decodes = false;     ///< the root is read too
    std::int32_t first_row = 0;
    std::int32_t verdict = -1;  ///< index of its verdict, if it was verified
    std::int32_t emitted = 0;
    std::int32_t parent_of_invalid = -1;  ///< a child of this node is no token; -1: none is
    std::int32_t first_report = 0;        ///< index of its first log-probability task
    finish_reason finish = finish_reason::none;
    hunch::status status = hunch::status::ok;
  };

  template <class T>
  using buffer = typename E::template buffer<T>;
  using laws_type = sampled_laws<real, sampler_type>;
  using tokens_type = std::conditional_t<drafter_type::is_chain, chain_tokens, drafted_tokens>;
  using drafts_type = stored_drafts<law<real>, selects_one_range<Selector>>;
  using view_type = verify_view<laws_type, drafts_type, tokens_type>;

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
  std::size_t batch() const { return index(options_.max_batch); }
  std::size_t batch_nodes() const { return batch() * index(max_nodes); }
  static std::size_t node_index(std::int32_t slot, std::int32_t node) {
    return index(slot) * static_cast<std::size_t>(max_nodes) + static_cast<std::size_t>(node);
  }
  /// Tokens whose log-probabilities a step may report, and what is reported about each.
  std::size_t reported_tokens() const { return report_stride() == 0 ? 0 : batch_nodes(); }
  std::size_t report_stride() const {
    return static_cast<std::size_t>(std::int64_t{options_.max_log_probabilities} + 1);
  }
  /// Those of the next pass: nobody reads them while nothing is drafted.
  std::int32_t streams() const { return draft_length_ > 0 ? streams_of<drafter_type>() : 0; }

  drafter_setup setup() {
    return setup_of(drafter_, selector_,
                    {.max_batch = options_.max_batch,
                     .chunk = options_.chunk,
                     .chunks = options_.max_batch * options_.chunk,
                     .max_length = options_.max_length,
                     .vocab_size = vocab_size_});
  }

  /// Calls use(slot) for every sequence of the step.
  template <class Use>
  void for_each_running(Use&& use) const {
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      if (plan_[index(slot)].runs) { use(slot); }
    }
  }

  /// Plans the step: a context and a root for each running request.
  void gather() {
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      const request& r = slots_[index(slot)];
      planned& plan = plan_[index(slot)] = {};
      draft_context& context = contexts_.data()[slot] = {};
      drafts_.count(slot) = 0;
      if (r.id == 0) { continue; }
      const std::int32_t unread = r.length() - 1 - r.cached;
      plan.runs = true;
      plan.prefix = std::min(unread, options_.chunk);
      plan.decodes = plan.prefix == unread;
      const std::int32_t allowed = std::min(draft_length_, r.draft_length);
      const std::int32_t depth = plan.decodes ? std::min(allowed, r.remaining - 1) : 0;
      context = {.committed = r.tokens.data(),
                 .length = r.length(),
                 .max_depth = depth,
                 .seed = r.seed,
                 .parameters = r.parameters,
                 .counts = r.census.view(),
                 .grammar = r.grammar.get(),
                 .cached = r.cached,
                 .prefix = plan.prefix,
                 .idle = allowed == 0};
      drafts_.plant(slot, context);
    }
  }

  /// The rows of the target's pass: for each sequence unread prompt tokens, then its tree.
  void place_rows() {
    rows_.clear();
    for_each_running([this](std::int32_t slot) {
      planned& plan = plan_[index(slot)];
      const request& r = slots_[index(slot)];
      const draft_tree<real> tree = drafts_.tree(slot);
      plan.first_row = rows_.size();
      for (std::int32_t i = 0; i < plan.prefix; ++i) {
        rows_.push({.slot = slot,
                    .id = i,
                    .parent = i == 0 ? end_of_cache : i - 1,
                    .position = r.cached + i,
                    .t = r.tokens[index(r.cached + i)],
                    .wanted = false});
      }
      if (!plan.decodes) { return; }
      drop_invalid(slot, plan);
      const std::int32_t base = r.cached + plan.prefix;
      for (std::int32_t node = 0; node < drafts_.count(slot); ++node) {
        const std::int32_t parent = node == 0 ? (plan.prefix == 0 ? end_of_cache : plan.prefix - 1)
                                              : plan.prefix + tree.parent[node];
        rows_.push({.slot = slot,
                    .id = plan.prefix + node,
                    .parent = parent,
                    .position = base + tree.depth(node),
                    .t = tree.tokens[node],
                    .wanted = true});
      }
    });
  }

  /// Ends the tree of a slot in front of the first node that is no token, which no model reads.
  /// Whoever drew it broke the law that it names, and nothing corrects that: it is an error if the
  /// text gets there.
  void drop_invalid(std::int32_t slot, planned& plan) {
    const draft_tree<real> tree = drafts_.tree(slot);
    for (std::int32_t node = 1; node < tree.count; ++node) {
      if (tree.tokens[node] >= 0 && tree.tokens[node] < vocab_size_) { continue; }
      plan.parent_of_invalid = tree.parent[node];
      drafts_.count(slot) = node;
      return;
    }
  }

  /// One verdict per decoding sequence. Its rule has the laws made that it needs.
  template <class Evaluation>
  void verify(Evaluation& evaluation) {
    std::int32_t decoding = 0;
    for_each_running([&](std::int32_t slot) {
      planned& plan = plan_[index(slot)];
      drop_full_rows(slot, plan, evaluation);
      if (!plan.decodes || plan.finish != finish_reason::none) { return; }
      const draft_tree<real> tree = drafts_.tree(slot);
      const draft_context& c = contexts_.data()[slot];
      const std::size_t first = node_index(slot, 0);
      for (std::int32_t node = 0; node < tree.count; ++node) {
        target_rows_.data()[node_index(slot, node)] = {
            evaluation.logits(plan.first_row + plan.prefix + node), c.parameters,
            drafts_.history(slot, c, node, nullptr)};
        laws_.data()[node_index(slot, node)] = laws_type::unmade;
      }
      plan.verdict = decoding;
      views_.data()[decoding] = {
          .tree = tokens_type{static_cast<const drafted_tokens&>(tree)},
          .children = drafter_type::children,
          .target = laws_type{target_rows_.data() + first, laws_.data() + first, sampler_},
          .drafts = drafts_type{tree.laws, tree.lists},
          .seed = c.seed,
          .length = static_cast<std::uint32_t>(c.length),
          .scratch = scratch_.data() + first};
      verdicts_.data()[decoding] = {};
      verdicts_.data()[decoding].path = paths_.data() + first;
      ++decoding;
    });
    executor_.launch(decoding, kernel::verify_sequences<view_type, verifier_type, Random>{
                                   views_.data(), verdicts_.data(), verifier_, random_});
    executor_.synchronize();
  }

  /// Rows for which the target's cache had no room. A shorter draft is still exact, for which rows
  /// fit does not depend on what was drawn; without room for the root the request ends.
  template <class Evaluation>
  void drop_full_rows(std::int32_t slot, planned& plan, Evaluation& evaluation) {
    const std::int32_t nodes = plan.decodes ? drafts_.count(slot) : 0;
    std::int32_t fitted = 0;
    while (fitted < plan.prefix + nodes &&
           evaluation.status(plan.first_row + fitted) == status::ok) {
      ++fitted;
    }
    if (fitted < plan.prefix + std::min(nodes, 1)) {
      plan.finish = finish_reason::cache_full;
    } else if (plan.decodes) {
      drafts_.count(slot) = fitted - plan.prefix;
    }
  }

  /// Cuts the verified run of a slot at the first stop, where plain decoding would have ended.
  /// What was accepted before an error is emitted: plain decoding would have written it.
  void trim(std::int32_t slot) {
    planned& plan = plan_[index(slot)];
    if (plan.verdict < 0) { return; }
    const verdict& v = verdicts_.data()[plan.verdict];
    request& r = slots_[index(slot)];
    const draft_tree<real> tree = drafts_.tree(slot);
    r.staged_tail = r.tail;
    const std::int32_t last = v.accepted > 0 ? v.path[v.accepted - 1] : 0;
    const status why =
        v.status == status::ok && last == plan.parent_of_invalid ? status::invalid_token : v.status;
    const std::int32_t decided = v.accepted + (why == status::ok ? 1 : 0);
    while (plan.finish == finish_reason::none && plan.emitted < decided) {
      const bool drafted = plan.emitted < v.accepted;
      const token t = drafted ? tree.tokens[v.path[plan.emitted]] : v.next;
      tokens_[node_index(slot, plan.emitted)] = t;
      origins_[node_index(slot, plan.emitted)] = drafted ? origin::accepted : v.next_origin;
      ++plan.emitted;
      plan.finish = r.ends_with(t, plan.emitted, options_.token_text);
    }
    // An error after the end of the text is none: plain decoding does not look there, and a
    // grammar allows nothing there.
    if (plan.finish != finish_reason::none || why == status::ok) { return; }
    plan.finish = finish_reason::error;
    plan.status = why;
  }

  /// Log-probabilities of what is emitted, where they were requested.
  void report() {
    std::int32_t tasks = 0;
    for_each_running([&](std::int32_t slot) {
      planned& plan = plan_[index(slot)];
      const request& r = slots_[index(slot)];
      if (r.log_probabilities < 0 || plan.verdict < 0) { return; }
      plan.first_report = tasks;
      for (std::int32_t i = 0; i < plan.emitted; ++i) {
        const std::int32_t node = i == 0 ? 0 : verdicts_.data()[plan.verdict].path[i - 1];
        report_tasks_.data()[tasks] = {.drawn_from = laws_.data() + node_index(slot, node),
                                       .chosen = tokens_[node_index(slot, i)],
                                       .top = r.log_probabilities,
                                       .result = report_of(plan, r, i)};
        ++tasks;
      }
    });
    if (tasks == 0) { return; }
    executor_.launch(tasks, kernel::report_log_probabilities<real>{report_tasks_.data()});
    executor_.synchronize();
  }

  /// Where the report about emitted token i of a sequence lies: one after the other.
  token_log_probability* report_of(const planned& plan, const request& r, std::int32_t i) const {
    return reports_.data() + index(plan.first_report) * report_stride() +
           index(i) * index(1 + r.log_probabilities);
  }

  template <class Evaluation>
  void commit(Evaluation& evaluation) noexcept {
    kept_.clear();
    summary_ = {};
    std::fill_n(outcomes_.data(), outcomes_.size(), draft_outcome{});
    summary_.draft_length = draft_length_;
    for_each_running([&](std::int32_t slot) {
      const planned& plan = plan_[index(slot)];
      summary_.prompt_rows += plan.prefix;
      draft_outcome& outcome = outcomes_.data()[slot];
      outcome = {.slot = slot,
                 .first_row = plan.first_row,
                 .prefix = plan.prefix,
                 .path = nullptr,
                 .kept = 0,
                 .finished = plan.finish != finish_reason::none};
      if (plan.verdict >= 0) {
        outcome.path = verdicts_.data()[plan.verdict].path;
        outcome.kept = std::max(plan.emitted - 1, 0);
      }
      if (outcome.finished) {
        kept_.release(slot);
        return;
      }
      for (std::int32_t i = 0; i < plan.prefix; ++i) { kept_.keep({.slot = slot, .id = i}); }
      if (!plan.decodes) { return; }
      kept_.keep({.slot = slot, .id = plan.prefix});
      for (std::int32_t i = 0; i < outcome.kept; ++i) {
        kept_.keep({.slot = slot, .id = plan.prefix + outcome.path[i]});
      }
    });
    drafter_.observe(
        draft_state_,
        draft_outcomes{.slots = options_.max_batch, .of = outcomes_.data(), .streams = streams()},
        evaluation, executor_);
    target_.commit(kept_.view());
    for_each_running([this](std::int32_t slot) { advance(slot); });
    ++statistics_.target_passes;
    statistics_.target_rows += rows_.size();
  }

  /// Appends what the sequence of a slot emitted to its text, and reports it.
  void advance(std::int32_t slot) noexcept {
    const planned& plan = plan_[index(slot)];
    request& r = slots_[index(slot)];
    const std::size_t count = index(plan.emitted);
    const std::span<const token> tokens{tokens_.data() + node_index(slot, 0), count};
    r.append(tokens, sampler_type::needs_counts);
    r.cached += plan.prefix + plan.emitted;
    std::int32_t levels = 0;
    if (plan.verdict >= 0) {
      std::swap(r.tail, r.staged_tail);
      const draft_tree<real> tree = drafts_.tree(slot);
      const verdict& v = verdicts_.data()[plan.verdict];
      levels = statistics_.count(tree, drafter_type::uses_selector ? tree.lists : nullptr, v,
                                 plan.emitted);
      ++summary_.sequences;
      summary_.finished += plan.finish != finish_reason::none ? 1 : 0;
      summary_.deepest = std::max(summary_.deepest, levels);
      summary_.levels += levels;
      summary_.tested += std::min(levels, v.accepted + 1);
      summary_.accepted += v.accepted;
      summary_.drafted += tree.count - 1;
      summary_.emitted += plan.emitted;
    }
    if (!plan.decodes && plan.finish == finish_reason::none) { return; }
    const bool reported = r.log_probabilities >= 0 && plan.emitted > 0;
    emissions_.push_back(
        {.id = r.id,
         .tokens = tokens,
         .origins = {origins_.data() + node_index(slot, 0), count},
         .finish = plan.finish,
         .status = plan.status,
         .cut_bytes = plan.finish == finish_reason::stop_string ? r.tail.cut : 0,
         .log_probabilities = {reported ? report_of(plan, r, 0) : nullptr,
                               reported ? count * index(1 + r.log_probabilities) : 0},
         .drafted = levels});
    if (plan.finish != finish_reason::none) { slots_.release(slot); }
  }

  Target target_;
  D drafter_;
  Selector selector_;
  sampler_type sampler_;
  verifier_type verifier_;
  Random random_;
  E executor_;
  std::int32_t vocab_size_;
  decoder_options options_;
  typename drafter_type::template state<real, E> draft_state_;
  selecting<std::remove_reference_t<Selector>, E> selecting_;
  draft_batch<real, E> drafts_;
  staged_rows<E> rows_;
  kept_list<E> kept_;
  buffer<target_row<real>> target_rows_;
  buffer<law<real>> laws_;
  buffer<double> scratch_;
  buffer<view_type> views_;
  buffer<verdict> verdicts_;
  buffer<std::int32_t> paths_;
  buffer<kernel::log_probability_task<real>> report_tasks_;
  buffer<token_log_probability> reports_;
  request_slots<request> slots_;
  buffer<draft_context> contexts_;
  std::vector<planned> plan_;
  buffer<draft_outcome> outcomes_;
  std::vector<token> tokens_;
  std::vector<origin> origins_;
  std::vector<emission> emissions_;
  statistics<max_nodes> statistics_;
  step_summary summary_;
  std::int32_t draft_length_ = 0;
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
