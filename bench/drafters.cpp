// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"
#include "drafters/measure.hpp"
#include "prompts.hpp"

/// \file
/// Drafters of real models: how much of what they draft is accepted, and what it gives.

namespace bench::drafters {
namespace {

using namespace hunch;

/// A tenth of the vocabulary, by frequency or by clusters, is what selectors leave here.
constexpr std::int32_t parts = 10;

void measure_all(report& out, const std::filesystem::path& models) {
  engine::model_options options;
  options.threads = generate::default_threads();
  options.keep_features = true;
  engine::model target = engine::model::load(models / "target", options);
  const engine::tokenizer text(models / "target");
  const std::int32_t vocab = target.vocab_size();
  setting where{target, domain_prompts(text, models / "heldout"), {}};
  for (const std::string& name : domains(models / "heldout")) {
    where.texts.push_back(tokens_of(text, models / "heldout" / (name + ".txt")));
  }

  const selector::frequency frequent{load_layout(models / "frequency.safetensors", vocab),
                                     vocab / parts};
  const auto router = router::quantised(router::weights::load(models / "router.safetensors"));
  const vocab_layout clusters = load_layout(models / "layout.safetensors", vocab);
  const selector::clustered routed{
      clusters, router.view(), budget::per_row<budget::rows>{{clusters.clusters(), vocab / parts}}};

  const auto chains = [&](auto& draft, auto selector, auto verifier) {
    draft.set_head_layout(selector.layout());
    return [&target, &draft, selector](generate::chosen_length length) {
      auto own = selector;
      return decoder{target, drafter::autoregressive{draft, tree::chain<longest_draft>{}, length},
                     std::move(own), text_sampler{}, decltype(verifier){}};
    };
  };

  {
    engine::model draft = engine::model::load(models / "draft", options);
    const auto make = chains(draft, frequent, verifier::rejection{});
    measure(out, where, "draft model", draft.weight_bytes(), make);
    sweep(out, where, "draft model", make);
  }
  engine::eagle_model eagle =
      engine::eagle_model::load(models / "eagle", models / "target", target, options);
  const auto of = [&](const std::string& name, auto selector, auto verifier) {
    return measure(out, where, name, eagle.weight_bytes(), chains(eagle, selector, verifier));
  };
  const measured by_list = of("EAGLE", frequent, verifier::rejection{});
  sweep(out, where, "EAGLE", chains(eagle, frequent, verifier::rejection{}));
  const measured by_block = of("EAGLE, block verification", frequent, verifier::block{});
  const measured by_router = of("EAGLE, DynaSpec", routed, verifier::rejection{});
  for (int t = 0; t < temperatures; ++t) {
    const auto at = static_cast<std::size_t>(t);
    out.add("EAGLE" + at_temperature(t) + "block / chain rule, acceptance length along text",
            by_block.forced[at] / by_list.forced[at], "x", at_least(1.0));
    out.add("EAGLE" + at_temperature(t) + "DynaSpec / frequency, speed",
            by_router.speed_up[at] / by_list.speed_up[at], "x", at_least(1.0));
  }
}

}  // namespace
}  // namespace bench::drafters

int main(int argc, char** argv) {
  bench::report out(argc, argv);
  bench::drafters::measure_all(out, HUNCH_BENCH_MODELS);
  return out.finish();
}
