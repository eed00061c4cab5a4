// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/decoder_options.hpp>
#include <hunch/decoder/decoding_step.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/stop.hpp>
#include <hunch/length/step_summary.hpp>
#include <hunch/sampler/grammar.hpp>

namespace hunch {

/// The requests of a `decoder`: what its host knows of each while it runs, what the next step has
/// at most, and what came out of the last one. Nothing here depends on what the decoder is composed
/// of, so that a program compiles it once.
class host_requests {
 public:
  /// \param max_nodes of the drafter's trees. \param sees_statuses whether the host learns that a
  /// cache is full. \throws std::invalid_argument naming an option out of range.
  host_requests(decoder_options options, std::int32_t vocab_size, std::int32_t max_nodes,
                bool sees_statuses)
      : options_(std::move(options)),
        vocab_size_(vocab_size),
        max_nodes_(max_nodes),
        slots_(checked(sees_statuses).max_batch, "hunch::decoder", "decoder_options"),
        all_(index(options_.max_batch)),
        tokens_(index(options_.max_batch) * index(max_nodes)),
        origins_(tokens_.size()) {
    emissions_.reserve(index(options_.max_batch));
  }

  const decoder_options& options() const { return options_; }
  std::int32_t vocab_size() const { return vocab_size_; }
  const request_slots& slots() const { return slots_; }

  /// Refuses a request that cannot be done. \throws as `decoder::add` does.
  void check(std::span<const token> prompt, const generation_options& options,
             status of_sampler) const {
    check_request(prompt, options, of_sampler,
                  {.owner = "hunch::decoder",
                   .options = "decoder_options",
                   .vocab_size = vocab_size_,
                   .max_length = options_.max_length,
                   .log_probabilities = options_.max_log_probabilities,
                   .has_token_text = bool(options_.token_text)});
    slots_.require_room();
  }

  /// Gives a slot to a request; its name is there when nothing can throw any more.
  request_id admit(std::int32_t slot, std::span<const token> prompt,
                   const generation_options& options) {
    request r;
    r.unread = static_cast<std::int32_t>(prompt.size()) - 1;
    r.log_probabilities = options.log_probabilities.value_or(-1);
    r.stops = stop_strings(options.stop_strings);
    if (options.grammar) { r.grammar = options.grammar.begin(max_nodes_); }
    r.tail.text.reserve(r.stops.tail_size());
    r.staged_tail.text.reserve(r.tail.text.capacity());
    all_[index(slot)] = std::move(r);
    return slots_.admit(slot);
  }
  void release(std::int32_t slot) noexcept { slots_.release(slot); }

  /// nullptr: none.
  grammar_walk* grammar(std::int32_t slot) const { return all_[index(slot)].grammar.get(); }

  void draft_length(std::int32_t slot, std::int32_t length) {
    all_[index(slot)].draft_length = length;
  }

  /// What the next step has at most, of drafts of so many levels.
  /// \param most_nodes(levels) of a tree.
  step_bounds bounds(std::int32_t draft_length, std::int32_t (*most_nodes)(std::int32_t)) const {
    step_bounds b{.levels = 0};
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      if (!slots_.uses(slot)) { continue; }
      b.slots = slot + 1;
      const request& r = all_[index(slot)];
      b.prompt_rows += std::min(r.unread, options_.chunk);
      if (r.unread > options_.chunk) { continue; }
      const std::int32_t levels = std::min(draft_length, r.draft_length);
      b.tree_rows += most_nodes(levels);
      b.levels = std::max(b.levels, levels);
    }
    return b;
  }

  bool report_log_probabilities() const {
    return some([](const request& r) { return r.log_probabilities >= 0; });
  }
  bool have_stop_strings() const {
    return some([](const request& r) { return !r.stops.empty(); });
  }

  /// Looks for stop strings in what requests with some are about to emit, so that an accepted run
  /// ends where plain decoding would have ended: then by cut(slot, decision).
  /// \param reports [max_batch] of the step.
  template <class Cut>
  void cut_at_stop_strings(const rings& out, const step_report* reports, const Cut& cut) {
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      request& r = all_[index(slot)];
      if (!slots_.uses(slot) || r.stops.empty()) { continue; }
      r.staged_tail = r.tail;
      for (std::int32_t i = 0; i < reports[slot].decided.emitted; ++i) {
        const ring_entry& e = out.at(slot, out.written[slot] + i);
        if (e.finish == finish_reason::stop_token ||
            !r.stops.feed(r.staged_tail, options_.token_text(e.t))) {
          continue;
        }
        cut(slot, {.emitted = i + 1, .finish = finish_reason::stop_string, .status = status::ok});
        break;
      }
    }
  }

  /// A step has come to its end: what the one before emitted is gone.
  void begin_report() {
    emissions_.clear();
    summary_ = {};
  }

  /// Takes what a slot has emitted in a step. Returns whether its request has ended: then it is to
  /// be released.
  /// \param log_probabilities of the slot, if its request has asked.
  bool advance(std::int32_t slot, const rings& out, const step_report& report,
               const token_log_probability* log_probabilities) {
    if (!slots_.uses(slot) || !report.takes_part) { return false; }
    request& r = all_[index(slot)];
    r.unread -= report.prefix;
    const std::size_t first = index(slot) * index(max_nodes_);
    std::size_t count = 0;
    emission e;
    e.id = slots_[slot];
    out.take(slot, [&](const ring_entry& entry) {
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
      e.log_probabilities = {log_probabilities, count * index(1 + r.log_probabilities)};
    }
    e.drafted = report.draft.levels;
    sum_up(report, e);
    if (count > 0 || e.finish != finish_reason::none) { emissions_.push_back(e); }
    return e.finish != finish_reason::none;
  }

  std::span<const emission> emissions() const { return emissions_; }
  step_summary& summary() { return summary_; }
  const step_summary& summary() const { return summary_; }

 private:
  struct request {
    std::int32_t unread = 0;  ///< tokens before the root that the target has not read
    std::int32_t draft_length = std::numeric_limits<std::int32_t>::max();  ///< levels, at most
    std::int32_t log_probabilities = -1;
    std::unique_ptr<grammar_walk> grammar;  ///< nullptr: none
    stop_strings stops;
    stop_tail tail;
    stop_tail staged_tail;  ///< `tail` after the tokens of this step
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  const decoder_options& checked(bool sees_statuses) const {
    const decoder_options& o = options_;
    const refusal refuse{"hunch::decoder"};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (o.chunk < 2) { refuse({"chunk must be at least 2"}); }
    if (o.max_length < 2) { refuse({"max_length must be at least 2"}); }
    if (!sees_statuses && o.max_length == decoder_options{}.max_length) {
      refuse(
          {"max_length must be what the models' caches hold: the host of this executor does not "
           "see when one is full"});
    }
    if (o.max_log_probabilities < -1 || o.max_log_probabilities > vocab_size_) {
      refuse({"max_log_probabilities is ", o.max_log_probabilities,
              "; it may be -1, for none, up to the ", vocab_size_, " tokens of the vocabulary"});
    }
    const std::int64_t rows_per_sequence = static_cast<std::int64_t>(o.chunk) + max_nodes_;
    if (rows_per_sequence * o.max_batch > std::numeric_limits<std::int32_t>::max()) {
      refuse({"max_batch * chunk is too large for a step"});
    }
    return o;
  }

  /// Whether a running request is such a one.
  template <class Is>
  bool some(const Is& is) const {
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_.uses(slot) && is(all_[index(slot)])) { return true; }
    }
    return false;
  }

  void sum_up(const step_report& report, const emission& e) {
    summary_.prompt_rows += report.prefix;
    if (!report.verified) { return; }
    ++summary_.sequences;
    summary_.finished += e.finish != finish_reason::none ? 1 : 0;
    summary_.deepest = std::max(summary_.deepest, report.draft.levels);
    summary_.levels += report.draft.levels;
    summary_.deepest_computed = std::max(summary_.deepest_computed, report.draft.computed);
    summary_.computed += report.draft.computed;
    summary_.tested += report.draft.tested;
    summary_.accepted += report.accepted;
    summary_.drafted += report.drafted;
    summary_.emitted += report.decided.emitted;
  }

  decoder_options options_;
  std::int32_t vocab_size_;
  std::int32_t max_nodes_;
  request_slots slots_;
  std::vector<request> all_;     ///< [max_batch]
  std::vector<token> tokens_;    ///< [max_batch, max_nodes]
  std::vector<origin> origins_;  ///< [max_batch, max_nodes]
  std::vector<emission> emissions_;
  step_summary summary_;
};

}  // namespace hunch
