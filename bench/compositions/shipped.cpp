// SPDX-License-Identifier: Apache-2.0
#include "compositions/shipped.hpp"

#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include <engine/early_contexts.hpp>
#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/streams.hpp>
#include <generate/arguments.hpp>
#include <generate/cluster_budget.hpp>
#include <generate/draft_length.hpp>
#include <generate/merged_drafts.hpp>
#include <generate/presets.hpp>
#include <generate/shapes.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/router_weights.hpp>

#include "prompts.hpp"

namespace bench {
namespace {

using law = generate::text_sampler;

/// The runs of two decoders.
/// \tparam Speculative has a drafter whose length policy is a `generate::chosen_length`.
template <class Speculative, class Plain>
class composed_of final : public composed {
 public:
  /// \param make(length), plain()  make the decoders.
  template <class Make, class MakePlain>
  composed_of(std::int32_t levels, const Make& make, const MakePlain& plain)
      : levels_(levels), speculative_(make(generate::chosen_length{&length_})), plain_(plain()) {}

  std::int32_t levels() const override { return levels_; }

  generate::costs calibrate(hunch::length::meter& meter, const prompt_list& prompts,
                            const hunch::generation_options& options, std::int32_t batch) override {
    return generate::calibrate(meter, speculative_, prompts, options, batch);
  }
  void warm_up(hunch::length::meter& meter, const prompt_list& prompts,
               const hunch::generation_options& options, std::int32_t batch) override {
    length_ = hunch::length::metered{meter};
    generate::warm_up(meter, speculative_, prompts, options, batch);
    length_ = hunch::length::fixed{};
  }

  generate::run run_plain(const prompt_list& prompts, const hunch::generation_options& options,
                          std::int32_t batch) override {
    return generate::run_requests(plain_, prompts, options, batch, nothing, nothing);
  }
  generate::run run_metered(hunch::length::meter& meter, const prompt_list& prompts,
                            const hunch::generation_options& options, std::int32_t batch) override {
    length_ = hunch::length::metered{meter};
    generate::run out =
        generate::run_metered(meter, speculative_, prompts, options, batch, nothing);
    length_ = hunch::length::fixed{};
    return out;
  }
  generate::run run_whole(const prompt_list& prompts, const hunch::generation_options& options,
                          std::int32_t batch, const on_step& seen) override {
    speculative_.draft_length(levels_);
    return generate::run_requests(
        speculative_, prompts, options, batch,
        [&](const auto& decoder) { seen(decoder.last_step()); }, nothing);
  }

  counters stats() const override {
    counters all;
    all += speculative_.stats();
    return all;
  }

 private:
  static constexpr auto nothing = [](auto&&...) {};

  std::int32_t levels_;
  generate::any_length length_;
  Speculative speculative_;
  Plain plain_;
};

/// The two files that a clustered selector is made of.
struct routed_clusters {
  routed_clusters(const std::filesystem::path& folder, const hunch::made_for& head)
      : layout(hunch::load_layout(folder / "layout.safetensors", head)),
        router(hunch::router::weights::load(folder / "router.safetensors", layout, head,
                                            folder / "layout.safetensors")) {}
  hunch::vocab_layout layout;
  hunch::router::weights router;
};

generate::arguments arguments_of(const std::string& preset) {
  return generate::parse({"--preset", preset});
}

}  // namespace

class shipped::parts {
 public:
  parts(const std::filesystem::path& models, int threads, std::int32_t max_batch)
      : models_(models),
        threads_(threads),
        max_batch_(max_batch),
        target_(engine::model::load(models / "target", options())),
        text_(tokenizer_for(models / "target", models / "target", target_.shape())),
        vocab_(target_.vocab_size()),
        frequent_(hunch::load_layout(models / "frequency.safetensors", target_.made_for())),
        shipped_(models, target_.made_for()),
        published_(models / "paper", target_.made_for()) {}

  engine::model& target() { return target_; }
  const engine::tokenizer& text() const { return text_; }

  template <class Use>
  void for_each(const Use& use) {
    using namespace hunch;
    const verifier::rejection tests;
    const verifier::point_mass draws;
    std::set<std::string> named;
    /// \param make(length) makes the decoder of a preset.
    const auto of = [&](const std::string& name, auto rule, std::int32_t levels, const auto& make) {
      named.insert(name);
      const auto plain = [&] {
        return decoder{target_, drafter::none{}, selector::full{vocab_}, law{}, rule, sizes()};
      };
      using made = composed_of<decltype(make(generate::chosen_length{nullptr})), decltype(plain())>;
      use(name, [&] { return std::unique_ptr<composed>(new made(levels, make, plain)); });
    };
    const auto over = [&](auto& model, const std::string& name, auto rule, auto tree) {
      const selector::any<> list = list_of(name);
      model.set_head_layout(list.layout());
      of(name, rule, decltype(tree)::max_depth, [&](generate::chosen_length l) {
        return decoder{target_,
                       drafter::autoregressive{model, tree, l},
                       selector::any<>(list),
                       law{},
                       decltype(rule)(rule),
                       sizes()};
      });
    };
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
      {
        const selector::any<> list = list_of("ensemble");
        eagle.set_head_layout(list.layout());
        of("ensemble", draws, generate::max_draft_length, [&](generate::chosen_length l) {
          return decoder{
              target_, generate::merged_drafts(eagle, l), selector::any<>(list), law(), draws,
              sizes()};
        });
      }
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
      of("medusa", draws, generate::fixed_shape::max_depth, [&](generate::chosen_length l) {
        return decoder{target_,
                       drafter::heads{medusa, generate::fixed_shape{}, l},
                       selector::any<>(list),
                       law(),
                       draws,
                       sizes()};
      });
    }
    of("lookup", draws, generate::max_draft_length, [&](generate::chosen_length l) {
      return decoder{target_,
                     drafter::lookup<generate::max_draft_length, 4, generate::chosen_length>{1, l},
                     selector::any<>(selector::full{vocab_}),
                     law(),
                     draws,
                     sizes()};
    });
    // Last: a target with streams is another one. It has one set of them at a time.
    const auto over_streams = [&](const std::filesystem::path& folder, const auto& compose) {
      engine::speculative_streams streams = engine::speculative_streams::load(folder, target_);
      const selector::any<> list = list_of("streaming");
      streams.set_head_layout(list.layout());
      compose(streams, list);
    };
    const auto pruned = [&](const std::string& name, const std::filesystem::path& at,
                            engine::speculative_streams& streams, const selector::any<>& list,
                            auto shape) {
      engine::early_exit exit = engine::early_exit::load(at, target_);
      exit.set_head_layout(list.layout());
      const std::int32_t kept = arguments_of(name).kept_nodes;
      of(name, draws, decltype(shape)::max_depth, [&](generate::chosen_length l) {
        return decoder{target_,
                       drafter::pruned{drafter::streaming{streams, shape, l}, exit, kept},
                       selector::any<>(list),
                       law(),
                       draws,
                       sizes()};
      });
    };
    over_streams(models_ / "streams", [&](auto& streams, const auto& list) {
      using shape = generate::heads_chain_shape;
      of("streaming", tests, shape::max_depth, [&](generate::chosen_length l) {
        return decoder{
            target_, drafter::streaming{streams, shape{}, l}, selector::any<>(list), law(), tests,
            sizes()};
      });
      pruned("streaming-pruned", models_ / "exit", streams, list, generate::dynamic_shape{});
    });
    over_streams(models_ / "paper" / "streams", [&](auto& streams, const auto& list) {
      pruned("streaming-paper", models_ / "paper" / "exit", streams, list, generate::fixed_shape{});
    });
    for (const generate::preset& p : generate::presets()) {
      const generate::arguments a = arguments_of(p.name);
      const bool drafts = a.method == generate::method_kind::speculative && !a.decodes_plainly();
      if (drafts && named.count(p.name) == 0) {
        throw std::logic_error("the preset " + p.name + " is not composed for the suites");
      }
    }
  }

 private:
  engine::model_options options() const {
    engine::model_options o;
    o.threads = threads_;
    o.max_batch = max_batch_;
    o.keep_features = true;  // an EAGLE head reads them
    return o;
  }
  hunch::decoder_options sizes() const {
    hunch::decoder_options o;
    o.max_batch = max_batch_;
    return o;
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

  std::filesystem::path models_;
  int threads_;
  std::int32_t max_batch_;
  engine::model target_;
  engine::tokenizer text_;
  std::int32_t vocab_;
  hunch::vocab_layout frequent_;
  routed_clusters shipped_;
  routed_clusters published_;  ///< as DynaSpec was
};

shipped::shipped(const std::filesystem::path& models, int threads, std::int32_t max_batch)
    : parts_(new parts(models, threads, max_batch)) {}
shipped::~shipped() = default;

engine::model& shipped::target() { return parts_->target(); }
const engine::tokenizer& shipped::text() const { return parts_->text(); }
void shipped::for_each(const std::function<void(const std::string&, const maker&)>& use) {
  parts_->for_each(use);
}

}  // namespace bench
