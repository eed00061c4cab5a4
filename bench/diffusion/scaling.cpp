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
/// Of small batches more, so that each has the texts of many prompts.
constexpr int rounds_of(int batch) { return std::max(3, 16 / batch); }
constexpr std::int32_t canvas = 48;
/// Passes that are timed, and one before them: in so few no canvas is full, so that the batch is as
/// large in the last one as in the first.
constexpr int passes = canvas / (most_drafts + 1) - 1;

/// The kinds of an H200 in dense bfloat16: see bench/device/predict/gpu.py.
constexpr double h200_bytes = 4.3e12;
constexpr double h200_flops = 9.9e14;

using canvas_sampler = sampler::pipeline<sampler::temperature>;

struct timed_run {
  double seconds = 0.0;
  double tokens = 0.0;
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

  /// Some passes over as many canvases, of texts that are others in each round.
  template <class Decoder>
  timed_run fill(Decoder& d, int batch, std::int32_t drafts, int round) {
    generation_options request;
    request.max_new_tokens = canvas;
    request.temperature = 1.0f;
    d.draft_length(drafts);
    d.reset_stats();
    timed_run out;
    std::vector<request_id> running;
    for (int i = 0; i < batch; ++i) {
      const auto text = static_cast<std::size_t>(round * batch + i);
      request.seed = text + 1;
      running.push_back(
          d.add(prompts_[text % prompts_.size()], request, {.block_length = block, .answer = {}}));
    }
    d.step();  // the first pass over prompts
    const auto before = d.stats();
    const auto start = std::chrono::steady_clock::now();
    for (int pass = 0; pass < passes; ++pass) {
      for (const hunch::diffusion::emission& e : d.step()) {
        out.tokens += static_cast<double>(e.unmaskings.size());
        if (e.finish != finish_reason::none) {
          throw std::runtime_error("a canvas has ended before the last pass that is timed");
        }
      }
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    out.seconds = passed.count();
    out.canvases = static_cast<double>(d.stats().target_rows - before.target_rows);
    for (const request_id id : running) { d.cancel(id); }
    return out;
  }

  void measure(int batch) {
    const int rounds = rounds_of(batch);
    hunch::diffusion::decoder chain{model_,
                                    hunch::diffusion::order::confidence{},
                                    canvas_sampler{},
                                    hunch::diffusion::verifier::stepwise_exact{},
                                    hunch::diffusion::self_speculation<most_drafts>{.spread = 0.0},
                                    sizes()};
    std::array<std::vector<timed_run>, most_drafts + 1> runs;
    for (int round = -1; round < rounds; ++round) {
      for (std::int32_t n = 0; n <= most_drafts; ++n) {
        const timed_run one = fill(chain, batch, n, std::max(round, 0));
        if (round >= 0) { runs[static_cast<std::size_t>(n)].push_back(one); }
      }
    }
    const auto median_of = [&](std::int32_t n, const auto& value) {
      std::vector<double> all;
      for (const timed_run& r : runs[static_cast<std::size_t>(n)]) { all.push_back(value(r)); }
      return median(all);
    };
    const auto pass = [&](std::int32_t n) {
      return median_of(n, [](const timed_run& r) { return r.seconds / passes; });
    };
    // All rounds together: each has texts of its own.
    const auto per_pass = [&](std::int32_t n, const auto& value) {
      double sum = 0.0;
      for (const timed_run& r : runs[static_cast<std::size_t>(n)]) { sum += value(r); }
      return sum / (rounds * passes);
    };
    const auto tokens = [&](std::int32_t n) {
      return per_pass(n, [](const timed_run& r) { return r.tokens; });
    };
    const auto canvases = [&](std::int32_t n) {
      return per_pass(n, [](const timed_run& r) { return r.canvases; });
    };
    // Whether a draft is accepted does not depend on the batch: by position, of the first one.
    if (accepted_.empty()) {
      for (std::int32_t n = 1; n <= most_drafts; ++n) {
        accepted_.push_back((tokens(n) - tokens(n - 1)) / tokens(0));
      }
    }
    std::vector<double> costs;  // of a pass with 0, 1, ... drafts
    for (std::int32_t n = 0; n <= most_drafts; ++n) { costs.push_back(pass(n) / pass(0)); }
    const hunch::planner::row_costs curve{std::span<const double>(costs)};
    double best = 1.0;
    double planned = 1.0;
    const std::string row = "SSD, a chain, batch " + std::to_string(batch) + ", ";
    for (std::int32_t n = 1; n <= most_drafts; ++n) {
      const std::string of = row + "N = " + std::to_string(n) + ": ";
      const double gain = tokens(n) / tokens(0);
      const double cost = costs[static_cast<std::size_t>(n)];
      const std::span<const double> drafts(accepted_.data(), static_cast<std::size_t>(n));
      const double plan = hunch::planner::walltime_gain(drafts, 0.0, curve);
      // Paired within a round.
      std::vector<double> ratios;
      for (int round = 0; round < rounds; ++round) {
        const timed_run& with = runs[static_cast<std::size_t>(n)][static_cast<std::size_t>(round)];
        const timed_run& without = runs[0][static_cast<std::size_t>(round)];
        ratios.push_back(with.tokens / with.seconds / (without.tokens / without.seconds));
      }
      out_.add(of + "tokens of a pass, over one token a pass", gain, "x");
      out_.add(of + "r, cost of a pass over one without drafts", cost, "x");
      out_.add(of + "speed-up", median(ratios), "x");
      out_.add(of + "speed-up, by the planner", plan, "x");
      out_.add(of + "speed-up on an H200, predicted", gain / h200_cost(canvases(n), canvases(0)),
               "x");
      best = std::max(best, median(ratios));
      planned = std::max(planned, plan);
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
  int crossing_ = 0;              ///< the largest batch at which drafts were faster
  int planned_crossing_ = 0;      ///< at which the planner says so
  std::vector<double> accepted_;  ///< share of passes in which draft i and all before it are
};

}  // namespace

void measure_scaling(report& out, const std::filesystem::path& models) {
  scaling(out, models).run();
}

}  // namespace bench::diffusion
