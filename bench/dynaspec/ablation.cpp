// SPDX-License-Identifier: Apache-2.0
#include "dynaspec/ablation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/early_contexts.hpp>
#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/arguments.hpp>
#include <generate/measure.hpp>
#include <generate/tree_shapes.hpp>
#include <hunch/hunch.hpp>

#include "dynaspec/counted.hpp"
#include "dynaspec/materials.hpp"
#include "prompts.hpp"
#include "shortlists.hpp"
#include "vocab/forced_text.hpp"

namespace bench::dynaspec {
namespace {

using namespace hunch;
namespace fs = std::filesystem;

using tree_shape = generate::dynamic_60_shape;
using eagle = engine::early_contexts<engine::eagle_model>;

constexpr std::int32_t levels = tree_shape::max_depth;
constexpr int temperatures = 2;
constexpr double allowed_rows = 0.21;  // of the vocabulary, as in the paper: 27.3k of 128k

/// The columns of the paper's ablation.
enum column { full, list_fixed, list_aware, routed_fixed, routed_aware };
constexpr std::array<const char*, 5> names{"full", "FR-Spec fixed", "FR-Spec position-aware",
                                           "DynaSpec fixed", "DynaSpec position-aware"};

/// What a column makes of the texts of a domain.
struct result {
  double length[temperatures] = {};            ///< mean acceptance length
  double rows[temperatures] = {};              ///< mean of a list, over the levels of a draft
  std::vector<double> accepted[temperatures];  ///< at each place, of trees
};
/// [column] of one domain.
using results = std::array<result, names.size()>;

/// What is left of (length - 1) with the full head.
double share(const results& of, std::size_t c, int t) {
  return (of[c].length[t] - 1.0) / (of[full].length[t] - 1.0);
}

/// The standard error of the difference of two mean acceptance lengths, from what both accept at
/// the same places.
double error_of_difference(const results& of, std::size_t a, std::size_t b, int t) {
  const std::vector<double>& first = of[a].accepted[t];
  const std::vector<double>& second = of[b].accepted[t];
  const auto n = static_cast<double>(first.size());
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double d = first[i] - second[i];
    sum += d;
    squares += d * d;
  }
  const double variance = (squares - sum * sum / n) / (n - 1.0);
  return std::sqrt(variance / n);
}

/// The same of the means over all domains.
double error_of_difference(const std::vector<results>& all, std::size_t a, std::size_t b, int t) {
  double squares = 0.0;
  for (const results& domain : all) {
    const double error = error_of_difference(domain, a, b, t);
    squares += error * error;
  }
  return std::sqrt(squares) / static_cast<double>(all.size());
}

/// Whether it is known what was accepted at each place, and so how sure a mean is.
bool has_errors(const std::vector<results>& all) { return !all[0][full].accepted[0].empty(); }

results mean_of(const std::vector<results>& all) {
  results mean;
  for (const results& domain : all) {
    for (std::size_t c = 0; c < names.size(); ++c) {
      for (int t = 0; t < temperatures; ++t) {
        mean[c].length[t] += domain[c].length[t] / static_cast<double>(all.size());
        mean[c].rows[t] += domain[c].rows[t] / static_cast<double>(all.size());
      }
    }
  }
  return mean;
}

/// Budgets of all columns: the preset's, as many clusters at every depth as have at least its rows
/// in the mean, and lists of as many rows as are allowed, so that none has fewer than routed ones.
struct budgets {
  std::int32_t clusters_aware;
  std::int32_t clusters_fixed;
  double rows;

  selector::any<> of(column c, const materials& m) const {
    switch (c) {
      case full:
        break;
      case list_fixed:
        return selector::any<>(m.most_frequent(budget::fixed{static_cast<std::int32_t>(rows)}));
      case list_aware:
        return selector::any<>(m.most_frequent(
            budget::position_aware{budget::fixed{position_aware_for(rows, levels, m.vocab())}}));
      case routed_fixed:
        return selector::any<>(m.routed(budget::fixed{clusters_fixed}));
      case routed_aware:
        return selector::any<>(m.routed(budget::position_aware{budget::fixed{clusters_aware}}));
    }
    return selector::any<>(selector::full{m.vocab()});
  }
};

std::int32_t clusters_of_preset() {
  const generate::arguments a = generate::parse({"--preset", "dynaspec-paper"});
  if (!a.budget || !a.budget->is_position_aware) {
    throw std::logic_error("the preset dynaspec-paper has no position-aware budget");
  }
  return a.budget->most;
}

/// Held-out texts, a piece of each at a time.
class pieces {
 public:
  pieces(std::vector<std::vector<token>> texts, std::size_t length, std::size_t count)
      : texts_(std::move(texts)), length_(length), count_(count) {}

  std::size_t domains() const { return texts_.size(); }
  std::size_t count() const { return count_; }
  std::span<const token> of(std::size_t domain, std::size_t piece) const {
    const std::vector<token>& all = texts_[domain];
    return std::span(all).subspan((piece + 1) * (all.size() - length_) / (count_ + 1), length_);
  }

 private:
  std::vector<std::vector<token>> texts_;
  std::size_t length_;
  std::size_t count_;
};

/// Chains along given text: expected values, and no draw.
class along_text {
 public:
  along_text(engine::model& target, eagle& draft, const std::vector<std::vector<token>>& texts)
      : target_(target), draft_(draft), pieces_(texts, prefix + roots + levels, windows) {
    for (std::size_t d = 0; d < texts.size(); ++d) { first_.push_back(laws_of(d, 0)); }
  }

  /// The mean rows of a selector's lists, along one piece of each domain.
  double rows(selector::any<> of) const {
    vocab::kept_share all;
    for (const vocab::forced_text& text : first_) { all += measured(text, of); }
    return all.mean_rows();
  }
  /// All columns at the same places.
  results of(std::size_t domain, std::vector<selector::any<>> columns) const {
    std::array<vocab::kept_share, names.size()> kept;
    for (std::size_t w = 0; w < windows; ++w) {
      const vocab::forced_text text = laws_of(domain, w);
      for (std::size_t c = 0; c < names.size(); ++c) { kept[c] += measured(text, columns[c]); }
    }
    results out;
    for (std::size_t c = 0; c < names.size(); ++c) {
      for (int t = 0; t < temperatures; ++t) {
        out[c].length[t] = kept[c].mean_length(t);
        out[c].rows[t] = kept[c].mean_rows();
      }
    }
    return out;
  }

 private:
  static constexpr int windows = 10;
  static constexpr int roots = 64;
  static constexpr int prefix = 32;

  vocab::forced_text laws_of(std::size_t domain, std::size_t window) const {
    return {target_, draft_, pieces_.of(domain, window), prefix, roots, levels};
  }
  static vocab::kept_share measured(const vocab::forced_text& text, selector::any<>& selector) {
    return vocab::measure(text, selector,
                          [&](int root, int depth) { return text.context(root, depth); });
  }

  engine::model& target_;
  eagle& draft_;
  pieces pieces_;
  std::vector<vocab::forced_text> first_;  ///< [domain]
};

/// Trees at places of given text: at each, a step of a request that begins there. Rules take the
/// noise of plain decoding, so that the target says the same to all columns.
class at_places {
 public:
  at_places(engine::model& target, eagle& draft, engine::eagle_model& head,
            std::vector<std::vector<token>> texts)
      : target_(target), draft_(draft), head_(head), pieces_(std::move(texts), prefix, places) {}

  results of(std::size_t domain, std::vector<selector::any<>> columns) {
    results out;
    for (std::size_t c = 0; c < names.size(); ++c) {
      for (int t = 0; t < temperatures; ++t) { measure(domain, columns[c], t, out[c]); }
    }
    return out;
  }

 private:
  static constexpr std::size_t places = 192;
  static constexpr std::size_t prefix = 64;

  void measure(std::size_t domain, const selector::any<>& selector, int t, result& out) {
    chosen_rows chosen;
    head_.set_head_layout(selector.layout());
    decoder trees{target_, drafter::autoregressive{draft_, tree_shape{}},
                  selector::any<>(counted{selector, chosen}),
                  sampler::pipeline{sampler::temperature{}}, verifier::coupled{}};
    generation_options request;
    request.max_new_tokens = 2 * tree_shape::max_depth;
    request.temperature = static_cast<float>(t);
    for (std::size_t place = 0; place < places; ++place) {
      request.seed = place + 1;
      const request_id id = trees.add(pieces_.of(domain, place), request);
      const std::int64_t before = trees.stats().accepted;
      trees.step();  // reads the text: nothing is drafted before the target has
      trees.step();
      trees.cancel(id);
      out.accepted[t].push_back(static_cast<double>(trees.stats().accepted - before));
    }
    out.length[t] = 1.0 + static_cast<double>(trees.stats().accepted) / static_cast<double>(places);
    out.rows[t] = chosen.mean();
  }

  engine::model& target_;
  eagle& draft_;
  engine::eagle_model& head_;
  pieces pieces_;
};

budgets equal_budgets(const along_text& texts, const materials& m) {
  budgets out{clusters_of_preset(), 1, allowed_rows * m.vocab()};
  const double wanted = texts.rows(out.of(routed_aware, m));
  std::int32_t most = m.clusters();
  while (out.clusters_fixed < most) {  // the rows grow with the clusters
    const std::int32_t middle = (out.clusters_fixed + most) / 2;
    const double rows = texts.rows(selector::any<>(m.routed(budget::fixed{middle})));
    (rows < wanted ? out.clusters_fixed = middle + 1 : most = middle);
  }
  return out;
}

void print(const std::string& what, const std::vector<std::string>& domains,
           const std::vector<results>& all, const results& mean, std::int32_t vocab) {
  for (int t = 0; t < temperatures; ++t) {
    std::printf("\n%s, T = %d: (length - 1) of the full head's, %%\n%-28s", what.c_str(), t, "");
    for (const std::string& name : domains) { std::printf(" %10s", name.c_str()); }
    std::printf(" %10s %8s %8s\n", "mean", "length", "rows");
    for (std::size_t c = 0; c < names.size(); ++c) {
      std::printf("%-28s", names[c]);
      for (const results& domain : all) { std::printf(" %10.1f", 100.0 * share(domain, c, t)); }
      std::printf(" %10.1f %8.3f %7.1f%%\n", 100.0 * share(mean, c, t), mean[c].length[t],
                  100.0 * mean[c].rows[t] / vocab);
    }
  }
  std::printf("\n");
}

void report_columns(report& out, const std::string& what, const std::vector<std::string>& domains,
                    const std::vector<results>& all, std::int32_t vocab) {
  const results mean = mean_of(all);
  print(what, domains, all, mean, vocab);
  for (int t = 0; t < temperatures; ++t) {
    const std::string head = what + at_temperature(t) + ", ";
    for (std::size_t c = 0; c < names.size(); ++c) {
      const std::string name = head + names[c] + ": ";
      for (std::size_t d = 0; d < domains.size(); ++d) {
        out.record(name + domains[d] + ", mean acceptance length", all[d][c].length[t], "tokens");
        out.record(name + domains[d] + ", (length - 1) / full", share(all[d], c, t), "");
      }
      const bool is_preset = c == routed_aware;
      out.add(name + "mean acceptance length", mean[c].length[t], "tokens");
      out.add(name + "(length - 1) / full", share(mean, c, t), "",
              is_preset && t == 0 ? std::optional(at_least(0.97)) : std::nullopt);
      out.add(name + "rows / vocabulary", mean[c].rows[t] / vocab, "",
              is_preset ? std::optional(at_most(allowed_rows)) : std::nullopt);
    }
    double worst = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < domains.size(); ++d) {
      const results& of = all[d];
      const column better =
          share(of, list_fixed, t) > share(of, list_aware, t) ? list_fixed : list_aware;
      const double ahead = share(of, routed_aware, t) - share(of, better, t);
      const std::string row = head + "DynaSpec position-aware less the better FR-Spec, ";
      out.add(row + domains[d], ahead, "");
      if (has_errors(all)) {
        out.record(row + domains[d] + ", standard error",
                   error_of_difference(of, routed_aware, better, t) / (of[full].length[t] - 1.0),
                   "");
      }
      worst = std::min(worst, ahead);
    }
    out.add(head + "DynaSpec position-aware less the better FR-Spec, worst domain", worst, "",
            at_least(0.0));
    for (const auto& [aware, fixed] :
         {std::pair{list_aware, list_fixed}, std::pair{routed_aware, routed_fixed}}) {
      const std::string row = head + names[aware] + " less fixed";
      out.add(row, share(mean, aware, t) - share(mean, fixed, t), "");
      if (has_errors(all)) {
        out.add(row + ", standard error",
                error_of_difference(all, aware, fixed, t) / (mean[full].length[t] - 1.0), "");
      }
    }
  }
}

}  // namespace

void measure_ablation(report& out, const fs::path& models) {
  engine::model_options options;
  options.threads = generate::default_threads();
  options.keep_features = true;
  engine::model target = engine::model::load(models / "target", options);
  const engine::tokenizer text =
      tokenizer_for(models / "target", models / "target", target.shape());
  engine::eagle_model head =
      engine::eagle_model::load(models / "eagle", models / "target", target, options);
  eagle draft(head);
  const materials m(models, target);
  const std::vector<std::string> domain_names = domains(models / "heldout");
  const std::vector<std::vector<token>> texts = domain_texts(text, models / "heldout");
  const auto over = [&](const std::string& what, auto& way, const budgets& equal) {
    std::vector<selector::any<>> columns;
    for (std::size_t c = 0; c < names.size(); ++c) {
      columns.push_back(equal.of(static_cast<column>(c), m));
    }
    std::vector<results> all;
    for (std::size_t d = 0; d < domain_names.size(); ++d) { all.push_back(way.of(d, columns)); }
    report_columns(out, what, domain_names, all, m.vocab());
  };
  const along_text chains(target, draft, texts);
  const budgets equal = equal_budgets(chains, m);
  std::printf("clusters: %d of %d position-aware, %d fixed; rows of FR-Spec: %.0f of %d\n\n",
              equal.clusters_aware, m.clusters(), equal.clusters_fixed, equal.rows, m.vocab());
  over("chains of " + std::to_string(levels), chains, equal);
  at_places trees(target, draft, head, texts);
  over("EAGLE-2 trees of " + std::to_string(tree_shape::total), trees, equal);
}

}  // namespace bench::dynaspec
