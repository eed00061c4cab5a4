// SPDX-License-Identifier: Apache-2.0
#include "vocab/quality.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/draft_length.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>
#include <hunch/tools/frequency_ranking.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/router_weights.hpp>

#include "prompts.hpp"
#include "shortlists.hpp"
#include "vocab/forced_text.hpp"

namespace bench::vocab {
namespace {

using namespace hunch;
namespace fs = std::filesystem;

/// No text of this domain was seen by the list, the layout and the router in models/left_out.
constexpr const char* left_out = "man_de";

constexpr double shares[] = {0.05, 0.10, 0.20};
constexpr int depths = 4;
constexpr int windows = 8;
constexpr int roots = 128;
constexpr int prefix = 32;
constexpr int temperatures = 2;

/// The layouts and the router that selectors are made of.
struct materials {
  std::int32_t vocab;
  vocab_layout ranked;   ///< by frequency in a corpus
  vocab_layout trimmed;  ///< by frequency in text of the target
  vocab_layout clusters;
  router::quantised router;

  std::int32_t rows(double share) const {
    return static_cast<std::int32_t>(share * static_cast<double>(vocab));
  }
};

/// A way to select, to be measured along texts.
struct column {
  std::string name;
  std::function<kept_share(const forced_text&)> of;
};

budget::per_row<budget::rows> rows_budget(const materials& m, double share) {
  return {{m.clusters.clusters(), m.rows(share)}};
}
template <class S>
column plain_column(std::string name, S selector) {
  return {std::move(name), [selector = std::move(selector)](const forced_text& text) mutable {
            return measure(text, selector,
                           [&](int root, int depth) { return text.context(root, depth); });
          }};
}

template <class B>
column oracle_column(std::string name, const materials& m, B budget) {
  return {
      std::move(name),
      [selector = selector::clustered{m.clusters, router::oracle{m.clusters.clusters()}, budget},
       masses = std::vector<float>(static_cast<std::size_t>(m.clusters.clusters()))](
          const forced_text& text) mutable {
        return measure(text, selector, [&](int root, int depth) {
          const auto law = text.target(root, depth);
          const probabilities<float> p{{law.data(), static_cast<std::int32_t>(law.size())}};
          cluster_masses(p, selector.layout(), masses.data());
          return static_cast<const float*>(masses.data());
        });
      }};
}

/// The router as a second opinion: of the mass of each cluster, the share `lambda` is what the
/// router gives it, the rest what the drafter does; within a cluster, and in the core, the
/// drafter's law.
template <class B>
column opinion_column(std::string name, const materials& m, B budget, double lambda) {
  struct opinion {
    const vocab_layout* layout;
    router::mlp<std::int8_t> router;
    double lambda;
    std::vector<float> workspace;
    std::vector<double> factor;  ///< of each part of the layout

    void about(const forced_text& text, int root, int depth, const shortlist& list) {
      const auto clusters = static_cast<std::size_t>(layout->clusters());
      workspace.resize(static_cast<std::size_t>(router.scratch) + clusters);
      float* const scores = workspace.data() + router.scratch;
      team::serial team;
      router(team, text.context(root, depth), workspace.data(), scores);
      const float top = *std::max_element(scores, scores + clusters);
      std::vector<double> mass(clusters + 2);
      const auto draft = text.draft(root, depth);
      list.for_each_in(0, list.size, [&](std::int32_t, token t) {
        mass[static_cast<std::size_t>(layout->token_part()[t])] +=
            static_cast<double>(draft[static_cast<std::size_t>(t)]);
      });
      double drafted = 0.0;
      double routed = 0.0;
      for (std::size_t c = 0; c < clusters; ++c) {
        if (!(mass[c + 1] > 0.0)) { continue; }
        drafted += mass[c + 1];
        routed += std::exp(static_cast<double>(scores[c] - top));
      }
      factor.assign(clusters + 2, 1.0);
      for (std::size_t c = 0; c < clusters; ++c) {
        if (!(mass[c + 1] > 0.0)) { continue; }
        const double wanted = drafted * std::exp(static_cast<double>(scores[c] - top)) / routed;
        factor[c + 1] = (1.0 - lambda) + lambda * wanted / mass[c + 1];
      }
    }
  };
  return {std::move(name), [selector = selector::clustered{m.clusters, m.router.view(), budget},
                            said = opinion{&m.clusters, m.router.view(), lambda, {}, {}}](
                               const forced_text& text) mutable {
            return measure(
                text, selector, [&](int root, int depth) { return text.context(root, depth); },
                [&](int root, int depth, const shortlist& list) {
                  said.about(text, root, depth, list);
                  return [&said, draft = text.draft(root, depth)](token t) {
                    const auto part = static_cast<std::size_t>(said.layout->token_part()[t]);
                    return static_cast<double>(draft[static_cast<std::size_t>(t)]) *
                           said.factor[part];
                  };
                });
          }};
}

constexpr float share_of_mass = 0.9f;
budget::per_row<budget::mass> mass_budget(const materials& m) {
  return {{m.clusters.clusters() / 4, share_of_mass}};
}

std::vector<column> columns_of(const materials& m) {
  std::vector<column> out;
  out.push_back(plain_column("full", selector::full{m.vocab}));
  for (const double s : shares) {
    const std::int32_t rows = m.rows(s);
    out.push_back(plain_column("FR-Spec" + percent(s), selector::frequency{m.ranked, rows}));
    out.push_back(
        plain_column("FR-Spec position-aware" + percent(s),
                     selector::frequency{m.ranked, budget::position_aware{budget::fixed{rows}}}));
    out.push_back(plain_column("VocabTrim" + percent(s), selector::frequency{m.trimmed, rows}));
    const auto view = m.router.view();
    out.push_back(plain_column("DynaSpec fixed" + percent(s),
                               selector::clustered{m.clusters, view, rows_budget(m, s)}));
    out.push_back(plain_column(
        "DynaSpec position-aware" + percent(s),
        selector::clustered{m.clusters, view, budget::position_aware{rows_budget(m, s)}}));
    out.push_back(oracle_column("oracle" + percent(s), m, rows_budget(m, s)));
  }
  for (const double lambda : {0.25, 0.5, 1.0}) {
    char name[48];
    std::snprintf(name, sizeof name, "second opinion %g, 10 %%", lambda);
    out.push_back(opinion_column(name, m, rows_budget(m, 0.1), lambda));
  }
  out.push_back(plain_column("DynaSpec mass",
                             selector::clustered{m.clusters, m.router.view(), mass_budget(m)}));
  for (const double s : {0.15, 0.30, 0.40, 0.60}) {  // for rows at equal length
    out.push_back(plain_column("FR-Spec" + percent(s), selector::frequency{m.ranked, m.rows(s)}));
  }
  return out;
}

/// The shares of all columns along the texts of one domain.
using measured = std::vector<kept_share>;

double share_of_length(const measured& all, std::size_t column, int temperature) {
  return (all[column].mean_length(temperature) - 1.0) / (all[0].mean_length(temperature) - 1.0);
}

/// Windows at even distances after the prompts of the generation part.
template <class Draft>
measured measure_domain(engine::model& target, Draft& draft, const std::vector<token>& tokens,
                        std::vector<column>& columns) {
  constexpr std::size_t length = prefix + roots + depths;
  measured out(columns.size());
  for (std::size_t w = 0; w < windows; ++w) {
    const std::size_t at = (w + 1) * (tokens.size() - length) / (windows + 1);
    const forced_text text(target, draft, std::span(tokens).subspan(at, length), prefix, roots,
                           depths);
    for (std::size_t c = 0; c < columns.size(); ++c) { out[c] += columns[c].of(text); }
  }
  return out;
}

/// The mean over domains, every one with the same weight.
measured mean_of(const std::vector<measured>& all) {
  measured mean(all[0].size());
  for (const measured& domain : all) {
    for (std::size_t c = 0; c < mean.size(); ++c) { mean[c] += domain[c]; }
  }
  return mean;
}

std::size_t place_of(const std::vector<column>& columns, const std::string& name) {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name == name) { return c; }
  }
  throw std::logic_error("no column " + name);
}

void print_domains(const std::vector<std::string>& names, const std::vector<measured>& all,
                   const measured& mean, const std::vector<column>& columns) {
  for (int t = 0; t < temperatures; ++t) {
    std::printf("\nteacher-forced, T = %d: (length - 1) of the full head's, %%\n%-28s", t, "");
    for (const std::string& name : names) { std::printf(" %10s", name.c_str()); }
    std::printf(" %10s %8s %8s\n", "mean", "length", "rows");
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::printf("%-28s", columns[c].name.c_str());
      for (const measured& domain : all) {
        std::printf(" %10.1f", 100.0 * share_of_length(domain, c, t));
      }
      std::printf(" %10.1f %8.3f %8.0f\n", 100.0 * share_of_length(mean, c, t),
                  mean[c].mean_length(t), mean[c].mean_rows());
    }
  }
  std::printf("\n");
}

void record_domains(report& out, const std::string& drafter, const std::vector<std::string>& names,
                    const std::vector<measured>& all, const measured& mean,
                    const std::vector<column>& columns) {
  const auto record = [&](const std::string& domain, const measured& of) {
    for (int t = 0; t < temperatures; ++t) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const std::string name =
            drafter + ", " + domain + at_temperature(t) + ", " + columns[c].name + ": ";
        out.record(name + "mean acceptance length", of[c].mean_length(t), "tokens");
        out.record(name + "(length - 1) / full", share_of_length(of, c, t), "");
        out.record(name + "drafts kept", of[c].mean_kept(t), "");
        out.record(name + "rows", of[c].mean_rows(), "");
      }
    }
  };
  for (std::size_t d = 0; d < names.size(); ++d) { record(names[d], all[d]); }
  record("mean", mean);
}

/// The rows that FR-Spec needs for a share of the length, between the ones that were measured.
double static_rows_for(const measured& mean, const std::vector<column>& columns, double wanted,
                       int t) {
  std::vector<std::pair<double, double>> curve{{0.0, 0.0}};
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::string& name = columns[c].name;
    if (name == "full" || (name.starts_with("FR-Spec ") && name.find("aware") == name.npos)) {
      curve.emplace_back(mean[c].mean_rows(), share_of_length(mean, c, t));
    }
  }
  std::ranges::sort(curve);
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const auto [rows, share] = curve[i];
    const auto [fewer, less] = curve[i - 1];
    if (share >= wanted) { return fewer + (rows - fewer) * (wanted - less) / (share - less); }
  }
  return curve.back().first;
}

void report_goals(report& out, const std::vector<measured>& all, const measured& mean,
                  const std::vector<column>& columns) {
  for (int t = 0; t < temperatures; ++t) {
    const std::string head = "EAGLE" + at_temperature(t) + ", ";
    const auto best_static = [&](const measured& of, double s) {
      return std::max(share_of_length(of, place_of(columns, "FR-Spec" + percent(s)), t),
                      share_of_length(of, place_of(columns, "VocabTrim" + percent(s)), t));
    };
    for (const double s : shares) {
      const std::size_t routed = place_of(columns, "DynaSpec fixed" + percent(s));
      const std::size_t oracle = place_of(columns, "oracle" + percent(s));
      const std::string at = head + "rows" + percent(s) + ": ";
      const double list = best_static(mean, s);
      const double gap = share_of_length(mean, oracle, t) - list;
      out.add(at + "(length - 1) / full, best static list", list, "");
      out.add(at + "(length - 1) / full, DynaSpec", share_of_length(mean, routed, t), "");
      out.add(at + "(length - 1) / full, oracle", share_of_length(mean, oracle, t), "");
      out.add(at + "share of the gap that the router closes",
              (share_of_length(mean, routed, t) - list) / gap, "", at_least(0.5));
      double worst = std::numeric_limits<double>::infinity();
      for (const measured& domain : all) {
        worst = std::min(worst, share_of_length(domain, routed, t) - best_static(domain, s));
      }
      out.add(at + "DynaSpec less static list, worst domain", worst, "", at_least(0.0));
      const double rows = mean[routed].mean_rows();
      const double wanted = share_of_length(mean, routed, t);
      out.add(at + "rows / FR-Spec's rows of that length",
              rows / static_rows_for(mean, columns, wanted, t), "",
              s == shares[0] ? std::optional(at_most(0.5)) : std::nullopt);
    }
    // The most that is kept within the rows that are allowed.
    const double allowed = t == 0 ? 0.06 : 0.20;
    double kept = 0.0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (!columns[c].name.starts_with("DynaSpec")) { continue; }
      if (mean[c].mean_rows() <= allowed * static_cast<double>(mean[0].mean_rows())) {
        kept = std::max(kept, share_of_length(mean, c, t));
      }
    }
    out.add(head + "(length - 1) / full with at most" + percent(allowed), kept, "",
            at_least(t == 0 ? 0.99 : 0.95));
  }
}

/// A domain that neither the list nor the router has seen, with those of models/left_out.
void report_left_out(report& out, const measured& of, const std::vector<column>& columns) {
  for (int t = 0; t < temperatures; ++t) {
    for (const double s : shares) {
      const auto share = [&](const char* name) {
        return share_of_length(of, place_of(columns, name + percent(s)), t);
      };
      const std::string at =
          std::string("left out: ") + left_out + at_temperature(t) + ", rows" + percent(s) + ": ";
      out.add(at + "(length - 1) / full, FR-Spec", share("FR-Spec"), "");
      out.add(at + "(length - 1) / full, DynaSpec", share("DynaSpec fixed"), "");
      out.add(at + "(length - 1) / full, oracle", share("oracle"), "");
      out.add(at + "DynaSpec less FR-Spec", share("DynaSpec fixed") - share("FR-Spec"), "",
              at_least(0.0));
    }
  }
}

constexpr std::int32_t longest_draft = 6;
using text_sampler = sampler::pipeline<sampler::temperature>;

/// A decoder with a drafter of its own, in turn with others over the same target.
struct candidate {
  std::string name;
  std::function<void(const std::vector<std::vector<token>>&, const generation_options&)> calibrate;
  /// As deep as pays by the costs that were measured.
  std::function<generate::run(const std::vector<token>&, const generation_options&)> run;
  /// With drafts of a given length.
  std::function<void(const std::vector<token>&, const generation_options&, std::int32_t)> draft;
  std::function<statistics<longest_draft + 1>()> stats;
};

/// What decoders share.
struct setting {
  fs::path models;
  engine::model* target;
  engine::model_options options;
};

template <class S>
candidate candidate_of(const setting& where, std::string name, S selector) {
  struct parts {
    engine::eagle_model draft;
    S selector;
    generate::costs cost;
    generate::any_length length;
  };
  auto own = std::make_shared<parts>(
      parts{engine::eagle_model::load(where.models / "eagle", where.models / "target",
                                      *where.target, where.options),
            std::move(selector),
            {},
            {}});
  own->draft.set_head_layout(own->selector.layout());
  const drafter::autoregressive chains{own->draft, tree::chain<longest_draft>{},
                                       generate::chosen_length{&own->length}};
  auto speculative =
      std::make_shared<decltype(decoder{*where.target, drafter::autoregressive{chains},
                                        own->selector, text_sampler{}, verifier::rejection{}})>(
          *where.target, drafter::autoregressive{chains}, own->selector, text_sampler{},
          verifier::rejection{});
  const auto nothing = [](auto&&...) {};
  candidate out;
  out.name = std::move(name);
  out.calibrate = [=](const auto& prompts, const auto& request) {
    own->length = {};
    speculative->draft_length(longest_draft);
    own->cost = generate::calibrate(*speculative, prompts, request, 1);
    speculative->reset_stats();
  };
  out.run = [=](const std::vector<token>& prompt, const generation_options& request) {
    own->length = own->cost.policy();
    speculative->draft_length(longest_draft);
    return generate::run_requests(*speculative, {prompt}, request, 1, nothing, nothing);
  };
  out.draft = [=](const std::vector<token>& prompt, const generation_options& request,
                  std::int32_t length) {
    own->length = {};
    speculative->draft_length(length);
    generate::run_requests(*speculative, {prompt}, request, 1, nothing, nothing);
  };
  out.stats = [=] {
    const auto stats = speculative->stats();
    speculative->reset_stats();
    return stats;
  };
  return out;
}

/// Acceptance lengths of drafts that are as long for all, and what is left of the full head's.
void report_lengths(report& out, const std::string& head, std::vector<candidate>& all,
                    const std::vector<std::vector<token>>& prompts,
                    const std::vector<std::string>& names, generation_options request) {
  constexpr std::uint64_t texts = 3;  // of each prompt
  double of_full = 0.0;
  for (candidate& c : all) {
    double sum = 0.0;
    const std::string name = head + c.name + ", drafts of " + std::to_string(depths) + ": ";
    c.stats();
    for (std::size_t d = 0; d < prompts.size(); ++d) {
      for (std::uint64_t n = 0; n < texts; ++n) {
        request.seed = 100 + n;
        c.draft(prompts[d], request, depths);
      }
      const double length = c.stats().mean_acceptance_length();
      out.record(name + names[d] + ", mean acceptance length", length, "tokens");
      sum += length / static_cast<double>(prompts.size());
    }
    of_full = of_full > 0.0 ? of_full : sum;
    out.add(name + "mean acceptance length", sum, "tokens");
    out.add(name + "(length - 1) / full", (sum - 1.0) / (of_full - 1.0), "");
  }
}

void measure_generation(report& out, const materials& m, const setting& where,
                        const std::vector<std::vector<token>>& prompts,
                        const std::vector<std::string>& names) {
  constexpr int rounds = 5;
  constexpr double few_and_many[] = {0.025, 0.05, 0.10, 0.20};  // the best of them counts
  const auto view = m.router.view();
  std::vector<candidate> all;
  all.push_back(candidate_of(where, "full", selector::full{m.vocab}));
  for (const double s : few_and_many) {
    all.push_back(
        candidate_of(where, "FR-Spec" + percent(s), selector::frequency{m.ranked, m.rows(s)}));
  }
  all.push_back(candidate_of(
      where, "FR-Spec position-aware 10 %",
      selector::frequency{m.ranked, budget::position_aware{budget::fixed{m.rows(0.1)}}}));
  all.push_back(candidate_of(where, "VocabTrim 10 %", selector::frequency{m.trimmed, m.rows(0.1)}));
  for (const double s : few_and_many) {
    all.push_back(candidate_of(where, "DynaSpec fixed" + percent(s),
                               selector::clustered{m.clusters, view, rows_budget(m, s)}));
  }
  all.push_back(candidate_of(
      where, "DynaSpec position-aware 10 %",
      selector::clustered{m.clusters, view, budget::position_aware{rows_budget(m, 0.1)}}));
  all.push_back(
      candidate_of(where, "DynaSpec mass", selector::clustered{m.clusters, view, mass_budget(m)}));

  for (int t = 0; t < temperatures; ++t) {
    generation_options request;
    request.max_new_tokens = 96;
    request.temperature = static_cast<float>(t);
    request.seed = 1;
    const std::string head = "generation" + at_temperature(t) + ", ";
    report_lengths(out, head, all, prompts, names, request);
    for (candidate& c : all) { c.calibrate(prompts, request); }
    decoder alone{*where.target, drafter::none{}, selector::full{m.vocab}, text_sampler{},
                  verifier::rejection{}};
    const auto nothing = [](auto&&...) {};
    // Seconds per token: [candidate][round], and [candidate][domain].
    std::vector<double> plain;
    std::vector<std::vector<double>> by_round(all.size());
    std::vector<std::vector<double>> by_domain(all.size(), std::vector<double>(prompts.size()));
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> time(all.size());
      std::vector<double> tokens(all.size());
      generate::run of_plain;
      for (std::size_t d = 0; d < prompts.size(); ++d) {
        const generate::run p =
            generate::run_requests(alone, {prompts[d]}, request, 1, nothing, nothing);
        of_plain.time += p.time;
        of_plain.timed += p.timed;
        for (std::size_t c = 0; c < all.size(); ++c) {
          const generate::run r = all[c].run(prompts[d], request);
          time[c] += r.time;
          tokens[c] += static_cast<double>(r.timed);
          by_domain[c][d] += r.time / static_cast<double>(r.timed) / rounds;
        }
      }
      for (std::size_t c = 0; c < all.size(); ++c) { by_round[c].push_back(time[c] / tokens[c]); }
      plain.push_back(of_plain.time / static_cast<double>(of_plain.timed));
      request.seed += 1;
    }
    out.add(head + "no drafts: tokens per second", 1.0 / median(plain), "tok/s");
    std::size_t best_static = 1;
    std::size_t best_routed = 0;
    for (std::size_t c = 0; c < all.size(); ++c) {
      const auto stats = all[c].stats();
      const std::string name = head + all[c].name + ": ";
      out.add(name + "tokens per second", 1.0 / median(by_round[c]), "tok/s");
      out.add(name + "mean acceptance length", stats.mean_acceptance_length(), "tokens");
      out.add(name + "rows", stats.average_shortlist_rows(), "");
      out.add(name + "draft time", 1e6 * stats.draft_seconds / static_cast<double>(stats.drafted),
              "us/token");
      for (std::size_t d = 0; d < prompts.size(); ++d) {
        out.record(name + names[d] + ", tokens per second", 1.0 / by_domain[c][d], "tok/s");
      }
      const bool is_static = all[c].name.starts_with("FR-Spec");
      const bool is_routed = all[c].name.starts_with("DynaSpec");
      if (is_static && median(by_round[c]) < median(by_round[best_static])) { best_static = c; }
      if (is_routed && (best_routed == 0 || median(by_round[c]) < median(by_round[best_routed]))) {
        best_routed = c;
      }
    }
    out.add(head + "best DynaSpec / best FR-Spec, speed",
            median_ratio(by_round[best_static], by_round[best_routed]), "x", at_least(1.0));
    out.add(head + "best DynaSpec / full head, speed",
            median_ratio(by_round[0], by_round[best_routed]), "x", at_least(1.3));
    out.add(head + "best DynaSpec / no drafts, speed", median_ratio(plain, by_round[best_routed]),
            "x");
  }
}

/// Text of the target alone: what VocabTrim counts.
std::vector<token> own_text(engine::model& target, const engine::tokenizer& text) {
  constexpr std::int32_t batch = 16;
  constexpr std::int32_t length = 256;
  constexpr std::int32_t texts = 512;
  decoder_options sizes;
  sizes.max_batch = batch;
  decoder plain{target,         drafter::none{},       selector::full{target.vocab_size()},
                text_sampler{}, verifier::rejection{}, sizes};
  generation_options request;
  request.max_new_tokens = length;
  std::vector<token> out;
  for (std::int32_t first = 0; first < texts; first += batch) {
    request.seed = static_cast<std::uint64_t>(1000 + first);
    const auto made = generate::run_requests(
        plain, {{text.bos()}}, request, batch, [](auto&&...) {}, [](auto&&...) {});
    for (const auto& tokens : made.tokens) { out.insert(out.end(), tokens.begin(), tokens.end()); }
  }
  return out;
}

}  // namespace

void measure_quality(report& out, const fs::path& models) {
  engine::model_options options;
  options.threads = generate::default_threads();
  options.keep_features = true;
  engine::model target = engine::model::load(models / "target", options);
  const engine::tokenizer text =
      tokenizer_for(models / "target", models / "target", target.shape());
  const std::int32_t vocab = target.vocab_size();
  const token keep[] = {text.eos()};

  engine::model_options many = options;
  many.max_batch = 16;
  engine::model writer = engine::model::load(models / "target", many);
  const auto load = [&](const fs::path& folder, vocab_layout trimmed) {
    const made_for head = target.made_for();
    const vocab_layout clusters = load_layout(folder / "layout.safetensors", head);
    return materials{
        vocab, by_frequency_alone(load_layout(folder / "frequency.safetensors", head)),
        std::move(trimmed), clusters,
        router::quantised(router::weights::load(folder / "router.safetensors", clusters, head))};
  };
  const materials m = load(models, frequency_ranking(own_text(writer, text), vocab, keep));

  const std::vector<std::string> names = domains(models / "heldout");
  const std::vector<std::vector<token>> texts = domain_texts(text, models / "heldout");
  const auto along_text = [&](const std::string& drafter, auto& draft,
                              std::vector<column> columns) {
    std::vector<measured> all;
    for (const auto& tokens : texts) {
      all.push_back(measure_domain(target, draft, tokens, columns));
    }
    const measured mean = mean_of(all);
    std::printf("\n%s, %d drafts\n", drafter.c_str(), depths);
    print_domains(names, all, mean, columns);
    record_domains(out, drafter, names, all, mean, columns);
    return std::tuple{std::move(all), mean, std::move(columns)};
  };
  {
    engine::eagle_model eagle =
        engine::eagle_model::load(models / "eagle", models / "target", target, options);
    const auto [all, mean, columns] = along_text("EAGLE", eagle, columns_of(m));
    report_goals(out, all, mean, columns);
    const materials opaque = load(models / "left_out", m.trimmed);
    std::vector<column> apart = columns_of(opaque);
    const auto found = std::ranges::find(names, left_out) - names.begin();
    report_left_out(
        out, measure_domain(target, eagle, texts[static_cast<std::size_t>(found)], apart), apart);
  }
  {
    engine::model draft = engine::model::load(models / "draft", options);
    std::vector<column> columns;
    columns.push_back(plain_column("full", selector::full{vocab}));
    for (const double s : shares) {
      columns.push_back(
          plain_column("FR-Spec" + percent(s), selector::frequency{m.ranked, m.rows(s)}));
    }
    along_text("draft model", draft, std::move(columns));
  }
  measure_generation(out, m, {models, &target, options}, domain_prompts(text, models / "heldout"),
                     names);
}

}  // namespace bench::vocab
