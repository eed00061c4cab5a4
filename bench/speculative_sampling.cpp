// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>

#include "common.hpp"
#include "drafters/measure.hpp"
#include "folders.hpp"
#include "paired.hpp"
#include "prompts.hpp"
#include "vocab/forced_text.hpp"

/// \file
/// Speculative sampling as it was published (Leviathan, Kalman, Matias 2023, arXiv:2211.17192): its
/// Table 2 for draft models of several sizes over the full vocabulary, what its formulas predict of
/// it, and what rates by position and measured costs of rows do.

namespace bench::drafters {
namespace {

using namespace hunch;

constexpr std::array<std::int32_t, 4> lengths{1, 3, 5, 7};
constexpr std::int32_t longest = lengths.back();

/// Multiply-adds of a row in the matrices of a model; what attention adds grows with the text and
/// is left out.
struct row_operations {
  double layers;
  double head;

  /// \param head_rows of the vocabulary.
  row_operations(const engine::config& of, std::int32_t head_rows)
      : layers(of.layers * (2.0 * of.hidden * (of.heads + of.kv_heads) * of.head_dim +
                            3.0 * of.hidden * of.intermediate)),
        head(static_cast<double>(of.hidden) * head_rows) {}

  double all() const { return layers + head; }
};

/// What drafts of one length came to in generation.
struct generated {
  hunch::statistics<longest + 1> stats;
  paired_rounds ratios;  ///< over plain decoding
  double draft_rows = 0.0;
  double target_rows = 0.0;

  /// [length] the share of steps that accepted the i-th draft.
  std::vector<double> accepted(std::int32_t length) const {
    std::vector<double> out;
    for (std::int32_t i = 0; i < length; ++i) {
      out.push_back(static_cast<double>(stats.accepted_at[i]) / static_cast<double>(stats.steps));
    }
    return out;
  }
};

/// Plain decoding and the lengths that were measured: a choice among them, and what it gives.
struct choice {
  std::int32_t length = 0;
  double gain = 1.0;
};
template <class Gain>
choice best_by(const Gain& gain) {
  choice best;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (const double g = gain(i); g > best.gain) { best = {lengths[i], g}; }
  }
  return best;
}

class suite {
 public:
  suite(report& out, const std::filesystem::path& models)
      : out_(out),
        models_(models),
        target_(engine::model::load(models / "target", options())),
        text_(tokenizer_for(models / "target", models / "target", target_.shape())),
        where_(setting_of(target_, text_, models / "heldout")) {}

  void run() {
    with(models_ / "draft");
    for (const std::filesystem::path& folder : named_folders("HUNCH_BENCH_DRAFTS")) {
      with(folder);
    }
  }

 private:
  static constexpr int rounds = 5;

  static engine::model_options options() {
    engine::model_options o;
    o.threads = generate::default_threads();
    return o;
  }

  /// With the full head, as published, and with that of the most frequent tokens: on a small model
  /// the head is most of what a draft costs.
  void with(const std::filesystem::path& folder) {
    engine::model draft = engine::model::load(folder, options());
    engine::check_draft_vocabulary(folder, draft.shape(), text_.fingerprint(), models_ / "target");
    const std::string name = "draft model, d = " + std::to_string(draft.shape().hidden);
    measure_head(name, draft, selector::any<>(selector::full{target_.vocab_size()}));
    const std::int32_t listed = target_.vocab_size() / listed_part;
    measure_head(name + ", " + std::to_string(listed) + " tokens", draft,
                 selector::any<>(selector::frequency{
                     load_layout(models_ / "frequency.safetensors", target_.made_for()), listed}));
  }

  void measure_head(const std::string& name, engine::model& draft, const selector::any<>& list) {
    draft.set_head_layout(vocab_layout::identity(target_.vocab_size()));
    const std::array<double, temperatures> along_text = expected_along_text(name, draft, list);
    draft.set_head_layout(list.layout());
    const row_operations of_target(target_.shape(), target_.vocab_size());
    const row_operations of_draft(draft.shape(), list.max_rows());
    out_.add(name + ": operations of a draft / of a target's row", of_draft.all() / of_target.all(),
             "x");
    for (int t = 0; t < temperatures; ++t) {
      const std::string row = name + at_temperature(t) + ": ";
      out_.add(row + "acceptance expected along text", along_text[static_cast<std::size_t>(t)], "");
      generation_options request;
      request.max_new_tokens = 96;
      request.temperature = static_cast<float>(t);
      decoder speculative{target_, drafter::autoregressive{draft, tree::chain<longest>{}},
                          selector::any<>(list), text_sampler{}, verifier::rejection{}};
      const generate::costs cost = costs_over(speculative, where_.prompts, request);
      const std::vector<generated> of = generate_all(row, speculative, draft, request);
      report_lengths(name, t, cost, of, of_draft, of_target);
    }
  }

  /// The mean over held-out text, which both models read, of the probability that a draft would be
  /// accepted: sum min(p, q), and at T = 0 whether the favourites agree.
  std::array<double, temperatures> expected_along_text(const std::string& name,
                                                       engine::model& draft, selector::any<> list) {
    constexpr int before = 64;
    constexpr int roots = 192;
    std::array<std::vector<double>, temperatures> per_domain;
    for (std::size_t d = 0; d < where_.texts.size(); ++d) {
      const auto piece = std::span(where_.texts[d]).last(before + roots + 1);
      const vocab::forced_text laws(target_, draft, piece, before, roots, 1);
      const vocab::kept_share kept = vocab::measure(
          laws, list, [&](int root, int depth) { return laws.context(root, depth); });
      for (int t = 0; t < temperatures; ++t) {
        std::vector<double>& of = per_domain[static_cast<std::size_t>(t)];
        of.push_back(kept.mean_length(t) - 1.0);
        out_.record(name + at_temperature(t) + ": " + where_.domains[d] +
                        ", acceptance expected along text",
                    of.back(), "");
      }
    }
    return {mean(per_domain[0]), mean(per_domain[1])};
  }

  /// Drafts of all lengths and plain decoding, which take turns.
  template <class Decoder>
  std::vector<generated> generate_all(const std::string& row, Decoder& speculative,
                                      engine::model& draft, generation_options request) {
    const auto nothing = [](auto&&...) {};
    decoder plain{target_, drafter::none{}, selector::full{target_.vocab_size()}, text_sampler{},
                  verifier::rejection{}};
    std::vector<generated> of(lengths.size(), {{}, paired_rounds(where_.prompts.size())});
    for (std::size_t d = 0; d < where_.prompts.size(); ++d) {
      const std::vector<std::vector<token>> asked{where_.prompts[d]};
      const auto read = static_cast<double>(asked[0].size() - 1);  // the last one is a root
      statistics<longest + 1> all;
      for (int round = 0; round < rounds; ++round) {
        request.seed = static_cast<std::uint64_t>(round + 1);
        std::array<std::function<double()>, lengths.size() + 1> runs;
        runs[lengths.size()] = [&] {
          return generate::run_requests(plain, asked, request, 1, nothing, nothing).rate();
        };
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          runs[i] = [&, i] {
            speculative.draft_length(lengths[i]);
            speculative.reset_stats();
            const auto layer_rows = draft.layer_rows();
            const double rate =
                generate::run_requests(speculative, asked, request, 1, nothing, nothing).rate();
            of[i].draft_rows += static_cast<double>(draft.layer_rows() - layer_rows) /
                                    static_cast<double>(draft.shape().layers) -
                                read;
            of[i].target_rows += static_cast<double>(speculative.stats().target_rows) - read;
            of[i].stats += speculative.stats();
            all += speculative.stats();
            return rate;
          };
        }
        const auto rates = take_turns(round, runs);
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          of[i].ratios.add(d, rates[i] / rates[lengths.size()]);
        }
      }
      out_.record(row + where_.domains[d] + ", acceptance in generation",
                  all.acceptance_probability(), "");
    }
    return of;
  }

  void report_lengths(const std::string& name, int t, const generate::costs& cost,
                      const std::vector<generated>& of, const row_operations& of_draft,
                      const row_operations& of_target) {
    const double operations = of_draft.all() / of_target.all();
    const std::string row = name + at_temperature(t) + ": ";
    statistics<longest + 1> all;
    for (const generated& g : of) { all += g.stats; }
    const double alpha = all.acceptance_probability();
    out_.add(row + "acceptance in generation, alpha", alpha, "");
    out_.add(row + "cost of a draft / of a target's row, c", cost.draft, "x");
    const std::vector<double> by_position = of.back().accepted(longest);
    for (std::int32_t i = 0; i < longest; ++i) {
      out_.add(row + "steps that accept draft " + std::to_string(i + 1),
               by_position[static_cast<std::size_t>(i)], "");
    }
    const auto by_paper = [&](std::size_t i) {
      return planner::walltime_gain(alpha, lengths[i], cost.draft);
    };
    const auto by_rows = [&](std::size_t i) {
      return planner::walltime_gain(alpha, lengths[i], cost.draft, cost.rows);
    };
    // What the longest drafts say of shorter ones: a choice knows no more.
    const auto by_position_of_longest = [&](std::size_t i) {
      const auto length = static_cast<std::size_t>(lengths[i]);
      return planner::walltime_gain(std::span(by_position).first(length), cost.draft, cost.rows);
    };
    const auto measured_gain = [&](std::size_t i) { return of[i].ratios.speed_up(); };
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int32_t length = lengths[i];
      const statistics<longest + 1>& stats = of[i].stats;
      const std::string at =
          name + ", T = " + std::to_string(t) + ", drafts of " + std::to_string(length) + ": ";
      out_.add(at + "acceptance", stats.acceptance_probability(), "");
      out_.add(at + "tokens per step", stats.mean_acceptance_length(), "tokens");
      out_.add(at + "tokens per step by alpha", planner::expected_tokens(alpha, length), "tokens");
      out_.add(at + "cost of the target's rows, r", cost.rows.at(length + 1), "x");
      out_.add(at + "speed-up by alpha and c", by_paper(i), "x");
      out_.add(at + "speed-up by alpha, c and r", by_rows(i), "x");
      out_.add(at + "speed-up by position, c and r",
               planner::walltime_gain(of[i].accepted(length), cost.draft, cost.rows), "x");
      out_.add(at + "speed-up", measured_gain(i), "x");
      out_.record(at + "speed-up, standard error", of[i].ratios.error(), "x");
      out_.add(at + "operations by alpha", planner::operations_factor(alpha, length, operations),
               "x");
      out_.add(at + "operations counted",
               (of[i].target_rows * of_target.all() + of[i].draft_rows * of_draft.layers +
                static_cast<double>(stats.shortlists) * of_draft.head) /
                   (static_cast<double>(stats.emitted) * of_target.all()),
               "x");
    }
    const choice best = best_by(measured_gain);
    out_.add(row + "best draft length measured", best.length, "tokens");
    out_.add(row + "speed-up of that", best.gain, "x");
    const auto chosen = [&](const std::string& by, const choice& c, auto... wanted) {
      const auto found = std::ranges::find(lengths, c.length);
      const double gain = found == lengths.end()
                              ? 1.0
                              : measured_gain(static_cast<std::size_t>(found - lengths.begin()));
      out_.add(row + "draft length by " + by, c.length, "tokens");
      out_.add(row + "speed-up of that by " + by + " / best", gain / best.gain, "x", wanted...);
    };
    chosen("alpha and c", best_by(by_paper));
    chosen("alpha, c and r", best_by(by_rows));
    chosen("position, c and r", best_by(by_position_of_longest), at_least(0.95));
  }

  report& out_;
  std::filesystem::path models_;
  engine::model target_;
  engine::tokenizer text_;
  setting where_;
};

}  // namespace
}  // namespace bench::drafters

int main(int argc, char** argv) {
  return bench::run(
      "speculative_sampling", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        bench::drafters::suite(out, of.models).run();
      },
      HUNCH_BENCH_MODELS);
}
