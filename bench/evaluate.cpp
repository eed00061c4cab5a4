// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/measure.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

#include "common.hpp"
#include "evaluate/canvases.hpp"
#include "evaluate/categories.hpp"
#include "evaluate/request_metrics.hpp"
#include "evaluate/scores.hpp"
#include "json.hpp"
#include "paired.hpp"
#include "presets.hpp"

/// \file
/// Every preset on every category of text: what drafts bring, counted with drafts as long as they
/// can be, and how much faster that is than plain decoding, with drafts as long as pays.

namespace bench::evaluate {
namespace {

/// The preset that decodes plainly, by the plain decoder of a composition: texts repeat themselves
/// as much without drafts.
void measure_plain(report& out, composed& of, const std::vector<category>& categories,
                   hunch::generation_options request) {
  for (const int t : {0, 1}) {
    request.temperature = static_cast<float>(t);
    const std::string row = "plain, T = " + std::to_string(t) + ", ";
    double sum = 0.0;
    double worst = 0.0;
    for (const category& c : categories) {
      double repeated = 0.0;
      for (std::size_t p = 0; p < c.prompts.size(); ++p) {
        request.seed = p + 1;
        repeated += generate::repeated_4grams(of.run_plain({c.prompts[p]}, request, 1).tokens[0]);
      }
      repeated /= static_cast<double>(c.prompts.size());
      out.record(row + c.name + ": repeated 4-grams", repeated, "");
      sum += repeated;
      worst = std::max(worst, repeated);
    }
    out.add(row + "mean: repeated 4-grams", sum / static_cast<double>(categories.size()), "");
    out.add(row + "worst category: repeated 4-grams", worst, "");
  }
}

void measure_preset(report& out, const std::string& name, composed& of,
                    const std::vector<category>& categories, const extent& much,
                    hunch::generation_options request) {
  for (const int t : {0, 1}) {
    request.temperature = static_cast<float>(t);
    scores all(name, t, categories, of.levels(), much.prompts);
    for (std::size_t c = 0; c < categories.size(); ++c) {
      const prompt_list& prompts = categories[c].prompts;
      for (std::size_t p = 0; p < much.prompts; ++p) {
        request.seed = p + 1;
        request_metrics drafts(of.levels());
        const generate::run whole =
            of.run_whole({prompts[p]}, request, 1, [&](const hunch::step_summary& step) {
              if (step.sequences == 0) { return; }  // a piece of the prompt
              drafts.observe(step.deepest, step.drafted, static_cast<std::int32_t>(step.accepted));
            });
        all.wrote(out, c, p, whole.tokens[0], drafts);
      }
      // Of its own, as if nothing else were written on this machine.
      hunch::length::meter meter(of.levels());
      request.seed = 1;
      of.calibrate(meter, prompts, request, 1, of.levels());
      of.warm_up(meter, prompts, request, 1);
      generate::forecast nobody_asks;
      for (int round = 0; round < much.rounds; ++round) {
        for (std::size_t p = 0; p < much.prompts; ++p) {
          request.seed = 100 + static_cast<std::uint64_t>(round) * much.prompts + p;
          const auto runs = run_pair(
              (static_cast<std::size_t>(round) + p) % 2 == 0,
              [&] { return of.run_plain({prompts[p]}, request, 1); },
              [&] { return of.run_metered(meter, {prompts[p]}, request, 1, nobody_asks); });
          all.timed(c, p, runs.ratio(), runs.fast.tokens == runs.plain.tokens);
        }
      }
    }
    all.add_rows(out, kind::text, t == 0);
  }
}

/// Of this machine, as Linux names it.
std::string processor() {
  std::ifstream cpu("/proc/cpuinfo");
  for (std::string line; std::getline(cpu, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) { return line.substr(colon + 2); }
  }
  return "unknown processor";
}

/// That the models' kernels have been compiled for.
constexpr const char* instructions =
#if defined(__AVX512F__)
    "AVX-512";
#elif defined(__AVX2__)
    "AVX2";
#else
    "no vector instructions that are not in every processor of its kind";
#endif

std::string extent_json(const extent& of) {
  return "{\"prompts\": " + std::to_string(of.prompts) +
         ", \"new_tokens\": " + std::to_string(of.new_tokens) +
         ", \"rounds\": " + std::to_string(of.rounds) + "}";
}

void measure(report& out, const choice& of_models) {
  const std::filesystem::path& models = of_models.models;
  const bool quick = std::getenv("HUNCH_BENCH_QUICK") != nullptr;
  const extent of_texts = quick ? extent{1, 32, 2} : extent{4, 96, 3};
  const extent of_canvases = quick ? extent{1, 32, 2} : extent{2, 96, 3};
  out.list("setting", "{\"threads\": " + std::to_string(generate::default_threads()) +
                          ", \"processor\": " + json_string(processor()) + ", \"instructions\": " +
                          json_string(instructions) + ", \"text\": " + extent_json(of_texts) +
                          ", \"canvas\": " + extent_json(of_canvases) + "}");
  const int threads = generate::default_threads();
  const std::vector<category> categories = [&] {
    const std::filesystem::path folder = target_of(of_models);
    engine::model target = engine::model::load(folder, {.threads = threads});
    return categories_of(target, engine::tokenizer(folder), models / "heldout", of_texts.prompts);
  }();
  for (const category& c : categories) {
    out.add(c.name + ": mean entropy", c.entropy, "nats");
    out.list("categories", "{\"name\": " + json_string(c.name) +
                               ", \"entropy\": " + json_number(c.entropy) +
                               ", \"entropy_class\": " + json_string(c.entropy_class) + "}");
  }
  hunch::generation_options request;
  request.max_new_tokens = of_texts.new_tokens;
  bool first = true;
  for_each_preset(of_models, threads, 1, [&](const std::string& name, composed& of) {
    if (first) { measure_plain(out, of, categories, request); }
    first = false;
    measure_preset(out, name, of, categories, of_texts, request);
  });
  if (of_models.preset.empty()) { measure_canvases(out, models, categories, of_canvases); }
}

}  // namespace
}  // namespace bench::evaluate

int main(int argc, char** argv) {
  return bench::run(
      "evaluate", argc, argv,
      [](bench::report& out, const bench::choice& of) { bench::evaluate::measure(out, of); },
      HUNCH_BENCH_MODELS, true);
}
