// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <engine/early_contexts.hpp>
#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/streams.hpp>
#include <engine/tokenizer.hpp>
#include <generate/arguments.hpp>
#include <generate/cluster_budget.hpp>
#include <generate/draft_length.hpp>
#include <generate/measure.hpp>
#include <generate/presets.hpp>
#include <generate/shapes.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/router_weights.hpp>

#include "common.hpp"
#include "paired.hpp"
#include "prompts.hpp"

/// \file
/// Plain and speculative decoding with the shipped models, drafts as deep as a meter lets them be:
/// every preset, with the shortlists and shapes that its name stands for, one request at a time and
/// batches. Where drafting does not pay it must switch itself off. Those of canvases choose their
/// number once, in `generate`; the suite `diffusion` measures them.

namespace bench {

/// The composition and the threads that HUNCH_BENCH_PART names, such as "eagle,2", are then all
/// that the suite measures; nullptr: everything.
inline const char* part_of_speculation() { return std::getenv("HUNCH_BENCH_PART"); }

/// The models that compositions are made of, with as many threads each.
class speculation {
 public:
  speculation(report& out, const std::filesystem::path& models, int threads)
      : out_(out),
        models_(models),
        threads_(threads),
        target_(engine::model::load(models / "target", options())),
        text_(tokenizer_for(models / "target", models / "target", target_.shape())),
        vocab_(target_.vocab_size()),
        prompts_(domain_prompts(text_, models / "heldout")),
        frequent_(hunch::load_layout(models / "frequency.safetensors", target_.made_for())),
        shipped_(models, target_.made_for()),
        published_(models / "paper", target_.made_for()) {}

  void run() {
    using namespace hunch;
    const verifier::rejection tests;
    const verifier::point_mass draws;
    {
      engine::model_options four_bits = options();
      four_bits.kind = engine::arithmetic::int4;
      engine::model copy = engine::model::load(models_ / "target", four_bits);
      over(copy, "dynaspec", tests, generate::chain_shape{});
      over(copy, "fr-spec", tests, generate::chain_shape{});
      over(copy, "vocab-trim", tests, generate::chain_shape{});
    }
    {
      engine::model draft = engine::model::load(models_ / "draft", options());
      over(draft, "draft-model", tests, generate::chain_shape{});
    }
    {
      engine::eagle_model eagle =
          engine::eagle_model::load(models_ / "eagle", models_ / "target", target_, options());
      over(eagle, "eagle", tests, generate::chain_shape{});
      over(eagle, "eagle-2", draws, generate::dynamic_shape{});
      engine::early_contexts early(eagle);
      over(early, "dynaspec-paper", draws, generate::dynamic_60_shape{});
    }
    {
      engine::early_exit exit = engine::early_exit::load(models_ / "exit", target_);
      over(exit, "early-exit", tests, generate::chain_shape{});
    }
    {
      engine::medusa_heads medusa = engine::medusa_heads::load(models_ / "medusa", target_);
      const selector::any<> list = list_of("medusa");
      medusa.set_head_layout(list.layout());
      of("medusa", draws, [&](generate::chosen_length l) {
        return decoder{target_,
                       drafter::heads{medusa, generate::fixed_shape{}, l},
                       selector::any<>(list),
                       law(),
                       draws,
                       sizes()};
      });
    }
    of("lookup", draws, [&](generate::chosen_length l) {
      return decoder{target_,
                     drafter::lookup<generate::max_draft_length, 4, generate::chosen_length>{1, l},
                     selector::any<>(selector::full{vocab_}),
                     law(),
                     draws,
                     sizes()};
    });
    // Last: from here on the target has streams.
    engine::speculative_streams streams =
        engine::speculative_streams::load(models_ / "streams", target_);
    const selector::any<> list = list_of("streaming");
    streams.set_head_layout(list.layout());
    of("streaming", tests, [&](generate::chosen_length l) {
      return decoder{target_,
                     drafter::streaming{streams, tree::chain<4>{}, l},
                     selector::any<>(list),
                     law(),
                     tests,
                     sizes()};
    });
    for (const generate::preset& p : generate::presets()) {
      const generate::arguments a = arguments_of(p.name);
      const bool drafts = a.method == generate::method_kind::speculative && !a.decodes_plainly();
      if (drafts && named_.count(p.name) == 0) {
        throw std::logic_error("the preset " + p.name + " has no rows");
      }
    }
  }

 private:
  static constexpr std::int32_t largest = 32;
  using law = generate::text_sampler;

  /// The two files that a clustered selector is made of.
  struct routed_clusters {
    routed_clusters(const std::filesystem::path& folder, const hunch::made_for& head)
        : layout(hunch::load_layout(folder / "layout.safetensors", head)),
          router(hunch::router::weights::load(folder / "router.safetensors", layout, head,
                                              folder / "layout.safetensors")) {}
    hunch::vocab_layout layout;
    hunch::router::weights router;
  };

  engine::model_options options() const {
    engine::model_options o;
    o.threads = threads_;
    o.max_batch = largest;
    o.keep_features = true;  // an EAGLE head reads them
    return o;
  }
  static hunch::decoder_options sizes() {
    hunch::decoder_options o;
    o.max_batch = largest;
    return o;
  }
  static generate::arguments arguments_of(const std::string& preset) {
    return generate::parse({"--preset", preset});
  }
  hunch::selector::any<> list_of(const std::string& preset) const {
    using namespace hunch;
    const generate::arguments a = arguments_of(preset);
    const std::int32_t rows = generate::default_rows(vocab_);
    switch (a.selector) {
      case generate::selector_kind::clustered: {
        const routed_clusters& of = a.layout.empty() ? shipped_ : published_;
        return selector::any<>(selector::clustered{
            of.layout, of.router.view(), a.budget.value_or(generate::default_budget(vocab_))});
      }
      case generate::selector_kind::trimmed:
        return selector::any<>(selector::frequency{first_rows(frequent_, rows), rows});
      case generate::selector_kind::frequency:
        return selector::any<>(selector::frequency{frequent_, rows});
      case generate::selector_kind::full:
        break;
    }
    return selector::any<>(selector::full{vocab_});
  }

  template <class Model, class V, class Tree>
  void over(Model& model, const std::string& name, V rule, Tree tree) {
    const hunch::selector::any<> list = list_of(name);
    model.set_head_layout(list.layout());
    of(name, rule, [&](generate::chosen_length l) {
      return hunch::decoder{target_,
                            hunch::drafter::autoregressive{model, tree, l},
                            hunch::selector::any<>(list),
                            law{},
                            V(rule),
                            sizes()};
    });
  }

  /// The rows of one composition. \param make(length) makes its decoder.
  template <class V, class Make>
  void of(const std::string& name, V rule, const Make& make) {
    named_.insert(name);
    const char* const part = part_of_speculation();
    if (part != nullptr && part != name + "," + std::to_string(threads_)) { return; }
    generate::any_length length;
    auto speculative = make(generate::chosen_length{&length});
    hunch::decoder plain{
        target_, hunch::drafter::none{}, hunch::selector::full{vocab_}, law{}, V(rule), sizes()};
    for (const int t : {0, 1}) {
      // One meter, as a server has it: what it learns of one batch must not spoil another.
      hunch::length::meter meter(decltype(speculative)::max_nodes - 1);
      for (std::int32_t batch = 1; batch <= largest; batch *= 2) {
        measure(name, plain, speculative, length, meter, batch, t);
      }
      measure_cold(name, plain, speculative, length, t);
    }
  }

  template <class Plain, class Speculative>
  void measure(const std::string& name, Plain& plain, Speculative& speculative,
               generate::any_length& length, hunch::length::meter& meter, std::int32_t batch,
               int t) {
    hunch::generation_options request;
    request.max_new_tokens = batch < 4 ? 96 : batch < 16 ? 40 : 16;
    request.temperature = static_cast<float>(t);
    request.seed = 1;
    length = hunch::length::fixed{};
    const generate::costs cost = generate::calibrate(meter, speculative, prompts_, request, batch);
    length = hunch::length::metered{meter};
    generate::warm_up(meter, speculative, prompts_, request, batch);
    const std::string row = row_of(name, t) + "batch " + std::to_string(batch) + ": ";
    compare(
        row, batch, request,
        [&](const auto& asked, const auto& o) {
          return generate::run_requests(plain, asked, o, batch, nothing, nothing);
        },
        [&](const auto& asked, const auto& o) {
          return generate::run_metered(meter, speculative, asked, o, batch, nothing);
        },
        0.97);
    length = hunch::length::fixed{};
    const auto stats = speculative.stats();
    out_.record(row + "speed-up predicted", generate::predicted_gain(cost, stats), "x");
    out_.record(
        row + "mean draft length",
        static_cast<double>(generate::drafted_levels(stats)) / static_cast<double>(stats.steps),
        "tokens");
  }

  /// Requests one after the other, of all domains, by a meter that knows nothing at first: what it
  /// costs to learn. A drafter with a cache of its own reads a prompt once before anything is
  /// known.
  template <class Plain, class Speculative>
  void measure_cold(const std::string& name, Plain& plain, Speculative& speculative,
                    generate::any_length& length, int t) {
    hunch::generation_options request;
    request.max_new_tokens = 96;
    request.temperature = static_cast<float>(t);
    request.seed = 1;
    const auto in_turn = [&](auto asked, auto o, const auto& run) {
      generate::run all;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const generate::run one = run(asked, o);
        all.tokens.push_back(one.tokens[0]);
        all.time += one.time;
        all.timed += one.timed;
        std::rotate(asked.begin(), asked.begin() + 1, asked.end());
        ++o.seed;
      }
      return all;
    };
    compare(
        row_of(name, t) + "a new meter: ", static_cast<std::int32_t>(prompts_.size()), request,
        [&](const auto& asked, const auto& o) {
          return in_turn(asked, o, [&](const auto& one, const auto& with) {
            return generate::run_requests(plain, one, with, 1, nothing, nothing);
          });
        },
        [&](const auto& asked, const auto& o) {
          hunch::length::meter meter(Speculative::max_nodes - 1);
          length = hunch::length::metered{meter};
          generate::run all = in_turn(asked, o, [&](const auto& one, const auto& with) {
            return generate::run_metered(meter, speculative, one, with, 1, nothing);
          });
          length = hunch::length::fixed{};
          return all;
        },
        {});
  }

  static constexpr auto nothing = [](auto&&...) {};
  std::string row_of(const std::string& name, int t) const {
    return name + ", " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads") +
           ", T = " + std::to_string(t) + ", ";
  }

  /// The row of a way to decode beside plain decoding, of `requests` a round. They take the prompts
  /// in turn, so that each row speaks for all domains: a round of a few for some of them, of many
  /// for all. Machines like these are disturbed: rounds go on until it is known whether the goal,
  /// if there is one, is met.
  template <class Plain, class Fast>
  void compare(const std::string& row, std::int32_t requests, hunch::generation_options request,
               const Plain& run_plain, const Fast& run_fast, std::optional<double> goal) {
    const int prompts = static_cast<int>(prompts_.size());
    const int texts = requests < prompts ? prompts : 1;
    const int least = texts == 1 ? 8 : 4 * texts;
    const int most = texts == 1 ? 96 : 12 * texts;
    paired_rounds ratios(static_cast<std::size_t>(texts));
    bool identical = true;
    for (int round = 0; round < most; ++round) {
      const bool balanced = round % (2 * texts) == 0;
      if (balanced && round >= least && (!goal || ratios.decides(*goal))) { break; }
      auto asked = prompts_;
      std::rotate(asked.begin(), asked.begin() + round % prompts, asked.end());
      // By turns, so that neither always follows the other.
      const bool first = (round + round / texts) % 2 == 0;
      generate::run slow = first ? run_plain(asked, request) : generate::run{};
      const generate::run fast = run_fast(asked, request);
      if (!first) { slow = run_plain(asked, request); }
      ratios.add(static_cast<std::size_t>(round % texts), static_cast<double>(fast.timed) /
                                                              fast.time * slow.time /
                                                              static_cast<double>(slow.timed));
      identical = identical && fast.tokens == slow.tokens;
      request.seed += static_cast<std::uint64_t>(requests);
    }
    if (goal) {
      out_.add(row + "speed-up", ratios.speed_up(), "x", at_least(*goal));
    } else {
      out_.record(row + "speed-up", ratios.speed_up(), "x");
    }
    out_.record(row + "speed-up, standard error", ratios.error(), "x");
    const bool greedy = request.temperature == 0.0f;
    if (greedy && !identical) { out_.add(row + "text identical to plain", 0.0, "", at_least(1.0)); }
  }

  report& out_;
  std::filesystem::path models_;
  int threads_;
  engine::model target_;
  engine::tokenizer text_;
  std::int32_t vocab_;
  std::vector<std::vector<hunch::token>> prompts_;
  hunch::vocab_layout frequent_;
  routed_clusters shipped_;
  routed_clusters published_;    ///< as DynaSpec was
  std::set<std::string> named_;  ///< presets that have had their turn
};

/// All compositions, with one thread and with two.
inline void measure_speculation(report& out, const std::filesystem::path& models) {
  for (const int threads : {1, 2}) { speculation(out, models, threads).run(); }
}

}  // namespace bench
