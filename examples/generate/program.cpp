// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

#include <string>
#include <string_view>

#include <engine/eagle_files.hpp>
#include <engine/tokenizer.hpp>
#include <grammar/regular_grammar.hpp>

namespace generate {

program::program(const arguments& a)
    : args_(resolved(a)),
      target_(engine::model::load(a.model, options())),
      session_(args_, target_.shape(), target_.context()) {
  if (!a.pattern.empty()) {
    session_.request.grammar = grammar::regular_grammar(
        a.pattern, target_.vocab_size(),
        [this](hunch::token t) -> std::string_view { return session_.text().bytes(t); },
        session_.text().eos());
  }
}

void program::run() {
  switch (args_.plain ? drafter_kind::none : args_.drafter) {
    case drafter_kind::none:
      return without_drafter();
    case drafter_kind::model:
    case drafter_kind::int4:
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
  }
}

void program::without_drafter() {
  const auto with = [this](auto sampler, auto verifier) {
    hunch::decoder plain{target_,
                         hunch::drafter::none{},
                         hunch::selector::full{target_.vocab_size()},
                         sampler,
                         verifier,
                         sizes()};
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

hunch::selector::any<> program::chosen_selector(const hunch::made_for& head,
                                                std::int32_t context_width,
                                                std::int32_t early_width) {
  const auto clusters = load_clusters(args_, session_.drafted_by(head), context_width, early_width);
  if (!clusters) {
    hunch::selector::any<> fixed(session_.fixed_shortlist(head));
    // The report names what drafts, not what was asked for.
    if (args_.selector == selector_kind::clustered) { args_.selector = selector_kind::frequency; }
    return fixed;
  }
  router_.emplace(clusters->router);
  return hunch::selector::any<>(hunch::selector::clustered{
      clusters->layout, router_->view(), args_.budget.value_or(default_budget(head.vocab_size))});
}

}  // namespace generate
