// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/arguments.hpp>
#include <generate/fastest.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"
#include "diffusion/cached.hpp"
#include "diffusion/scaling.hpp"
#include "filled_canvas.hpp"
#include "paired.hpp"
#include "prompts.hpp"

/// \file
/// Self-speculation of a masked diffusion model: how many passes it takes for the very unmaskings
/// of decoding one token a pass, how many canvases are in them, and how fast they are.

namespace bench::diffusion {
namespace {

using namespace hunch;
using hunch::diffusion::unmasking;

constexpr std::int32_t max_drafts = 8;
constexpr std::int32_t block = 8;
constexpr std::int32_t new_tokens = 128;
constexpr int seeds = 3;
/// Temperature 0 repeats itself in a model of this size; 1 is the law that it was trained as.
constexpr std::array temperatures{0.0f, 0.5f, 1.0f};
/// Of the lossy variant; the last one unmasks whatever is drafted.
constexpr std::array accepted_ranks{2, 5, 20, 1 << 30};

using canvas_sampler = sampler::pipeline<sampler::temperature>;

/// One canvas after the other was filled.
struct filled_texts {
  std::vector<std::vector<token>> answers;
  std::vector<std::vector<unmasking>> unmaskings;
  std::int64_t passes = 0;
  std::int64_t canvases = 0;
  double time = 0.0;

  double tokens() const {
    double sum = 0.0;
    for (const auto& w : unmaskings) { sum += static_cast<double>(w.size()); }
    return sum;
  }
  double rate() const { return tokens() / time; }
};

std::string at(float temperature) {
  return ", T = " + std::to_string(temperature).substr(0, temperature == 0.5f ? 3 : 1) + ": ";
}

/// The share of positions whose tokens differ.
double difference(const filled_texts& a, const filled_texts& b) {
  double differ = 0.0, all = 0.0;
  for (std::size_t i = 0; i < a.answers.size(); ++i) {
    for (std::size_t j = 0; j < a.answers[i].size(); ++j) {
      differ += a.answers[i][j] != b.answers[i][j];
    }
    all += static_cast<double>(a.answers[i].size());
  }
  return differ / all;
}

class suite {
 public:
  suite(report& out, const std::filesystem::path& models)
      : out_(out),
        model_(engine::masked_model::load(models / "masked", options())),
        head_(head_of(models)),
        text_(tokenizer_for(models / "target", models / "masked", model_.shape().model)),
        domains_(bench::domains(models / "heldout")),
        prompts_(domain_prompts(text_, models / "heldout")),
        texts_(domain_texts(text_, models / "heldout")) {}

  void run() {
    for (const float temperature : temperatures) {
      lossless(temperature);
      lossy(temperature);
      automatic("auto", hunch::diffusion::self_speculation<generate::max_draft_length>{},
                temperature);
      if (head_) {
        automatic("head, auto", hunch::diffusion::drafted_by<generate::max_draft_length>(*head_),
                  temperature);
      }
    }
  }

 private:
  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    return o;
  }

  /// The head that drafts for the model, if there is one.
  std::optional<engine::canvas_head> head_of(const std::filesystem::path& models) {
    if (!std::filesystem::exists(models / "canvas_head")) { return std::nullopt; }
    return engine::canvas_head::load(models / "canvas_head", models / "masked", model_, options());
  }

  /// Fills a domain's canvas after its prompt, once for each seed.
  template <class Decoder>
  filled_texts fill(Decoder& d, std::size_t domain, float temperature,
                    std::int32_t tokens = new_tokens) {
    filled_texts all;
    generation_options request;
    request.max_new_tokens = tokens;
    request.temperature = temperature;
    d.reset_stats();
    for (int seed = 0; seed < (temperature == 0.0f ? 1 : seeds); ++seed) {
      request.seed = static_cast<std::uint64_t>(seed) + 1;
      filled_canvas one = fill_canvas(d, prompts_[domain], request, block);
      all.unmaskings.push_back(std::move(one.unmaskings));
      all.answers.push_back(std::move(one.answer));
      all.time += one.time;
    }
    all.passes = d.stats().target_passes;
    all.canvases = d.stats().target_rows;
    return all;
  }

  template <class Drafts>
  auto decoder(Drafts drafts) {
    return hunch::diffusion::decoder(model_, hunch::diffusion::order::confidence{},
                                     canvas_sampler{}, hunch::diffusion::verifier::stepwise_exact{},
                                     std::move(drafts));
  }

  void lossless(float temperature) {
    auto one = decoder(hunch::diffusion::stepwise{});
    std::vector<double> rates, repeated, held_out;
    stepwise_.clear();
    for (std::size_t domain = 0; domain < domains_.size(); ++domain) {
      fill(one, domain, temperature);  // warms up
      stepwise_.push_back(fill(one, domain, temperature));
      rates.push_back(stepwise_.back().rate());
      repeated.push_back(repetition(stepwise_.back().answers));
      held_out.push_back(repetition(held_out_texts(domain, stepwise_.back().answers.size())));
    }
    out_.add("N = 0" + at(temperature) + "tokens per second", mean(rates), "tok/s");
    const std::string row = at(temperature).substr(2);
    const auto best = [&](const char* of, double passes, double wanted) {
      out_.add(row + of + ": passes / one token a pass, the best of N <= 4", passes, "x",
               at_most(wanted));
    };
    best("SSD as published, a chain",
         by_length<max_drafts>(
             "chain, ", hunch::diffusion::self_speculation<max_drafts>{.spread = 0.0}, temperature),
         0.60);
    best("sets of drafts",
         by_length<max_drafts>("", hunch::diffusion::self_speculation<max_drafts>{}, temperature),
         0.55);
    if (head_) {
      by_length<4>("head, chain, ",
                   hunch::diffusion::drafted_by<4>(*head_, hunch::length::fixed{}, 0.0),
                   temperature);
      best("a head and sets",
           by_length<4>("head, ", hunch::diffusion::drafted_by<4>(*head_), temperature), 0.45);
    }
    const bool loops = temperature == 0.0f;
    out_.add(row + "repeated 4-grams", mean(repeated), "");
    out_.add(row + "repeated 4-grams of held-out text", mean(held_out), "");
    if (!loops) {
      out_.add(row + "repeated 4-grams, more than held-out text has",
               mean(repeated) - mean(held_out), "", at_most(0.1));
    }
  }

  /// 1 to Most drafts, beside one token a pass. Returns the best share of passes of N <= 4.
  template <std::int32_t Most, class Drafts>
  double by_length(const std::string& from, Drafts drafts, float temperature) {
    auto d = decoder(std::move(drafts));
    static_assert(decltype(d)::lossless);
    const auto share = [](std::int64_t count, std::int64_t whole) {
      return static_cast<double>(count) / static_cast<double>(whole);
    };
    double best = 1.0;
    double identical = 0.0;
    for (std::int32_t n = 1; n <= Most; ++n) {
      d.draft_length(n);
      std::vector<double> passes, canvases, rates;
      for (std::size_t domain = 0; domain < domains_.size(); ++domain) {
        const filled_texts of = fill(d, domain, temperature);
        const filled_texts& one = stepwise_[domain];
        passes.push_back(share(of.passes, one.passes));
        canvases.push_back(share(of.canvases, one.canvases));
        rates.push_back(of.rate());
        identical += of.unmaskings == one.unmaskings ? 1.0 : 0.0;
        const std::string row =
            from + domains_[domain] + ", N = " + std::to_string(n) + at(temperature);
        out_.record(row + "passes / one token a pass", passes.back(), "x");
        out_.record(row + "canvases / one token a pass", canvases.back(), "x");
        out_.record(row + "tokens per second", rates.back(), "tok/s");
      }
      const std::string row = from + "N = " + std::to_string(n) + at(temperature);
      out_.add(row + "tokens per second", mean(rates), "tok/s");
      out_.add(row + "passes / one token a pass", mean(passes), "x");
      out_.add(row + "if every draft were unmasked", 1.0 / (n + 1), "x");
      out_.add(row + "canvases / one token a pass", mean(canvases), "x");
      if (n <= 4) { best = std::min(best, mean(passes)); }
    }
    out_.add(from + at(temperature).substr(2) +
                 "texts whose positions and tokens are those of one token a pass",
             identical / static_cast<double>(domains_.size() * Most), "x", at_least(1.0));
    return best;
  }

  /// Four drafts, unmasked if they are among the k best.
  void lossy(float temperature) {
    for (const std::int32_t k : accepted_ranks) {
      hunch::diffusion::decoder d{model_, hunch::diffusion::order::confidence{}, canvas_sampler{},
                                  hunch::diffusion::verifier::top_k{k},
                                  hunch::diffusion::self_speculation<4>{.spread = 0.0}};
      static_assert(!decltype(d)::lossless);
      std::vector<double> passes, differ, repeated;
      for (std::size_t domain = 0; domain < domains_.size(); ++domain) {
        const filled_texts of = fill(d, domain, temperature);
        const filled_texts& one = stepwise_[domain];
        passes.push_back(static_cast<double>(of.passes) / static_cast<double>(one.passes));
        differ.push_back(difference(of, one));
        repeated.push_back(repetition(of.answers));
      }
      const std::string name = k == accepted_ranks.back() ? "all" : "top " + std::to_string(k);
      const std::string row = "lossy, " + name + ", N = 4" + at(temperature);
      out_.add(row + "passes / one token a pass", mean(passes), "x");
      out_.add(row + "tokens that differ", mean(differ), "x");
      out_.add(row + "repeated 4-grams", mean(repeated), "");
    }
  }

  /// The number of canvases that `generate` chooses at the beginning of each domain's text, for
  /// whole texts, beside one token a pass.
  template <class Drafts>
  void automatic(const std::string& name, Drafts drafts, float temperature) {
    constexpr int rounds = 6;
    auto d = decoder(std::move(drafts));
    paired_rounds ratios(domains_.size());
    for (std::size_t domain = 0; domain < domains_.size(); ++domain) {
      const auto rate = [&](std::int32_t n, std::int32_t tokens) {
        d.draft_length(n);
        return fill(d, domain, temperature, tokens).rate();
      };
      const std::int32_t chosen = generate::fastest_number(
          generate::max_draft_length,
          [&](std::int32_t n) { return rate(n, generate::tokens_of_a_try); });
      for (int round = 0; round < rounds; ++round) {
        const bool first = round % 2 == 0;  // by turns, so that neither always follows the other
        const double before = first ? rate(0, new_tokens) : 0.0;
        const double fast = rate(chosen, new_tokens);
        ratios.add(domain, fast / (first ? before : rate(0, new_tokens)));
      }
      out_.record(name + ", " + domains_[domain] + at(temperature) + "canvases with drafts", chosen,
                  "");
    }
    out_.add(name + at(temperature) + "speed-up", ratios.speed_up(), "x", at_least(0.97));
    out_.record(name + at(temperature) + "speed-up, standard error", ratios.error(), "x");
  }

  static double repetition(const std::vector<std::vector<token>>& texts) {
    std::vector<double> values;
    for (const auto& text : texts) { values.push_back(generate::repeated_4grams(text)); }
    return mean(values);
  }
  /// As many pieces of a domain's text, as long as answers.
  std::vector<std::vector<token>> held_out_texts(std::size_t domain, std::size_t count) const {
    std::vector<std::vector<token>> pieces;
    const std::size_t wanted = std::max<std::size_t>(count, 8);
    const std::span<const token> text = texts_[domain];
    for (std::size_t i = 0; i < wanted; ++i) {
      const std::size_t first = (text.size() - new_tokens) * i / wanted;
      const auto piece = text.subspan(first, new_tokens);
      pieces.emplace_back(piece.begin(), piece.end());
    }
    return pieces;
  }

  report& out_;
  engine::masked_model model_;
  std::optional<engine::canvas_head> head_;
  engine::tokenizer text_;
  std::vector<std::string> domains_;
  std::vector<std::vector<token>> prompts_;
  std::vector<std::vector<token>> texts_;
  std::vector<filled_texts> stepwise_;  ///< of each domain, at the last temperature
};

}  // namespace
}  // namespace bench::diffusion

int main(int argc, char** argv) {
  return bench::run(
      "diffusion", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        bench::diffusion::suite(out, of.models).run();
        bench::diffusion::measure_caches(out, of.models);
        bench::diffusion::measure_scaling(out, of.models);
      },
      HUNCH_BENCH_MODELS);
}
