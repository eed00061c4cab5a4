// SPDX-License-Identifier: Apache-2.0
//
// Generates text with a target model, plain and by speculative decoding on the same engine, and
// says what was gained. The composition of policies is chosen at compile time; the flags choose
// among a few.

#include <cstdint>
#include <cstdio>
#include <exception>
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
#include "generate/cuda.hpp"
#include "generate/measure.hpp"
#include "generate/session.hpp"

namespace generate {

namespace {

using text_sampler =
    hunch::sampler::pipeline<hunch::sampler::penalties, hunch::sampler::allowed_tokens,
                             hunch::sampler::temperature, hunch::sampler::top_k,
                             hunch::sampler::top_p, hunch::sampler::min_p>;

class program {
 public:
  explicit program(const arguments& a)
      : args_(a),
        drafts_by_eagle_(drafts() && is_eagle(a.draft)),
        target_(engine::model::load(a.model, options())),
        session_(a, target_.vocab_size(), target_.context()) {
    if (!a.pattern.empty()) {
      session_.request.grammar = grammar::regular_grammar(
          a.pattern, target_.vocab_size(),
          [this](hunch::token t) -> std::string_view { return session_.text().bytes(t); },
          session_.text().eos());
    }
  }

  void run() {
    using namespace hunch;
    if (!drafts()) {
      return with_verifier([&](auto sampler, auto verifier) {
        decoder plain{target_, drafter::none{}, selector::full{target_.vocab_size()},
                      sampler, verifier,        sizes()};
        report_plain(plain);
      });
    }
    if (drafts_by_eagle_) {
      engine::eagle_model draft =
          engine::eagle_model::load(args_.draft, args_.model, target_, options());
      speculate(draft);
    } else {
      engine::model draft = engine::model::load(args_.draft, options());
      speculate(draft);
    }
  }

 private:
  template <class Draft>
  void speculate(Draft& draft) {
    using namespace hunch;
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

  engine::model_options options() const {
    engine::model_options o;
    o.threads = args_.threads > 0 ? args_.threads : default_threads();
    o.max_batch = args_.batch;
    // Of the target for an EAGLE head, of the draft model for a router.
    o.keep_features = drafts_by_eagle_ || args_.selector == selector_kind::clustered;
    return o;
  }

  hunch::decoder_options sizes() const {
    hunch::decoder_options o;
    o.max_batch = args_.batch;
    return o;
  }

  bool drafts() const { return !args_.plain && args_.drafter != drafter_kind::none; }

  template <class Use>
  void with_selector(Use&& use) {
    const std::int32_t vocab = target_.vocab_size();
    if (args_.selector != selector_kind::clustered) {
      hunch::selector::frequency<> selector = session_.fixed_shortlist(vocab);
      return use(selector);
    }
    const auto router = hunch::router::weights::load(args_.router);
    hunch::selector::clustered selector{hunch::load_layout(args_.layout, vocab), router.view(),
                                        args_.budget.value_or(default_budget(vocab))};
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

  template <class Plain>
  void report_plain(Plain& plain) {
    session_.begin_text();
    session_.report_plain(run_requests(
        plain, session_.prompts(), session_.request, args_.batch, [](auto&) {}, session_.stream()));
  }

  template <class Plain, class Speculative>
  void report_both(Plain& plain, Speculative& speculative) {
    if (args_.draft_length) { speculative.draft_length(*args_.draft_length); }
    const costs cost =
        calibrate(target_, plain, speculative, session_.prompts(), session_.request, args_.batch);
    automatic_length automatic(cost);
    if (!args_.draft_length) { automatic.choose(speculative); }

    session_.begin_text();
    const auto run_on = [&](auto& decoder, const auto& options, auto&& on_step, auto&& on_token) {
      return run_requests(decoder, session_.prompts(), options, args_.batch, on_step, on_token);
    };
    const comparison both = compare(
        [&](const auto& options, auto&& on_token) {
          return run_on(
              plain, options, [](auto&) {}, on_token);
        },
        [&](const auto& options, auto&& on_token) {
          return run_on(
              speculative, options,
              [&](Speculative& decoder) {
                if (!args_.draft_length) { automatic(decoder); }
              },
              on_token);
        },
        session_.request, args_.batch, args_.rounds, session_.stream());
    session_.report_both(both, speculative.stats(), predicted_gain(cost, speculative.stats()));
  }

  arguments args_;
  bool drafts_by_eagle_;
  engine::model target_;
  session session_;
};

}  // namespace

#if !defined(HUNCH_GENERATE_CUDA)
void run_on_cuda(const arguments&) {
  throw usage_error(
      "--device cuda: this program was built without a CUDA compiler; install a CUDA toolkit, set "
      "CUDACXX to the path of its nvcc, and configure and build again in an empty folder");
}
#endif

namespace {

int start(const std::vector<std::string>& words) {
  try {
    const arguments a = parse(words);
    if (a.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    if (a.device == device_kind::cuda) {
      run_on_cuda(a);
    } else {
      program(a).run();
    }
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
