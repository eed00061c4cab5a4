// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/decoder/composition.hpp>
#include <hunch/decoder/detail/step_bodies.hpp>
#include <hunch/decoder/inbox.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/decoder/sum_of_slots.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/model/found_rows.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch {

/// Sizes of a step, fixed at construction: nothing is allocated later.
struct step_sizes {
  std::int32_t max_batch = 1;
  std::int32_t chunk = 256;   ///< prompt tokens of a sequence that a step reads
  std::int32_t chunks = 256;  ///< of all sequences
  std::int32_t max_length = std::numeric_limits<std::int32_t>::max();  ///< tokens of a text
  std::int32_t vocab_size = 0;
  std::int32_t ring = 0;                ///< entries of a slot: at least what a step may emit
  bool ring_waits = false;              ///< see `rings`
  std::int32_t log_probabilities = -1;  ///< the most that are reported of a token; -1: none
  std::int32_t eager_rows = -1;         ///< see `decoder_options`
  bool moves = false;                   ///< whether somebody reads `moves`
  bool reports = false;                 ///< whether the host reads a `step_report` for each slot
  const char* owner = "hunch::decoding_step";  ///< what messages begin with

  /// These, if there can be such a step. \param max_nodes of the drafter's trees.
  /// \throws std::invalid_argument naming a size out of range.
  step_sizes checked(std::int32_t max_nodes) const {
    const refusal refuse{owner};
    if (max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (chunk < 1) { refuse({"chunk must be at least 1"}); }
    if (chunks < 1) { refuse({"chunks must be at least 1"}); }
    if (ring < max_nodes) {
      refuse({"ring must have room for the ", max_nodes, " tokens that a step may emit"});
    }
    if (log_probabilities < -1) { refuse({"log_probabilities must be at least -1"}); }
    if (eager_rows < -1) { refuse({"eager_rows must be at least -1"}); }
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (std::int64_t{max_batch} * max_nodes + chunks > most) {
      refuse({"max_batch * ", max_nodes,
              " nodes and the prompt tokens are more rows than a step can have"});
    }
    return *this;
  }
};

/// What the host knows of a step before it is launched: so many there are at most.
struct step_bounds {
  std::int32_t slots = 0;        ///< that the step goes over
  std::int32_t prompt_rows = 0;  ///< of the target's pass, before roots
  std::int32_t tree_rows = 0;    ///< roots and what is drafted after them
  /// That any sequence drafts: a drafter makes passes for no more.
  std::int32_t levels = std::numeric_limits<std::int32_t>::max();

  std::int32_t rows() const { return prompt_rows + tree_rows; }
};

/// One step of speculative decoding over all running sequences, as launches and calls of a
/// drafter's models, always the same ones in the same order; what varies is in the executor's
/// memory. Whoever drives it, a host, an executor that repeats it or an engine that records it,
/// does:
///
/// 1. `propose(bounds)`, then the target's pass over `rows(bounds)`;
/// 2. `verify(bounds, rows, evaluation, fixed)`: what is decided is not final, and the step may be
///    begun anew;
/// 3. `commit(bounds, rows, evaluation)`, and in the target's cache what `kept(bounds)` says.
///    Neither throws nor allocates.
///
/// Requests come by the inbox and tokens leave by the rings; reports and log-probabilities of a
/// step, where they are asked for, lie beside these. Nothing else crosses to the host, unless it
/// reads the memory of the step: then it asks how many rows there are, and passes no padding.
///
/// \tparam Target decides what the step is composed for; it is not called.
/// \tparam E the executor: the step's arrays lie in its `step_memory`.
template <class Target, class D, class Selector, class S, class V, class Random, class E>
class decoding_step {
 public:
  using memory = step_memory<E>;
  using parts = composition<Target, D, Selector, S, V, Random, memory>;
  using drafter_type = typename parts::drafter_type;
  using sampler_type = typename parts::sampler_type;
  using verifier_type = typename parts::verifier_type;
  using real = typename parts::real;
  static constexpr std::int32_t max_nodes = parts::max_nodes;
  using arrays_type = step_arrays<real, max_nodes>;

  /// \param executor outlives the step.
  /// \throws std::invalid_argument naming two things that do not fit.
  decoding_step(E& executor, D&& drafter, Selector&& selector, const sampler_type& sampler,
                const verifier_type& verifier, const Random& random, const step_sizes& sizes)
      : drafter_(std::forward<D>(drafter)),
        selector_(std::forward<Selector>(selector)),
        sampler_(sampler),
        verifier_(verifier),
        random_(random),
        sizes_(completed(executor, sizes.checked(max_nodes))),
        memory_(executor),
        requests_(memory_, sizes.max_batch, sizes.vocab_size, sampler_type::needs_counts),
        ring_(memory_, sizes.max_batch, sizes.ring, sizes.ring_waits),
        trees_(memory_, {.max_batch = sizes.max_batch,
                         .max_nodes = max_nodes,
                         .max_ranges = selector_.max_ranges(),
                         .max_rows = drafter_type::uses_selector ? selector_.max_rows() : 0,
                         .vocab_size = sizes.vocab_size,
                         .grammars = sampler_type::needs_allowed,
                         .max_parts = shifted_parts_of(selector_),
                         .law_rows = law_rows_of<drafter_type>()}),
        draft_state_(drafter_, memory_, checked_setup()),
        selecting_(selector_, memory_, sizes.max_batch * law_rows_of<drafter_type>()),
        rows_(memory_, max_rows()),
        kept_(memory_, max_rows(), sizes.max_batch),
        released_(executor, 0, 1),
        logits_(memory_, max_rows()),
        states_(memory_, std::int64_t{max_rows()} * states_of_node),
        owned_(memory_) {
    const std::int64_t batch = sizes.max_batch;
    made_.in = requests_.view();
    made_.trees = trees_.view();
    made_.out = ring_.view();
    made_.rows = rows_.arrays();
    made_.kept = kept_.arrays();
    made_.chunk = sizes.chunk;
    made_.chunks = sizes.chunks;
    made_.report_stride = sizes.log_probabilities + 1;
    owned_.give(batch, made_.plans, made_.contexts, made_.verdicts, made_.decisions, made_.outcomes,
                made_.counters);
    owned_.give(batch * max_nodes, made_.laws, made_.scratch, made_.paths);
    if constexpr (team::spans_ranks<memory>) {
      made_.groups = team::groups_of(sizes.vocab_size);
      owned_.give(batch * max_nodes, made_.told, made_.ahead);
      owned_.give(batch * max_nodes * made_.groups, made_.sums);
    }
    owned_.give(host_reads<memory> ? max_rows() : 0, made_.statuses);
    if (sizes.moves) { owned_.give(max_rows(), made_.moves); }
    owned_.give(3, made_.counts);
    if (sizes.reports) { owned_.give_host_written(batch, made_.reports); }
    owned_.give_host_written(batch * max_nodes * made_.report_stride, made_.log_probabilities);
    reset_stats();
  }

  decoding_step(const decoding_step&) = delete;
  decoding_step& operator=(const decoding_step&) = delete;

  const sampler_type& sampler() const { return sampler_; }
  memory& where() { return memory_; }
  inbox<memory>& requests() { return requests_; }
  const rings& ring() const { return ring_.view(); }
  draft_batch<real, memory>& trees() { return trees_; }

  /// Drafts at most `length` levels from the next step on. Recorded steps keep what they have.
  void draft_length(std::int32_t length) {
    draft_length_ = std::clamp(length, std::int32_t{0}, max_nodes - 1);
  }
  std::int32_t draft_length() const { return draft_length_; }
  /// Rows of a tree of so many levels at most, with its root.
  static constexpr std::int32_t most_nodes(std::int32_t levels) {
    return levels > 0 && !drafter_type::is_chain ? max_nodes : std::min(levels + 1, max_nodes);
  }
  /// The same for the sequence of a slot, of recorded steps too.
  void draft_length(std::int32_t slot, std::int32_t length) {
    memory_.launch(1, bound_drafts{requests_.view().all, slot, length});
  }

  /// Streams that are requested beside the rows of the next pass: nobody reads them while nothing
  /// is drafted.
  std::int32_t streams() const {
    return draft_length_ > 0 && hidden_size_of(drafter_) > 0 ? streams_of<drafter_type>() : 0;
  }

  /// Takes a request that was put into a free slot, at once.
  void take(std::int32_t slot) { memory_.launch(1, take_arrivals{requests_.view(), slot}); }

  /// Grows a draft for every sequence, and places the rows of the target's pass. \throws what the
  /// drafter does.
  void propose(const step_bounds& bounds) {
    const profiler_range<E> range("hunch: propose");
    const arrays_type of = arrays(bounds);
    memory_.launch(of.slots, kernel::begin_step<real, max_nodes>{of});
    trees_.begin(memory_, bounds.prompt_rows, std::min(bounds.levels, draft_length_));
    parts::with_draw(verifier_, random_, [&](const auto& draw) {
      drafter_.propose(draft_state_, of.slots, of.contexts, trees_, selecting_, sampler_, draw,
                       memory_);
    });
    trees_.follow(memory_);
    memory_.launch(of.slots, kernel::place_rows<real, sampler_type, max_nodes>{of});
  }

  /// The rows of the target's pass. Waits for the executor where the host reads their number.
  hunch::rows rows(const step_bounds& bounds) {
    return rows_.arrays().view(known_count(memory_, made_.counts, bounds.rows()), streams());
  }

  /// Decides what is kept of every draft, and what is emitted.
  /// \param rows of the pass. \param fixed whether its logits must lie where they lay before.
  /// \throws std::logic_error if they do not.
  /// \throws std::invalid_argument if the target's states have another size than the drafter reads.
  template <class Evaluation>
  void verify(const step_bounds& bounds, const hunch::rows& rows, Evaluation& evaluation,
              bool fixed) {
    const profiler_range<E> range("hunch: verify");
    if constexpr (host_reads<memory>) {
      if (!take_statuses(evaluation, rows.size, made_.statuses)) {
        memory_.launch(bounds.slots, kernel::drop_target_rows<real, max_nodes>{arrays(bounds)});
      }
    }
    find_results(rows, evaluation, fixed);
    arrays_type of = arrays(bounds);
    // Of a chain most rows are read, so that what a rule asks of each is asked ahead, too: ranks
    // then exchange once for all of them.
    constexpr bool spans_chains = team::spans_ranks<memory> && drafter_type::is_chain;
    const bool eager = makes_laws_ahead<host_reads<memory>, drafter_type::is_chain>(
        std::int64_t{of.slots} * max_nodes, sizes_.eager_rows);
    of.looks_ahead = spans_chains && eager;
    if (eager) {
      memory_.launch(of.slots * max_nodes,
                     kernel::make_slot_laws<real, sampler_type, max_nodes>{of, sampler_});
    }
    with_rule(verifier_, [&]<class Rule>(const Rule& rule) {
      const kernel::decide_slot<view_type, real, sampler_type, Rule, Random, max_nodes> decide{
          .step = of,
          .children = traits_of_drafts(drafter_).children,
          .sampler = sampler_,
          .verifier = rule,
          .random = random_};
      if constexpr (spans_chains) {
        if (eager) {
          memory_.launch(of.slots * max_nodes,
                         kernel::look_ahead<decltype(decide), max_nodes>{decide});
        }
      }
      memory_.launch(of.slots, decide);
    });
  }

  /// Log-probabilities of what is emitted, for requests that ask; see `log_probabilities`.
  void report(const step_bounds& bounds) {
    memory_.launch(bounds.slots * max_nodes,
                   kernel::report_emitted<real, max_nodes>{arrays(bounds)});
  }

  /// Puts something shorter in the place of what was decided about a slot, when the executor has
  /// run `verify`: for a stop that only the host sees. Waits for the executor where the host does
  /// not write its memory.
  void cut(std::int32_t slot, const step_decision& shorter) {
    write_buffer(memory_, made_.decisions + slot, &shorter, 1);
  }

  /// Makes the step final. Waits for the executor where the host reads which nodes are kept and the
  /// drafter their states. \param rows of the pass.
  template <class Evaluation>
  void commit(const step_bounds& bounds, const hunch::rows& rows, Evaluation& evaluation) noexcept {
    const profiler_range<E> range("hunch: commit");
    attempt([&] {
      memory_.launch(bounds.slots, kernel::end_step<real, max_nodes, sampler_type::needs_counts>{
                                       arrays(bounds), drafter_type::uses_selector});
    });
    bool has_states = states_in(rows) > 0;
    if constexpr (host_reads<memory> && states_of_node > 0) {
      bool found = false;  // else the next step drafts nothing
      attempt([&] {
        memory_.synchronize();
        for (std::int32_t slot = 0; slot < bounds.slots; ++slot) {
          const draft_outcome& of = made_.outcomes[slot];
          if (of.goes_on()) { find_states(of.last_row, states_in(rows), evaluation); }
        }
        found = true;
      });
      has_states = has_states && found;
    }
    draft_outcomes outcomes{.slots = bounds.slots, .of = made_.outcomes, .states = {}};
    if (has_states) { outcomes.states = states_.places(std::int64_t{rows.size} * states_of_node); }
    drafter_.observe(draft_state_, outcomes, evaluation, memory_);
  }

  /// What enters the target's cache, and which slots are free. Waits as `rows` does.
  kept_rows kept(const step_bounds& bounds) noexcept {
    if constexpr (host_reads<memory>) {
      attempt([&] { memory_.synchronize(); });
    }
    const auto count = [&](std::int32_t which, std::int32_t most) {
      return host_reads<memory> ? made_.counts[which] : most;
    };
    return kept_.arrays().view(count(1, bounds.rows()), count(2, bounds.slots));
  }

  /// [rows] the same rows, and where they go; of as many as `moved` says, and padding behind them
  /// where the host does not read the memory of the step. In that memory.
  const cache_move* moves() const { return made_.moves; }
  /// [1] how many of them; [1] after it, how many slots are free, which `kept` lists.
  const std::int32_t* moved() const { return made_.counts + 1; }

  /// Ends the sequence of a slot between two steps: what the target is to commit. Waits for the
  /// executor, for whoever reads the list of the last call.
  kept_rows release(std::int32_t slot, E& executor) noexcept {
    attempt([&] {
      executor.synchronize();
      memory_.launch(1, clear_slots{requests_.view().all + slot});
    });
    drafter_.release(draft_state_, slot, memory_);
    released_.clear();
    released_.release(slot);
    return released_.view();
  }

  /// [max_batch] of the last step; `decided` is right when the executor has run `verify`, and all
  /// of it after `commit`.
  const step_report* reports() const { return made_.reports; }
  /// [emitted, 1 + as many as the request asks for] of the last step.
  const token_log_probability* log_probabilities(std::int32_t slot) const {
    return made_.log_probabilities + std::int64_t{slot} * max_nodes * made_.report_stride;
  }

  /// Counters of all steps; waits for the executor.
  statistics<max_nodes> stats() { return sum_of_slots(memory_, made_.counters, sizes_.max_batch); }
  void reset_stats() { memory_.launch(sizes_.max_batch, clear_slots{made_.counters}); }

 private:
  using view_type = kernel::slot_view<real, sampler_type, max_nodes, drafter_type::is_chain,
                                      selects_one_range<Selector>, team::spans_ranks<memory>>;

  /// That the drafter reads: hidden states, or streams.
  static constexpr std::int32_t states_of_node =
      drafter_type::needs_hidden ? 1 : streams_of<drafter_type>();

  /// How many rows are made ahead, where that is left to an executor of one rank of several.
  static step_sizes completed(const E& executor, step_sizes sizes) {
    if constexpr (requires { executor.few_exchanges(); }) {
      if (sizes.eager_rows < 0 && drafter_type::is_chain && executor.few_exchanges()) {
        sizes.eager_rows = std::numeric_limits<std::int32_t>::max();
      }
    }
    return sizes;
  }

  /// Of a pass.
  std::int32_t max_rows() const { return sizes_.max_batch * max_nodes + sizes_.chunks; }

  drafter_setup checked_setup() {
    drafter_setup setup{.max_batch = sizes_.max_batch,
                        .chunk = std::min(sizes_.chunk, sizes_.chunks),
                        .chunks = sizes_.chunks,
                        .max_length = sizes_.max_length,
                        .vocab_size = sizes_.vocab_size,
                        .layout = &selector_.layout(),
                        .context_width = context_width_of(selector_),
                        .max_rows = selector_.max_rows(),
                        .hidden_size = 0};
    setup.hidden_size = hidden_size_of(drafter_);
    parts::check(drafter_, verifier_);
    drafter_.check(setup);
    return setup;
  }

  arrays_type arrays(const step_bounds& bounds) const {
    arrays_type of = made_;
    of.slots = bounds.slots;
    of.draft_length = draft_length_;
    of.padded = host_reads<memory> ? 0 : bounds.rows();
    return of;
  }

  /// Where the logits of each row lie, and the states that the drafter reads. The host that reads
  /// which rows there are asks for logits that are wanted and there, and looks at the size of one
  /// state: it asks for those of kept nodes only. Another asks for all of them.
  template <class Evaluation>
  void find_results(const hunch::rows& rows, Evaluation& evaluation, bool fixed) {
    std::int32_t states = states_in(rows);
    for (std::int32_t i = 0; i < rows.size; ++i) {
      if constexpr (host_reads<memory>) {
        if (rows.wanted[i] == 0 || made_.statuses[i] != status::ok) { continue; }
        fixed = false;
        find_states(i, std::min(states, 1), evaluation);
        states = 0;
      } else {
        find_states(i, states, evaluation);
      }
      const row_view<real> row = evaluation.logits(i);
      row_view<real>& known = logits_[i];
      if (fixed && known.data != nullptr && known.data != row.data) {
        throw std::logic_error(message(
            {"hunch: the target's logits of row ", i,
             " have moved; in a loop that is repeated they lie at the same address in every "
             "pass"}));
      }
      known = row;
    }
    made_.logits = logits_.places(rows.size);
  }

  std::int32_t states_in(const hunch::rows& rows) const {
    if (hidden_size_of(drafter_) == 0) { return 0; }  // nobody reads them
    return drafter_type::needs_hidden ? 1 : rows.streams;
  }
  /// The first `count` states of row i.
  template <class Evaluation>
  void find_states([[maybe_unused]] std::int32_t i, [[maybe_unused]] std::int32_t count,
                   [[maybe_unused]] Evaluation& evaluation) {
    if constexpr (states_of_node > 0) {
      for (std::int32_t j = 0; j < count; ++j) {
        const auto state = [&] {
          if constexpr (drafter_type::needs_hidden) {
            return evaluation.hidden(i);
          } else {
            return evaluation.stream(i, j);
          }
        }();
        const std::int32_t expected = drafter_.hidden_size();
        if (state.size != expected) {
          throw std::invalid_argument(message({"hunch: the target's states have ", state.size,
                                               " numbers, and the drafter reads ", expected}));
        }
        states_[std::int64_t{i} * states_of_node + j] = {state.data, state.size};
      }
    }
  }

  D drafter_;
  Selector selector_;
  sampler_type sampler_;
  verifier_type verifier_;
  Random random_;
  step_sizes sizes_;
  std::conditional_t<std::is_same_v<memory, E>, E&, memory> memory_;
  inbox<memory> requests_;
  ring_storage<memory> ring_;
  draft_batch<real, memory> trees_;
  typename drafter_type::template state<real, memory> draft_state_;
  selecting<std::remove_reference_t<Selector>, memory> selecting_;
  staged_rows<memory> rows_;
  kept_list<memory> kept_;
  kept_list<E> released_;
  found_rows<real, memory> logits_;         ///< [max_rows]
  found_rows<const float, memory> states_;  ///< [max_rows, states_of_node] see `draft_outcomes`
  owned_arrays<memory> owned_;
  arrays_type made_;  ///< but for what varies from step to step
  std::int32_t draft_length_ = max_nodes - 1;
};

}  // namespace hunch
