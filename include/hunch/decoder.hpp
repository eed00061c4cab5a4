// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/concepts.hpp>
#include <hunch/draft_tree.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/generation.hpp>
#include <hunch/kernel/verify_rows.hpp>
#include <hunch/random.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/staged_rows.hpp>
#include <hunch/statistics.hpp>
#include <hunch/stop.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch {

/// Sizes that a decoder fixes at construction, so that a step allocates nothing.
struct decoder_options {
  std::int32_t max_batch = 1;           ///< requests that run at the same time
  std::int32_t chunk = 256;             ///< prompt tokens read per sequence and step, >= 2
  std::int32_t draft_length = 1 << 30;  ///< draft at most so deep; see `decoder::draft_length`
  /// The bytes of a token, for stop strings; not needed without them. The view must stay valid
  /// until the next call.
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

  static_assert(!verifier_type::needs_draft_law || drafter_type::children != child_law::ranked,
                "hunch: this verifier needs the law that tokens were drawn from, and a ranked "
                "drafter has none: use verifier::greedy, or a drafter that samples");
  static_assert(verifier_type::accepts(drafter_type::children, drafter_type::is_chain),
                "hunch: this verifier is not exact on such draft trees: use a tree::chain, or a "
                "verifier that accepts them");
  static_assert(!verifier_type::needs_greedy || sampler_type::always_greedy,
                "hunch: verifier::greedy keeps only greedy decoding exact: use sampler::greedy, "
                "or verifier::rejection for sampled text");
  static_assert(!drafter_type::needs_hidden || HiddenStates<evaluation_of<bare<Target>>>,
                "hunch: this drafter reads the target's hidden states: give the target's "
                "evaluation a function hidden(row)");

 public:
  using real = model_logit<bare<Target>>;
  static_assert(std::is_same_v<real, float> || std::is_same_v<real, double>,
                "hunch: logits must be float or double on this executor");

  /// Whether the emitted text has exactly the law of plain decoding. Part of the type: ask for it
  /// with a static_assert.
  static constexpr bool lossless = verifier_type::lossless;
  static constexpr std::int32_t max_nodes = drafter_type::max_nodes;

  /// \throws std::invalid_argument naming the two things that do not fit.
  decoder(Target&& target, D&& drafter, Selector&& selector, S&& sampler, V&& verifier,
          decoder_options options = {}, Random random = {}, E executor = {})
      : target_(std::forward<Target>(target)),
        drafter_(std::forward<D>(drafter)),
        selector_(std::forward<Selector>(selector)),
        sampler_(sampler),
        verifier_(verifier),
        random_(random),
        executor_(std::move(executor)),
        options_(checked(std::move(options))),
        vocab_size_(static_cast<std::int32_t>(target_.vocab_size())),
        draft_state_(executor_, setup()),
        drafts_(executor_, options_.max_batch, max_nodes, selector_.max_ranges(),
                drafter_type::uses_selector ? selector_.max_rows() : 0),
        rows_(executor_, options_.max_batch * (options_.chunk + max_nodes)),
        kept_(executor_, options_.max_batch * (options_.chunk + max_nodes), options_.max_batch),
        row_tasks_(executor_, batch_nodes()),
        laws_(executor_, batch_nodes()),
        views_(executor_, batch()),
        verdicts_(executor_, batch()),
        paths_(executor_, batch_nodes()),
        slots_(batch()),
        contexts_(batch()),
        plan_(batch()),
        outcomes_(batch()),
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
    for (const slot& s : slots_) { cancel(s.id); }
  }

  /// Adds a request; it takes part from the next step on. Only the id is returned: text comes from
  /// `step`. Allocates room for the prompt and `max_new_tokens`, so that no step has to.
  /// \throws std::invalid_argument naming what is wrong with the request: nothing is ever ignored.
  /// \throws std::length_error if `max_batch` requests are running.
  request_id add(std::span<const token> prompt, const generation_options& options) {
    refuse_bad_request(prompt, options);
    const auto free = std::ranges::find(slots_, request_id{0}, &slot::id);
    if (free == slots_.end()) {
      throw std::length_error("hunch::decoder: " + std::to_string(options_.max_batch) +
                              " requests are running; raise decoder_options::max_batch");
    }
    slot fresh;
    fresh.tokens.reserve(prompt.size() + static_cast<std::size_t>(options.max_new_tokens));
    fresh.tokens.assign(prompt.begin(), prompt.end());
    fresh.remaining = options.max_new_tokens;
    fresh.seed = options.seed;
    fresh.parameters = options.sampling();
    fresh.stop_tokens = options.stop_tokens;
    fresh.stops = stop_strings(options.stop_strings);
    fresh.tail.text.reserve(fresh.stops.longest() + 64);
    fresh.staged_tail.text.reserve(fresh.tail.text.capacity());
    *free = std::move(fresh);
    free->id = ++last_id_;
    ++running_;
    return free->id;
  }

  /// Ends a request between two steps. False if it is not running.
  bool cancel(request_id id) noexcept {
    const auto found = std::ranges::find(slots_, id, &slot::id);
    if (id == 0 || found == slots_.end()) { return false; }
    const auto index = static_cast<std::int32_t>(found - slots_.begin());
    kept_.clear();
    kept_.release(index);
    drafter_.release(draft_state_, index);
    target_.commit(kept_.view());
    found->id = 0;
    --running_;
    return true;
  }

  /// The number of running requests, and whether a request is one of them.
  std::int32_t running() const { return running_; }
  bool is_running(request_id id) const {
    return id != 0 && std::ranges::find(slots_, id, &slot::id) != slots_.end();
  }

  /// Runs one step for all running requests and returns what each of them emitted; the views are
  /// valid until the next call of `step`, `add` or `cancel`. A request that only read a piece of
  /// its prompt is left out. Returns nothing when nothing runs.
  std::span<const emission> step() {
    emissions_.clear();
    const std::int32_t size = gather();
    if (size == 0) { return {}; }
    stopwatch watch;
    drafter_.propose(draft_state_, size, contexts_.data(), drafts_, selector_, sampler_, random_,
                     executor_);
    const double draft_seconds = watch.lap();
    place_rows(size);
    auto evaluation = target_.evaluate(rows_.view());
    const double target_seconds = watch.lap();
    verify(size, evaluation);
    for (std::int32_t k = 0; k < size; ++k) { trim(k); }
    const double verify_seconds = watch.lap();
    commit(size, evaluation);
    statistics_.draft_seconds += draft_seconds;
    statistics_.target_seconds += target_seconds;
    statistics_.verify_seconds += verify_seconds;
    return emissions_;
  }

  /// The tokens of one request as a lazy range: each increment takes a token, and a step is run
  /// when none is left. Other running requests advance in the same steps, and what they emit is
  /// lost; use `add` and `step` for batches.
  generation<decoder> generate(std::span<const token> prompt,
                               const generation_options& options = {}) {
    return generation<decoder>(*this, add(prompt, options));
  }

  /// Drafts at most `length` levels from the next step on, within what the drafter's tree holds;
  /// 0 is plain decoding. Changes speed, never the law.
  void draft_length(std::int32_t length) {
    draft_length_ = std::clamp(length, std::int32_t{0}, max_nodes - 1);
  }
  std::int32_t draft_length() const { return draft_length_; }

  const statistics<max_nodes>& stats() const { return statistics_; }
  void reset_stats() { statistics_ = {}; }

 private:
  struct slot {
    request_id id = 0;          ///< 0: free
    std::vector<token> tokens;  ///< committed: prompt and emitted; capacity reserved by `add`
    std::int32_t cached = 0;    ///< tokens in the target's cache
    std::int32_t remaining = 0;
    std::uint64_t seed = 0;
    sampling_parameters parameters;
    std::vector<token> stop_tokens;
    stop_strings stops;
    stop_tail tail;
    stop_tail staged_tail;  ///< `tail` after the tokens of this step
  };

  /// What the current step does with one sequence.
  struct planned {
    std::int32_t slot = 0;
    std::int32_t prefix = 0;  ///< prompt tokens read before the root
    bool decodes = false;     ///< the root is read too
    std::int32_t first_row = 0;
    std::int32_t verdict = -1;  ///< index of its verdict, if it was verified
    std::int32_t emitted = 0;
    finish_reason finish = finish_reason::none;
    hunch::status status = hunch::status::ok;
  };

  class stopwatch {
   public:
    double lap() {
      const auto now = std::chrono::steady_clock::now();
      const std::chrono::duration<double> passed = now - start_;
      start_ = now;
      return passed.count();
    }

   private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  };

  template <class T>
  using buffer = typename E::template buffer<T>;

  static decoder_options checked(decoder_options o) {
    if (o.max_batch < 1) {
      throw std::invalid_argument("hunch::decoder: max_batch must be at least 1");
    }
    if (o.chunk < 2) { throw std::invalid_argument("hunch::decoder: chunk must be at least 2"); }
    const std::int64_t rows_per_sequence = static_cast<std::int64_t>(o.chunk) + max_nodes;
    if (rows_per_sequence * o.max_batch > std::numeric_limits<std::int32_t>::max()) {
      throw std::invalid_argument("hunch::decoder: max_batch * chunk is too large for a step");
    }
    return o;
  }

  std::size_t batch() const { return static_cast<std::size_t>(options_.max_batch); }
  std::size_t batch_nodes() const { return batch() * static_cast<std::size_t>(max_nodes); }
  static std::size_t node_index(std::int32_t k, std::int32_t node) {
    return static_cast<std::size_t>(k) * static_cast<std::size_t>(max_nodes) +
           static_cast<std::size_t>(node);
  }
  drafter_setup setup() {
    return {options_.max_batch, options_.chunk, vocab_size_, &selector_.layout()};
  }

  void refuse_bad_request(std::span<const token> prompt, const generation_options& options) const {
    const auto refuse = [](const std::string& why) {
      throw std::invalid_argument("hunch::decoder: " + why);
    };
    if (prompt.empty()) { refuse("the prompt is empty; begin with the model's start token"); }
    for (const token t : prompt) {
      if (t < 0 || t >= vocab_size_) {
        refuse("invalid_token: the prompt holds " + std::to_string(t) + ", the vocabulary " +
               std::to_string(vocab_size_) + " tokens");
      }
    }
    if (options.max_new_tokens < 1) { refuse("max_new_tokens must be at least 1"); }
    if (sampler_.check(options.sampling()) != status::ok) {
      refuse(
          "invalid_parameter: temperature, top_k or top_p is out of range, or the sampler has "
          "no stage for it");
    }
    for (const std::string& s : options.stop_strings) {
      if (s.empty()) { refuse("a stop string is empty"); }
    }
    if (!options.stop_strings.empty() && !options_.token_text) {
      refuse("stop strings need decoder_options::token_text");
    }
  }

  /// Plans the step: one context and one root per running request. Returns their number.
  std::int32_t gather() {
    std::int32_t size = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const slot& s = slots_[i];
      if (s.id == 0) { continue; }
      const auto length = static_cast<std::int32_t>(s.tokens.size());
      const std::int32_t unread = length - 1 - s.cached;
      planned plan;
      plan.slot = static_cast<std::int32_t>(i);
      plan.prefix = std::min(unread, options_.chunk);
      plan.decodes = plan.prefix == unread;
      const std::int32_t depth = plan.decodes ? std::min(draft_length_, s.remaining - 1) : 0;
      plan_[static_cast<std::size_t>(size)] = plan;
      contexts_[static_cast<std::size_t>(size)] = {plan.slot, s.tokens.data(), length,
                                                   depth,     s.seed,          s.parameters};
      drafts_.plant(size, s.tokens.back());
      ++size;
    }
    return size;
  }

  /// The rows of the target's pass: for each sequence unread prompt tokens, then its tree.
  void place_rows(std::int32_t size) {
    rows_.clear();
    for (std::int32_t k = 0; k < size; ++k) {
      planned& plan = plan_[static_cast<std::size_t>(k)];
      const slot& s = slots_[static_cast<std::size_t>(plan.slot)];
      const draft_tree<real> tree = drafts_.tree(k);
      plan.first_row = rows_.size();
      for (std::int32_t i = 0; i < plan.prefix; ++i) {
        rows_.push(plan.slot, i, i == 0 ? end_of_cache : i - 1, s.cached + i,
                   s.tokens[static_cast<std::size_t>(s.cached + i)], false);
      }
      if (!plan.decodes) { continue; }
      if (!valid_tokens(tree)) {
        plan.status = status::invalid_token;
        drafts_.count(k) = 1;  // nothing of this tree may reach the model
      }
      const std::int32_t base = s.cached + plan.prefix;
      for (std::int32_t node = 0; node < drafts_.count(k); ++node) {
        std::int32_t depth = 0;
        for (std::int32_t up = tree.parent[node]; up >= 0; up = tree.parent[up]) { ++depth; }
        const std::int32_t parent = node == 0 ? (plan.prefix == 0 ? end_of_cache : plan.prefix - 1)
                                              : plan.prefix + tree.parent[node];
        rows_.push(plan.slot, plan.prefix + node, parent, base + depth, tree.tokens[node], true);
      }
    }
  }

  bool valid_tokens(const draft_tree<real>& tree) const {
    return std::all_of(tree.tokens, tree.tokens + tree.count,
                       [this](token t) { return t >= 0 && t < vocab_size_; });
  }

  /// Laws of all evaluated nodes, then one verdict per decoding sequence.
  template <class Evaluation>
  void verify(std::int32_t size, Evaluation& evaluation) {
    std::int32_t tasks = 0;
    std::int32_t decoding = 0;
    for (std::int32_t k = 0; k < size; ++k) {
      planned& plan = plan_[static_cast<std::size_t>(k)];
      drop_full_rows(k, plan, evaluation);
      if (!plan.decodes || plan.finish != finish_reason::none) { continue; }
      const draft_tree<real> tree = drafts_.tree(k);
      const draft_context& c = contexts_[static_cast<std::size_t>(k)];
      for (std::int32_t node = 0; node < tree.count; ++node) {
        row_tasks_.data()[tasks++] = {
            evaluation.logits(plan.first_row + plan.prefix + node), c.parameters,
            row_history{nullptr, c.committed, c.length, tree.tokens, tree.parent, node},
            laws_.data() + node_index(k, node)};
      }
      plan.verdict = decoding;
      views_.data()[decoding] = {tree, laws_.data() + node_index(k, 0), c.seed,
                                 static_cast<std::uint32_t>(c.length)};
      verdicts_.data()[decoding] = {};
      verdicts_.data()[decoding].path = paths_.data() + node_index(k, 0);
      ++decoding;
    }
    executor_.launch(tasks, kernel::make_laws<real, sampler_type>{row_tasks_.data(), sampler_});
    executor_.launch(decoding, kernel::verify_sequences<real, verifier_type, Random>{
                                   views_.data(), verdicts_.data(), verifier_, random_});
    executor_.synchronize();
  }

  /// Rows for which the target's cache had no room. A shorter draft is still exact, for which rows
  /// fit does not depend on what was drawn; without room for the root the request ends.
  template <class Evaluation>
  void drop_full_rows(std::int32_t k, planned& plan, Evaluation& evaluation) {
    const std::int32_t nodes = plan.decodes ? drafts_.count(k) : 0;
    std::int32_t fitted = 0;
    while (fitted < plan.prefix + nodes &&
           evaluation.status(plan.first_row + fitted) == status::ok) {
      ++fitted;
    }
    if (fitted < plan.prefix + std::min(nodes, 1)) {
      plan.finish = finish_reason::cache_full;
    } else if (plan.decodes) {
      drafts_.count(k) = fitted - plan.prefix;
    }
  }

  /// Cuts the verified run of sequence k at the first stop, where plain decoding would have ended.
  void trim(std::int32_t k) {
    planned& plan = plan_[static_cast<std::size_t>(k)];
    if (plan.verdict < 0) { return; }
    const verdict& v = verdicts_.data()[plan.verdict];
    if (plan.status == status::ok) { plan.status = v.status; }
    if (plan.status != status::ok) {
      plan.finish = finish_reason::error;
      return;
    }
    slot& s = slots_[static_cast<std::size_t>(plan.slot)];
    const draft_tree<real> tree = drafts_.tree(k);
    s.staged_tail = s.tail;
    while (plan.finish == finish_reason::none && plan.emitted <= v.accepted) {
      const bool drafted = plan.emitted < v.accepted;
      const token t = drafted ? tree.tokens[v.path[plan.emitted]] : v.next;
      tokens_[node_index(k, plan.emitted)] = t;
      origins_[node_index(k, plan.emitted)] = drafted ? origin::accepted : v.next_origin;
      ++plan.emitted;
      if (std::ranges::find(s.stop_tokens, t) != s.stop_tokens.end()) {
        plan.finish = finish_reason::stop_token;
      } else if (!s.stops.empty() && s.stops.feed(s.staged_tail, options_.token_text(t))) {
        plan.finish = finish_reason::stop_string;
      } else if (plan.emitted == s.remaining) {
        plan.finish = finish_reason::length;
      }
    }
  }

  template <class Evaluation>
  void commit(std::int32_t size, Evaluation& evaluation) noexcept {
    kept_.clear();
    for (std::int32_t k = 0; k < size; ++k) {
      const planned& plan = plan_[static_cast<std::size_t>(k)];
      draft_outcome& outcome = outcomes_[static_cast<std::size_t>(k)];
      outcome = {plan.slot,
                 plan.first_row,
                 plan.prefix,
                 nullptr,
                 0,
                 plan.status != status::ok,
                 plan.finish != finish_reason::none};
      if (plan.verdict >= 0) {
        outcome.path = verdicts_.data()[plan.verdict].path;
        outcome.kept = std::max(plan.emitted - 1, 0);
      }
      if (outcome.finished) {
        kept_.release(plan.slot);
        continue;
      }
      for (std::int32_t i = 0; i < plan.prefix; ++i) { kept_.keep(plan.slot, i); }
      if (!plan.decodes) { continue; }
      kept_.keep(plan.slot, plan.prefix);
      for (std::int32_t i = 0; i < outcome.kept; ++i) {
        kept_.keep(plan.slot, plan.prefix + outcome.path[i]);
      }
    }
    drafter_.observe(draft_state_, draft_outcomes{size, outcomes_.data()}, evaluation);
    target_.commit(kept_.view());
    for (std::int32_t k = 0; k < size; ++k) { advance(k); }
    ++statistics_.target_passes;
    statistics_.target_rows += rows_.size();
  }

  /// Appends what sequence k emitted to its text, and reports it.
  void advance(std::int32_t k) noexcept {
    const planned& plan = plan_[static_cast<std::size_t>(k)];
    slot& s = slots_[static_cast<std::size_t>(plan.slot)];
    const auto count = static_cast<std::size_t>(plan.emitted);
    const std::span<const token> tokens{tokens_.data() + node_index(k, 0), count};
    s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());  // within the capacity
    s.cached += plan.prefix + plan.emitted;
    s.remaining -= plan.emitted;
    if (plan.verdict >= 0 && plan.status == status::ok) {
      std::swap(s.tail, s.staged_tail);
      count_step(k, plan);
    }
    if (!plan.decodes && plan.finish == finish_reason::none) { return; }
    emissions_.push_back({s.id,
                          tokens,
                          {origins_.data() + node_index(k, 0), count},
                          plan.finish,
                          plan.status,
                          plan.finish == finish_reason::stop_string ? s.tail.excess : 0});
    if (plan.finish != finish_reason::none) {
      s.id = 0;
      --running_;
    }
  }

  void count_step(std::int32_t k, const planned& plan) noexcept {
    const draft_tree<real> tree = drafts_.tree(k);
    const verdict& v = verdicts_.data()[plan.verdict];
    std::int32_t deepest = 0;
    for (std::int32_t node = 1; node < tree.count; ++node) {
      std::int32_t depth = 0;
      for (std::int32_t up = node; up > 0; up = tree.parent[up]) { ++depth; }
      deepest = std::max(deepest, depth);
      if (drafter_type::uses_selector &&
          tree.next_child(tree.parent[node], tree.parent[node]) == node) {
        ++statistics_.shortlists;
        statistics_.shortlist_rows += tree.lists[tree.parent[node]].size;
      }
    }
    ++statistics_.steps;
    statistics_.drafted += tree.count - 1;
    statistics_.accepted += v.accepted;
    statistics_.emitted += plan.emitted;
    statistics_.empty_residuals += v.empty_residual ? 1 : 0;
    for (std::int32_t i = 0; i < deepest; ++i) {
      ++statistics_.proposed_at[static_cast<std::size_t>(i)];
    }
    for (std::int32_t i = 0; i < v.accepted; ++i) {
      ++statistics_.accepted_at[static_cast<std::size_t>(i)];
    }
    ++statistics_.histogram[static_cast<std::size_t>(v.accepted)];
  }

  Target target_;
  D drafter_;
  Selector selector_;
  sampler_type sampler_;
  verifier_type verifier_;
  Random random_;
  E executor_;
  decoder_options options_;
  std::int32_t vocab_size_;
  typename drafter_type::template state<real, E> draft_state_;
  draft_batch<real, E> drafts_;
  staged_rows<E> rows_;
  kept_list<E> kept_;
  buffer<kernel::target_row<real>> row_tasks_;
  buffer<law<real>> laws_;
  buffer<verify_view<real>> views_;
  buffer<verdict> verdicts_;
  buffer<std::int32_t> paths_;
  std::vector<slot> slots_;
  std::vector<draft_context> contexts_;
  std::vector<planned> plan_;
  std::vector<draft_outcome> outcomes_;
  std::vector<token> tokens_;
  std::vector<origin> origins_;
  std::vector<emission> emissions_;
  statistics<max_nodes> statistics_;
  std::int32_t draft_length_ = 0;
  std::int32_t running_ = 0;
  request_id last_id_ = 0;
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
