// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <engine/config.hpp>
#include <engine/device/cublaslt_multiply.cuh>
#include <engine/device/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/ended.cuh>
#include <generate/measure.hpp>
#include <generate/resident.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/rejection.hpp>

#include "../common.hpp"
#include "../prompts.hpp"
#include "timing.hpp"

/// \file
/// Texts of the shipped models by loops that live on the device: the ways of repeating a step
/// against each other, and speculation against plain decoding.

namespace bench::device {

using namespace hunch;

constexpr std::int32_t new_tokens = 128;
constexpr std::int32_t longest_draft = 5;
constexpr std::int32_t chunk = 64;  ///< prompt tokens of a pass

using cuda = executor::cuda;
using executor::looping;
using model = engine::device_model<cuda, engine::device::cublaslt_multiply>;
using chain_drafter = drafter::autoregressive<model&, tree::chain<longest_draft>>;
template <class Drafter>
using loop = resident_decoder<model&, Drafter, selector::frequency<>,
                              sampler::pipeline<sampler::temperature>, verifier::rejection,
                              random_source<>, cuda>;
using prompt_list = std::vector<std::vector<token>>;

/// The shipped models on an executor of their own.
class shipped_models {
 public:
  shipped_models(const std::filesystem::path& folder, looping how, std::int32_t max_batch,
                 std::int32_t max_length)
      : executor_(how),
        max_batch_(max_batch),
        max_length_(max_length),
        target_(model::load(folder / "target", sizes(max_rows()), executor_)),
        draft_(model::load(folder / "draft", sizes(0), executor_)),
        frequent_(load_layout(folder / "frequency.safetensors", target_.made_for()),
                  target_.vocab_size() / 6) {
    draft_.set_head_layout(frequent_.layout());
  }

  loop<drafter::none> plain() { return loop_of(drafter::none{}, 1); }
  loop<chain_drafter> speculative(std::int32_t length) {
    return loop_of(chain_drafter{draft_}, length);
  }

  /// Runs `batch` requests. A loop records what it has not seen before, so the first run of a batch
  /// is not to be timed.
  template <class Loop>
  generate::run run(Loop& decoder, const prompt_list& prompts, const generation_options& options,
                    std::int32_t batch) {
    return generate::run_resident(
        decoder, prompts, options, batch, [this] { return generate::ended(executor_); },
        [](auto&&...) {});
  }

 private:
  std::int32_t max_rows() const { return chunk + max_batch_ * (longest_draft + 1); }

  engine::device_options sizes(std::int32_t outputs) const {
    return {.max_batch = max_batch_,
            .max_length = max_length_,
            .max_rows = max_rows(),
            .max_staged = chunk + longest_draft + 1,
            .max_outputs = outputs};
  }

  template <class Drafter>
  loop<Drafter> loop_of(Drafter drafter, std::int32_t length) {
    return {target_,
            std::move(drafter),
            selector::frequency(frequent_),
            {},
            {},
            {.max_batch = max_batch_,
             .max_length = max_length_,
             .chunk = chunk,
             .draft_length = length,
             .ring = new_tokens + longest_draft + 1},
            {},
            executor_};
  }

  cuda executor_;
  std::int32_t max_batch_;
  std::int32_t max_length_;
  model target_;
  model draft_;
  selector::frequency<> frequent_;
};

generation_options request_at(float temperature) {
  generation_options request;
  request.max_new_tokens = new_tokens;
  request.temperature = temperature;
  request.seed = 1;
  return request;
}

generation_options few_tokens(generation_options request) {
  request.max_new_tokens = longest_draft + 2;
  return request;
}

/// A loop with models of its own.
struct loop_with_models {
  loop_with_models(const std::filesystem::path& folder, looping how, std::int32_t max_batch,
                   std::int32_t max_length, std::int32_t length)
      : models(folder, how, max_batch, max_length), speculative(models.speculative(length)) {}

  generate::run run(const prompt_list& prompts, const generation_options& options,
                    std::int32_t batch) {
    return models.run(speculative, prompts, options, batch);
  }

  shipped_models models;
  loop<chain_drafter> speculative;
};

/// The same texts by the three ways of repeating a step.
void measure_loops(report& out, const std::filesystem::path& folder, const prompt_list& prompts,
                   std::int32_t max_length) {
  constexpr std::int32_t largest = 8;
  constexpr std::int32_t length = 4;
  constexpr int rounds = 7;
  std::vector<std::unique_ptr<loop_with_models>> loops;
  for (const looping how : {looping::launches, looping::graphs, looping::on_device}) {
    loops.push_back(std::make_unique<loop_with_models>(folder, how, largest, max_length, length));
  }
  for (const std::int32_t batch : {1, largest}) {
    generation_options request = request_at(1.0f);
    for (const auto& l : loops) { l->run(prompts, few_tokens(request), batch); }
    std::vector<std::vector<double>> rates(loops.size());
    bool identical = true;
    for (int round = 0; round < rounds; ++round) {
      std::vector<generate::run> runs;
      for (std::size_t i = 0; i < loops.size(); ++i) {
        runs.push_back(loops[i]->run(prompts, request, batch));
        rates[i].push_back(static_cast<double>(runs.back().timed) / runs.back().time);
        identical = identical && runs.back().tokens == runs.front().tokens;
      }
      request.seed += static_cast<std::uint64_t>(batch);
    }
    const std::string name =
        "resident loop, shipped models, 4 drafts, B = " + std::to_string(batch) + ": ";
    out.add(name + "launches", median(rates[0]), "tok/s");
    out.add(name + "graphs", median(rates[1]), "tok/s");
    out.add(name + "on the device", median(rates[2]), "tok/s");
    out.add(name + "on the device / launches", median_ratio(rates[2], rates[0]), "", at_least(1.3));
    out.add(name + "on the device / graphs", median_ratio(rates[2], rates[1]), "", at_least(1.0));
    out.add(name + "same texts", identical ? 1.0 : 0.0, "", at_least(1.0));
  }
}

/// Speculation on and off.
void measure_speculation(report& out, const std::filesystem::path& folder,
                         const prompt_list& prompts, std::int32_t max_length) {
  constexpr std::int32_t largest = 64;
  shipped_models models(folder, looping::on_device, largest, max_length);
  loop<drafter::none> plain = models.plain();
  for (const std::int32_t length : {2, longest_draft}) {
    loop<chain_drafter> speculative = models.speculative(length);
    for (const float temperature : {0.0f, 1.0f}) {
      const generation_options request = request_at(temperature);
      for (std::int32_t batch = 1; batch <= largest; batch *= 2) {
        models.run(plain, prompts, few_tokens(request), batch);
        models.run(speculative, prompts, few_tokens(request), batch);
        // A batch of one takes the prompts in turn, so that every row speaks for all domains.
        const auto each = batch == 1 ? prompts.size() : std::size_t{1};
        double fast = 0.0, slow = 0.0;
        bool identical = true;
        const auto before = speculative.stats();
        for (std::size_t i = 0; i < each; ++i) {
          const prompt_list asked = batch == 1 ? prompt_list{prompts[i]} : prompts;
          const generate::comparison both = generate::compare(
              [&](const auto& o, auto&&) { return models.run(plain, asked, o, batch); },
              [&](const auto& o, auto&&) { return models.run(speculative, asked, o, batch); },
              request, batch, 2, [](auto&&...) {});
          fast += 1.0 / both.rate;
          slow += 1.0 / both.plain_rate;
          identical = identical && both.identical;
        }
        const auto now = speculative.stats();
        const auto n = static_cast<double>(each);
        const std::string name = "shipped models, " + std::to_string(length) +
                                 " drafts, T = " + std::to_string(static_cast<int>(temperature)) +
                                 ", B = " + std::to_string(batch) + ": ";
        out.add(name + "plain", n / slow, "tok/s");
        out.add(name + "speculative", n / fast, "tok/s");
        out.add(name + "speed-up", slow / fast, "");
        out.add(name + "tokens per step",
                1.0 + static_cast<double>(now.accepted - before.accepted) /
                          static_cast<double>(now.steps - before.steps),
                "");
        if (temperature == 0.0f) {
          out.add(name + "text identical to plain", identical ? 1.0 : 0.0, "", at_least(1.0));
        }
      }
    }
  }
}

}  // namespace bench::device

int main(int argc, char** argv) {
  return bench::run("device_models", argc, argv, [](bench::report& out) {
    bench::device::need_device();
    const std::filesystem::path folder = HUNCH_BENCH_MODELS;
    const engine::tokenizer text(folder / "target");
    const auto prompts = bench::domain_prompts(text, folder / "heldout");
    std::size_t longest = 0;
    for (const auto& p : prompts) { longest = std::max(longest, p.size()); }
    const auto max_length = static_cast<std::int32_t>(longest) + bench::device::new_tokens;
    bench::device::measure_loops(out, folder, prompts, max_length);
    bench::device::measure_speculation(out, folder, prompts, max_length);
  });
}
