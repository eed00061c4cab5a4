// SPDX-License-Identifier: Apache-2.0
#include "diffusion/scaling.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/masked_model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "diffusion/widened.hpp"
#include "prompts.hpp"

namespace bench::diffusion {
namespace {

using namespace hunch;

/// 151 MB in bfloat16, several last-level caches.
constexpr int units = 16384;
constexpr std::int32_t block = 8;
constexpr std::int32_t most_drafts = 4;
constexpr std::array batches{1, 2, 4, 8, 16, 32};
constexpr int rounds = 3;

/// The kinds of an H200 in dense bfloat16: see bench/device/predict/gpu.py.
constexpr double h200_bytes = 4.3e12;
constexpr double h200_flops = 9.9e14;

using canvas_sampler = sampler::pipeline<sampler::temperature>;

struct timed_run {
  double seconds = 0.0;
  double tokens = 0.0;
  double passes = 0.0;
  double canvases = 0.0;
};

class scaling {
 public:
  scaling(report& out, const std::filesystem::path& models)
      : out_(out),
        wide_(widened(models / "masked", units)),
        model_(wide_.shape, wide_.weights, options()),
        prompts_(prompts_of(models)) {}

  void run() {
    out_.add("widened model: weights of a pass", 1e-6 * static_cast<double>(model_.weight_bytes()),
             "MB");
    for (const int batch : batches) { measure(batch); }
    out_.add("largest batch at which drafts pay, measured", crossing_, "");
    out_.add("largest batch at which drafts pay, by the planner", planned_crossing_, "");
  }

 private:
  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    o.max_batch = batches.back();
    return o;
  }
  std::vector<std::vector<token>> prompts_of(const std::filesystem::path& models) const {
    const engine::tokenizer text =
        tokenizer_for(models / "target", models / "masked", wide_.shape.model);
    return domain_prompts(text, models / "heldout");
  }
  static hunch::diffusion::decoder_options sizes() {
    hunch::diffusion::decoder_options o;
    o.max_batch = batches.back();
    return o;
  }

  /// Fills as many canvases at a time.
  template <class Decoder>
  timed_run fill(Decoder& d, int batch, std::int32_t drafts) {
    generation_options request;
    request.max_new_tokens = batch < 4 ? 48 : batch < 16 ? 24 : 16;
    request.temperature = 1.0f;
    d.draft_length(drafts);
    d.reset_stats();
    timed_run out;
    for (int i = 0; i < batch; ++i) {
      request.seed = static_cast<std::uint64_t>(i) + 1;
      d.add(prompts_[static_cast<std::size_t>(i) % prompts_.size()], request,
            {.block_length = block, .answer = {}});
    }
    d.step();  // reads the prompts
    const auto before = d.stats();
    const auto start = std::chrono::steady_clock::now();
    while (d.running() > 0) {
      for (const hunch::diffusion::emission& e : d.step()) {
        out.tokens += static_cast<double>(e.unmaskings.size());
        if (e.finish == finish_reason::error) {
          throw std::runtime_error("the logits of a canvas are not numbers");
        }
      }
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    out.seconds = passed.count();
    out.passes = static_cast<double>(d.stats().target_passes - before.target_passes);
    out.canvases = static_cast<double>(d.stats().target_rows - before.target_rows);
    return out;
  }

  void measure(int batch) {
    hunch::diffusion::decoder chain{model_,
                                    hunch::diffusion::order::confidence{},
                                    canvas_sampler{},
                                    hunch::diffusion::verifier::stepwise_exact{},
                                    hunch::diffusion::self_speculation<most_drafts>{.spread = 0.0},
                                    sizes()};
    std::array<std::vector<timed_run>, most_drafts + 1> runs;
    for (int round = -1; round < rounds; ++round) {
      for (std::int32_t n = 0; n <= most_drafts; ++n) {
        const timed_run one = fill(chain, batch, n);
        if (round >= 0) { runs[static_cast<std::size_t>(n)].push_back(one); }
      }
    }
    const auto median_of = [&](std::int32_t n, const auto& value) {
      std::vector<double> all;
      for (const timed_run& r : runs[static_cast<std::size_t>(n)]) { all.push_back(value(r)); }
      return median(all);
    };
    const auto pass = [&](std::int32_t n) {
      return median_of(n, [](const timed_run& r) { return r.seconds / r.passes; });
    };
    const auto per_pass = [&](std::int32_t n) {
      return median_of(n, [](const timed_run& r) { return r.tokens / r.passes; });
    };
    const auto canvases = [&](std::int32_t n) {
      return median_of(n, [](const timed_run& r) { return r.canvases / r.passes; });
    };
    double best = 1.0;
    double planned = 1.0;
    const std::string row = "SSD, a chain, batch " + std::to_string(batch) + ", ";
    for (std::int32_t n = 1; n <= most_drafts; ++n) {
      const std::string of = row + "N = " + std::to_string(n) + ": ";
      const double gain = per_pass(n) / per_pass(0);
      const double cost = pass(n) / pass(0);
      // Paired within a round; the planner has medians of the parts.
      std::vector<double> ratios;
      for (int round = 0; round < rounds; ++round) {
        const timed_run& with = runs[static_cast<std::size_t>(n)][static_cast<std::size_t>(round)];
        const timed_run& without = runs[0][static_cast<std::size_t>(round)];
        ratios.push_back(with.tokens / with.seconds / (without.tokens / without.seconds));
      }
      out_.add(of + "tokens of a pass, over one token a pass", gain, "x");
      out_.add(of + "r, cost of a pass over one without drafts", cost, "x");
      out_.add(of + "speed-up", median(ratios), "x");
      out_.add(of + "speed-up on an H200, predicted", gain / h200_cost(canvases(n), canvases(0)),
               "x");
      best = std::max(best, median(ratios));
      planned = std::max(planned, gain / cost);
    }
    if (best > 1.0) { crossing_ = batch; }
    if (planned > 1.0) { planned_crossing_ = batch; }
  }

  /// What a pass over so many canvases costs there over one over fewer: bytes or operations,
  /// whatever takes longer. A canvas has the rows of a block.
  double h200_cost(double canvases, double fewer) const {
    const auto bytes = static_cast<double>(model_.weight_bytes());
    const auto seconds = [&](double n) {
      return std::max(bytes / h200_bytes, n * block * bytes / h200_flops);
    };
    return seconds(canvases) / seconds(fewer);
  }

  report& out_;
  widened_model wide_;
  engine::masked_model model_;
  std::vector<std::vector<token>> prompts_;
  int crossing_ = 0;          ///< the largest batch at which drafts were faster
  int planned_crossing_ = 0;  ///< at which the parts say so
};

}  // namespace

void measure_scaling(report& out, const std::filesystem::path& models) {
  scaling(out, models).run();
}

}  // namespace bench::diffusion
