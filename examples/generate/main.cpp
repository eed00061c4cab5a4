// SPDX-License-Identifier: Apache-2.0
//
// Generates text with a target model, plain and by speculative decoding on the same engine, and
// says what was gained. The composition of policies is chosen at compile time; the flags choose
// among a few.

#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <grammar/regular_grammar.hpp>
#include <hunch/hunch.hpp>

#include "generate/arguments.hpp"
#include "generate/measure.hpp"
#include "generate/report.hpp"
#include "generate/terminal.hpp"

namespace generate {

namespace {

/// The tokens of a vocabulary in order of frequency, from a safetensors file.
hunch::vocab_layout load_ranking(const std::string& path, std::int32_t vocab_size) {
  const std::vector<std::int32_t> ranking = engine::checkpoint::open(path).integers("ranking");
  if (static_cast<std::int32_t>(ranking.size()) != vocab_size) {
    throw std::runtime_error(path + ": 'ranking' has " + std::to_string(ranking.size()) +
                             " tokens, the target's vocabulary " + std::to_string(vocab_size));
  }
  return hunch::vocab_layout::permuted(ranking, vocab_size);
}

using text_sampler =
    hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::allowed_tokens,
                             hunch::sampler::temperature, hunch::sampler::top_k,
                             hunch::sampler::top_p, hunch::sampler::min_p>;

class program {
 public:
  explicit program(const arguments& a)
      : args_(a),
        target_(engine::model::load(a.model, options())),
        text_(a.model),
        terminal_(a.color) {
    if (text_.vocab_size() > target_.vocab_size()) {
      throw std::runtime_error(a.model + ": the tokenizer has " +
                               std::to_string(text_.vocab_size()) + " tokens, the model " +
                               std::to_string(target_.vocab_size()));
    }
    prompts_ = {text_.encode(a.prompt)};
    request_.max_new_tokens = a.max_new_tokens;
    request_.temperature = a.temperature;
    request_.top_k = a.top_k;
    request_.top_p = a.top_p;
    request_.min_p = a.min_p;
    request_.repetition_penalty = a.repetition_penalty;
    request_.presence_penalty = a.presence_penalty;
    request_.frequency_penalty = a.frequency_penalty;
    request_.seed = a.seed;
    if (!a.pattern.empty()) {
      request_.grammar = grammar::regular_grammar(
          a.pattern, target_.vocab_size(),
          [this](hunch::token t) -> std::string_view { return text_.bytes(t); }, text_.eos());
    }
    if (!a.ignore_end && text_.eos() != hunch::no_token) { request_.stop_tokens = {text_.eos()}; }
    const auto room = static_cast<std::int32_t>(prompts_[0].size()) + a.max_new_tokens;
    if (room > target_.context()) {
      throw usage_error("the prompt's " + std::to_string(prompts_[0].size()) + " tokens and " +
                        std::to_string(a.max_new_tokens) + " new ones exceed the context of " +
                        std::to_string(target_.context()));
    }
  }

  void run() {
    using namespace hunch;
    if (args_.plain || args_.drafter == drafter_kind::none) {
      return with_verifier([&](auto sampler, auto verifier) {
        decoder plain{target_, drafter::none{}, selector::full{target_.vocab_size()},
                      sampler, verifier,        sizes()};
        report_plain(plain);
      });
    }
    engine::model draft = engine::model::load(args_.draft, options());
    with_selector([&](auto& selector) {
      draft.set_head_layout(selector.layout());
      with_verifier([&](auto sampler, auto verifier) {
        decoder plain{target_, drafter::none{}, selector::full{target_.vocab_size()},
                      sampler, verifier,        sizes()};
        decoder speculative{
            target_,  drafter::autoregressive{draft, tree::chain<max_draft_length>{}},
            selector, sampler,
            verifier, sizes()};
        static_assert(decltype(speculative)::lossless);
        report_both(plain, speculative);
      });
    });
  }

 private:
  engine::model_options options() const {
    engine::model_options o;
    o.threads = args_.threads > 0 ? args_.threads : default_threads();
    o.max_batch = args_.batch;
    return o;
  }

  hunch::decoder_options sizes() const {
    hunch::decoder_options o;
    o.max_batch = args_.batch;
    return o;
  }

  template <class Use>
  void with_selector(Use&& use) {
    const std::int32_t vocab = target_.vocab_size();
    if (args_.selector == selector_kind::full) {
      hunch::selector::full selector{vocab};
      return use(selector);
    }
    const std::int32_t rows = args_.shortlist_rows > 0 ? args_.shortlist_rows : vocab / 6;
    if (rows > vocab) {
      throw usage_error("--selector frequency:" + std::to_string(rows) + ": the vocabulary has " +
                        std::to_string(vocab) + " tokens");
    }
    hunch::selector::frequency selector{load_ranking(args_.frequency_file, vocab), rows};
    use(selector);
  }

  template <class Use>
  void with_verifier(Use&& use) {
    switch (args_.verifier) {
      case verifier_kind::rejection:
        return use(text_sampler{}, hunch::verifier::rejection{});
      case verifier_kind::block:
        return use(text_sampler{}, hunch::verifier::block{});
      case verifier_kind::coupled:
        return use(text_sampler{}, hunch::verifier::coupled{});
      case verifier_kind::greedy:
        return use(hunch::sampler::greedy{}, hunch::verifier::greedy{});
    }
  }

  /// Streams the text of the first request.
  auto stream() {
    return [this](std::size_t request, hunch::token t, hunch::origin from) {
      if (request == 0) { terminal_.write(text_.bytes(t), from); }
    };
  }

  void begin_text() {
    terminal_.legend();
    std::printf("%s", args_.prompt.c_str());
    std::fflush(stdout);
  }

  template <class Plain>
  void report_plain(Plain& plain) {
    begin_text();
    const generate::run one = run_requests(
        plain, prompts_, request_, args_.batch, [](auto&) {}, stream());
    report r;
    take_text(r, one);
    r.plain_rate = static_cast<double>(one.timed) / one.time;
    finish(r);
  }

  template <class Plain, class Speculative>
  void report_both(Plain& plain, Speculative& speculative) {
    if (args_.draft_length) { speculative.draft_length(*args_.draft_length); }
    const costs cost = calibrate(target_, plain, speculative, prompts_, request_, args_.batch);
    automatic_length automatic(cost);
    if (!args_.draft_length) { automatic.choose(speculative); }

    begin_text();
    const comparison both = compare(
        plain, speculative, prompts_, request_, args_.batch, args_.rounds,
        [&](Speculative& decoder) {
          if (!args_.draft_length) { automatic(decoder); }
        },
        stream());

    const auto& stats = speculative.stats();
    report r;
    take_text(r, both.first);
    r.plain_rate = both.plain_rate;
    report::speculative_part part;
    part.rate = both.rate;
    part.predicted_speedup = predicted_gain(cost, stats);
    part.mean_acceptance_length = stats.mean_acceptance_length();
    part.draft_acceptance_rate = stats.draft_acceptance_rate();
    part.average_shortlist_rows = stats.average_shortlist_rows();
    part.average_draft_length =
        static_cast<double>(stats.drafted) / static_cast<double>(stats.steps);
    part.target_passes = stats.target_passes;
    for (std::int32_t i = 0; i < max_draft_length; ++i) {
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

  void take_text(report& r, const generate::run& one) const {
    for (const hunch::token t : one.tokens[0]) { r.text += text_.bytes(t); }
    r.tokens = static_cast<std::int64_t>(one.tokens[0].size());
    r.repetition_4gram = repeated_4grams(one.tokens[0]);
  }

  void finish(const report& r) {
    terminal_.finish();
    print_table(r);
    if (!args_.json.empty()) { write_json(r, args_.json); }
  }

  arguments args_;
  engine::model target_;
  engine::tokenizer text_;
  terminal terminal_;
  std::vector<std::vector<hunch::token>> prompts_;
  hunch::generation_options request_;
};

int start(const std::vector<std::string>& words) {
  try {
    const arguments a = parse(words);
    if (a.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    program(a).run();
    return 0;
  } catch (const usage_error& e) {
    std::fprintf(stderr, "generate: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "generate: %s\n", e.what());
    return 1;
  }
}

}  // namespace
}  // namespace generate

int main(int argc, char** argv) { return generate::start({argv + 1, argv + argc}); }
