// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <engine/eagle_files.hpp>
#include <engine/tokenizer.hpp>
#include <grammar/regular_grammar.hpp>

namespace generate {

program::program(const arguments& a)
    : args_(resolved(a)),
      target_(engine::model::load(a.model, options())),
      part_(target_),
      session_(args_, target_.shape(), target_.context()) {
  if (!a.pattern.empty()) {
    session_.request.grammar = grammar::regular_grammar(
        a.pattern, target_.vocab_size(),
        [this](hunch::token t) -> std::string_view { return session_.text().bytes(t); },
        session_.text().eos());
  }
}

void program::run() {
  if (args_.decodes_plainly()) { return without_drafter(); }
  compose([this](composed& of) { report_both(of); });
}

void program::report_both(composed& of) {
  announce(args_);
  hunch::length::meter meter(of.levels(), {.seed = args_.seed});
  const std::int32_t longest = std::min(args_.draft_length.value_or(of.levels()), of.levels());
  of.calibrate(meter, session_.prompts(), session_.request, args_.batch, longest);
  const bool metered = args_.measures_length();
  if (metered) { of.warm_up(meter, session_.prompts(), session_.request, args_.batch); }

  session_.begin_text();
  forecast expected;
  const comparison compared = compare(
      [&](const auto& o, const auto& on_token) {
        return of.run_plain(session_.prompts(), o, args_.batch, on_token);
      },
      [&](const auto& o, const auto& on_token) {
        return metered
                   ? of.run_metered(meter, session_.prompts(), o, args_.batch, expected, on_token)
                   : of.run_fixed(longest, meter, session_.prompts(), o, args_.batch, expected,
                                  on_token, args_.draft_lengths);
      },
      session_.request, args_.batch, args_.rounds, session_.stream());
  session_.report_both(compared, of.stats(), expected.gain(),
                       args_.draft_length ? std::to_string(*args_.draft_length)
                                          : text_of(compared.first.draft_lengths));
}

void program::compose(const std::function<void(composed&)>& use) {
  use_ = use;
  switch (args_.drafter) {
    case drafter_kind::none:
      throw std::logic_error("generate: plain decoding composes no drafter");
    case drafter_kind::int4:
      if (drafts_with_target()) { return with_quantised_target(); }
      [[fallthrough]];
    case drafter_kind::model:
      return with_model();
    case drafter_kind::eagle:
      return with_eagle();
    case drafter_kind::early_exit:
      return with_early_exit();
    case drafter_kind::medusa:
      return with_medusa();
    case drafter_kind::streaming:
      return with_streaming();
    case drafter_kind::lookup:
      return with_lookup();
    case drafter_kind::ensemble:
      return with_ensemble();
    case drafter_kind::cascade:
      return with_cascade();
  }
}

void program::without_drafter() {
  const auto with = [this](auto sampler, auto verifier) {
    hunch::decoder plain{part_.target(),
                         hunch::drafter::none{},
                         hunch::selector::full{target_.vocab_size()},
                         sampler,
                         verifier,
                         sizes(),
                         hunch::random_source<>{},
                         part_.where()};
    announce(args_);
    session_.begin_text();
    session_.report_plain(run_requests(
        plain, session_.prompts(), session_.request, args_.batch, [](auto&) {}, session_.stream()));
  };
  switch (args_.verifier) {
    case verifier_kind::rejection:
    case verifier_kind::point_mass:
    case verifier_kind::block:
      return with(text_sampler{}, hunch::verifier::rejection{});
    case verifier_kind::coupled:
      return with(text_sampler{}, hunch::verifier::coupled{});
    case verifier_kind::greedy:
      return with(hunch::sampler::greedy{}, hunch::verifier::greedy{});
  }
}

engine::model_options program::options() const {
  engine::model_options o;
  o.kind = engine::arithmetic_of(args_.precision);
  o.threads = args_.threads > 0 ? args_.threads : default_threads();
  o.max_batch = args_.batch;
  o.keep_features = args_.reads_features();
  if (o.keep_features) {
    o.feature_layers = engine::eagle_files::feature_layers_of(args_.draft, args_.model);
  }
  return o;
}

hunch::decoder_options program::sizes() const {
  hunch::decoder_options o;
  o.max_batch = args_.batch;
  return o;
}

any_selector program::chosen_selector(const hunch::made_for& head, std::int32_t context_width,
                                      std::int32_t early_width) {
  const auto clusters = load_clusters(args_, session_.drafted_by(head), context_width, early_width);
  if (!clusters) {
    any_selector fixed(session_.fixed_shortlist(head));
    // The report names what drafts, not what was asked for.
    if (args_.selector == selector_kind::clustered) { args_.selector = selector_kind::frequency; }
    return fixed;
  }
  router_.emplace(clusters->router);
  return any_selector(hunch::selector::clustered{
      clusters->layout, router_->view(), args_.budget.value_or(default_budget(head.vocab_size))});
}

}  // namespace generate
