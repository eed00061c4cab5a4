// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <command_line/files.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/published_format.hpp>
#include <engine/text/utf8.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/vocab/layouts.hpp>
#include <hunch/vocab/shared_vocabulary.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "generate/arguments.hpp"
#include "generate/measure.hpp"
#include "generate/ranking.hpp"
#include "generate/report.hpp"
#include "generate/terminal.hpp"

namespace generate {

/// What a draft directory holds, which it says itself: a model, or heads of the target.
/// \throws std::runtime_error naming it if it is neither.
inline drafter_kind drafter_in(const std::string& directory) {
  using engine::published_format;
  const engine::checkpoint weights = engine::checkpoint::open(directory);
  const std::optional<published_format> format = engine::format_of(weights);
  if (!format) {
    throw std::runtime_error(directory + ": " + engine::words_for_unknown(directory, weights));
  }
  switch (*format) {
    case published_format::eagle:
    case published_format::eagle3:
    case published_format::mtp:
    case published_format::own_eagle:
      return drafter_kind::eagle;
    case published_format::medusa:
    case published_format::own_medusa:
      return drafter_kind::medusa;
    case published_format::own_exit:
      return drafter_kind::early_exit;
    case published_format::own_streams:
      return drafter_kind::streaming;
    case published_format::model:
      break;
  }
  return drafter_kind::model;
}

inline arguments resolved(arguments a) {
  if (!a.plain && a.drafter == drafter_kind::model) { a.drafter = drafter_in(a.draft); }
  return a;
}

/// What the flags ask for, whatever writes it.
/// \param target ends a text with what its config says, and with what its tokenizer says.
inline hunch::generation_options request_of(const arguments& a, const engine::tokenizer& text,
                                            const engine::config& target) {
  hunch::generation_options request;
  request.max_new_tokens = a.max_new_tokens;
  request.temperature = a.temperature;
  request.top_k = a.top_k;
  request.top_p = a.top_p;
  request.min_p = a.min_p;
  request.repetition_penalty = a.repetition_penalty;
  request.presence_penalty = a.presence_penalty;
  request.frequency_penalty = a.frequency_penalty;
  request.seed = a.seed;
  if (a.ignore_end) { return request; }
  request.stop_tokens.assign(target.end_tokens.begin(), target.end_tokens.end());
  const bool is_known = std::find(target.end_tokens.begin(), target.end_tokens.end(), text.eos()) !=
                        target.end_tokens.end();
  if (text.eos() != hunch::no_token && !is_known) { request.stop_tokens.push_back(text.eos()); }
  return request;
}

/// \throws usage_error if a prompt and what follows it do not fit a context.
inline void check_length(std::size_t prompt, const arguments& a, std::int32_t context) {
  if (prompt == 0) {
    throw usage_error("--prompt: makes no token, and a text needs one to begin with");
  }
  if (prompt >= static_cast<std::size_t>(context)) {
    throw usage_error("--prompt: its " + std::to_string(prompt) +
                      " tokens leave no room in the context of " + std::to_string(context));
  }
  if (static_cast<std::int64_t>(prompt) + a.max_new_tokens > context) {
    throw usage_error("--max-new-tokens: the prompt's " + std::to_string(prompt) + " tokens and " +
                      std::to_string(a.max_new_tokens) + " new ones exceed the context of " +
                      std::to_string(context));
  }
}

/// What does not depend on where the models run: the request, the text as it comes, the report.
class session {
 public:
  /// Of a target of this shape with room for `context` tokens. The flags must outlive it.
  session(const arguments& a, const engine::config& target, std::int32_t context)
      : args_(a), text_(a.model), terminal_(a.color) {
    engine::check_tokenizer(text_, a.model, a.model, target);
    prompts_ = {text_.encode(a.prompt)};
    request = request_of(a, text_, target);
    check_length(prompts_[0].size(), a, context);
  }

  hunch::generation_options request;

  const engine::tokenizer& text() const { return text_; }
  const std::vector<std::vector<hunch::token>>& prompts() const { return prompts_; }
  /// Tokens of a request, prompt and emitted.
  std::int32_t length() const {
    return static_cast<std::int32_t>(prompts_[0].size()) + args_.max_new_tokens;
  }

  /// \throws std::runtime_error if a draft model reads another vocabulary than the target.
  void check_draft(const engine::config& draft) const {
    engine::check_draft_vocabulary(args_.draft, draft, text_.fingerprint(), args_.model);
  }

  /// What a draft model of another vocabulary shares with the target's, in the order of the ranking
  /// that the flags ask for; nothing if it reads the same. \throws std::runtime_error if nothing
  /// says what it reads; usage_error for clusters, which are of a head of the target's vocabulary.
  std::optional<hunch::shared_vocabulary> shared_with(const engine::config& draft,
                                                      const engine::config& target) const {
    auto shared = engine::shared_with_draft(args_.draft, draft, text_, target, args_.model);
    if (!shared) { return shared; }
    if (args_.selector == selector_kind::clustered) {
      throw usage_error("--selector clustered: " + args_.draft +
                        " has not the target's vocabulary: use frequency, trimmed or full");
    }
    std::fprintf(stderr,
                 "generate: %s has not the target's vocabulary: drafts are of the %d tokens that "
                 "both have, of %d\n",
                 args_.draft.c_str(), shared->size(), target.vocab_size);
    return shared->ordered(
        fixed_shortlist({.vocab_size = target.vocab_size, .head = 0, .name = args_.model})
            .layout());
  }

  /// Of a head that drafts, what files for it say: the vocabulary is that of the text.
  hunch::made_for drafted_by(hunch::made_for head) const {
    head.vocabulary = text_.fingerprint();
    return head;
  }

  /// The first rows of a head, where the shortlist is the same for every draft: as is asked for, or
  /// for want of clusters.
  hunch::selector::frequency<> fixed_shortlist(const hunch::made_for& head) const {
    const std::int32_t vocab_size = head.vocab_size;
    if (args_.selector == selector_kind::full) {
      return {hunch::vocab_layout::identity(vocab_size), vocab_size};
    }
    hunch::vocab_layout layout = ranking_for(args_, text_, drafted_by(head));
    const bool trimmed = args_.selector == selector_kind::trimmed;
    std::int32_t rows = std::min(default_rows(vocab_size), layout.head_rows());
    if (trimmed && layout.head_rows() < vocab_size) { rows = layout.head_rows(); }
    if (args_.shortlist_rows > 0) { rows = args_.shortlist_rows; }
    if (rows > layout.head_rows()) {
      throw usage_error("--selector: " + std::to_string(rows) + " rows are asked for, " +
                        (args_.layout.empty() ? "the ranking" : args_.layout) + " has " +
                        std::to_string(layout.head_rows()));
    }
    if (trimmed) { layout = hunch::first_rows(layout, rows); }
    return {std::move(layout), rows};
  }

  void begin_text() {
    terminal_.legend();
    std::fwrite(args_.prompt.data(), 1, args_.prompt.size(), stdout);
    command_line::flush_output();
  }
  /// Streams the text of the first request.
  auto stream() {
    return [this](std::size_t request_index, hunch::token t, hunch::origin from) {
      if (request_index == 0) { terminal_.write(text_.bytes(t), from); }
    };
  }

  void report_plain(const run& one) {
    report r;
    take_text(r, one);
    r.plain_rate = static_cast<double>(one.timed) / one.time;
    finish(r);
  }

  /// \param stats of the speculative decoder; draft_length: as `--draft-length` takes it.
  template <class Statistics>
  void report_both(const comparison& both, const Statistics& stats, double predicted,
                   const std::string& draft_length) {
    report r;
    take_text(r, both.first);
    r.plain_rate = both.plain_rate;
    report::speculative_part part;
    part.rate = both.rate;
    part.predicted_speedup = predicted;
    part.draft_length = draft_length;
    part.length_was_measured = args_.measures_length();
    part.mean_acceptance_length = stats.mean_acceptance_length();
    part.draft_acceptance_rate = stats.draft_acceptance_rate();
    part.average_shortlist_rows = stats.average_shortlist_rows();
    part.average_draft_length =
        static_cast<double>(stats.drafted) / static_cast<double>(stats.steps);
    part.target_passes = stats.target_passes;
    for (std::int32_t i = 0; i < std::ssize(stats.proposed_at); ++i) {
      if (stats.proposed_at[i] > 0) {
        part.acceptance_by_position.push_back(stats.acceptance_at(i));
      }
    }
    if (args_.temperature == 0.0f || args_.verifier == verifier_kind::coupled) {
      part.identical_to_plain = both.identical;
    }
    r.speculative = part;
    finish(r);
  }

 private:
  void take_text(report& r, const run& one) const {
    for (const hunch::token t : one.tokens[0]) { r.text += text_.bytes(t); }
    r.text = engine::text::well_formed(r.text);
    r.ids = one.tokens[0];
    r.repetition_4gram = repeated_4grams(one.tokens[0]);
  }

  void finish(report& r) {
    r.preset = args_.preset;
    r.composition = composition(args_);
    terminal_.finish();
    print_table(r);
    if (!args_.json.empty()) { write_json(r, args_.json); }
  }

  const arguments& args_;
  engine::tokenizer text_;
  terminal terminal_;
  std::vector<std::vector<hunch::token>> prompts_;
};

}  // namespace generate
