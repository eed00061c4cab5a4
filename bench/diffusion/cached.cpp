// SPDX-License-Identifier: Apache-2.0
#include "diffusion/cached.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <engine/block_cached_model.hpp>
#include <engine/checkpoint.hpp>
#include <engine/masked_config.hpp>
#include <engine/masked_model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "filled_canvas.hpp"
#include "prompts.hpp"

namespace bench::diffusion {
namespace {

using namespace hunch;
using hunch::diffusion::unmasking;

constexpr std::int32_t block = 8;
constexpr std::int32_t drafts = 4;
constexpr std::int32_t new_tokens = 64;

using canvas_sampler = sampler::pipeline<sampler::temperature>;

/// All domains, one canvas after the other.
struct written {
  std::vector<std::vector<unmasking>> unmaskings;
  double passes = 0.0;
  double seconds = 0.0;
};

class suite {
 public:
  suite(report& out, const std::filesystem::path& models)
      : out_(out),
        shape_(full(engine::read_masked_config(models / "masked" / "config.json"))),
        weights_(engine::checkpoint::open(models / "masked")),
        prompts_(prompts_of(models)) {}

  void run() {
    engine::masked_model exact(shape_, weights_, options());
    const std::vector<written> without = measure("no cache", exact);
    for (const auto& [kept, name] : {std::pair{engine::block_cache::prefix, "prefix cache"},
                                     std::pair{engine::block_cache::dual, "dual cache"}}) {
      engine::block_cached_model cached(shape_, weights_, kept, options());
      const std::vector<written> with = measure(name, cached);
      for (std::size_t t = 0; t < with.size(); ++t) {
        const std::string row = std::string(name) + at(t);
        out_.add(row + "unmaskings that differ from those without a cache",
                 difference(with[t], without[t]), "");
        out_.add(row + "one token a pass, over no cache", without[t].seconds / with[t].seconds,
                 "x");
      }
    }
  }

 private:
  static engine::masked_config full(engine::masked_config shape) {
    shape.pattern = engine::masked_config::attention::full;
    return shape;
  }
  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    return o;
  }
  static std::string at(std::size_t t) { return ", T = " + std::to_string(t) + ": "; }
  std::vector<std::vector<token>> prompts_of(const std::filesystem::path& models) const {
    const engine::tokenizer text =
        tokenizer_for(models / "target", models / "masked", shape_.model);
    return domain_prompts(text, models / "heldout");
  }

  template <class Decoder>
  written fill(Decoder& d, std::int32_t length, float temperature) {
    written out;
    d.draft_length(length);
    d.reset_stats();
    generation_options request;
    request.max_new_tokens = new_tokens;
    request.temperature = temperature;
    request.seed = 1;
    for (const std::vector<token>& prompt : prompts_) {
      filled_canvas one = fill_canvas(d, prompt, request, block);
      out.unmaskings.push_back(std::move(one.unmaskings));
      out.seconds += one.time;
    }
    out.passes = static_cast<double>(d.stats().target_passes);
    return out;
  }

  /// One token a pass of a model, at both temperatures, and SSD's chain beside it.
  template <class Model>
  std::vector<written> measure(const std::string& name, Model& model) {
    hunch::diffusion::decoder d{model, hunch::diffusion::order::confidence{}, canvas_sampler{},
                                hunch::diffusion::verifier::stepwise_exact{},
                                hunch::diffusion::self_speculation<drafts>{.spread = 0.0}};
    static_assert(decltype(d)::lossless);
    std::vector<written> out;
    for (const float temperature : {0.0f, 1.0f}) {
      const std::string row = name + at(out.size());
      const written stepwise = fill(d, 0, temperature);
      const written with = fill(d, drafts, temperature);
      double identical = 0.0;
      for (std::size_t i = 0; i < with.unmaskings.size(); ++i) {
        identical += with.unmaskings[i] == stepwise.unmaskings[i] ? 1.0 : 0.0;
      }
      out_.add(row + "texts whose unmaskings are those of one token a pass",
               identical / static_cast<double>(prompts_.size()), "", at_least(1.0));
      out_.add(row + "passes / one token a pass, N = 4", with.passes / stepwise.passes, "x");
      out_.add(row + "speed-up, N = 4", stepwise.seconds / with.seconds, "x");
      out.push_back(stepwise);
    }
    return out;
  }

  static double difference(const written& a, const written& b) {
    double differ = 0.0;
    double all = 0.0;
    for (std::size_t i = 0; i < a.unmaskings.size(); ++i) {
      for (std::size_t j = 0; j < a.unmaskings[i].size(); ++j) {
        differ += a.unmaskings[i][j] == b.unmaskings[i][j] ? 0.0 : 1.0;
        all += 1.0;
      }
    }
    return differ / all;
  }

  report& out_;
  engine::masked_config shape_;
  engine::checkpoint weights_;
  std::vector<std::vector<token>> prompts_;
};

}  // namespace

void measure_caches(report& out, const std::filesystem::path& models) { suite(out, models).run(); }

}  // namespace bench::diffusion
