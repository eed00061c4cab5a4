// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <hunch/hunch.hpp>

#include "common.hpp"
#include "verify/heads.hpp"
#include "verify/rows.hpp"
#include "verify/variants.hpp"

/// \file
/// Verification and sampling on one thread, from logits to the outcome, against reading the same
/// bytes once, as compiled with -O2, -O2 -march=x86-64-v3 and -O3 -march=native. Every run finds
/// its rows in memory and not in a cache.

namespace {

using namespace hunch;
using bench::compared;
using bench::draft;
using bench::need;
using bench::operations;
using bench::read_once;
using bench::row_sets;
using bench::row_width;
using bench::scripted_words;
using bench::set_function;
using bench::vocabulary;

constexpr int rounds = 101;

volatile float sink;

shortlist everything() {
  static const row_range whole{0, vocabulary};
  return {.ranges = &whole,
          .range_count = 1,
          .size = vocabulary,
          .row_token = nullptr,
          .token_row = nullptr,
          .vocab_size = vocabulary};
}

law<float> law_of(const row_sets& sets, std::size_t set, std::size_t r) {
  return bench::native().law(sets.view(set, r));
}

/// Verification of a chain of five, against the same rule over materialised probabilities.
void chains(bench::report& out) {
  constexpr std::size_t length = 5;
  const row_sets sets(2 * length + 1);  // rows of the target, then of the draft
  for (const std::size_t accepted : {length, std::size_t(2)}) {
    const bool all = accepted == length;
    const scripted_words words{all ? ~std::uint32_t(0) : static_cast<std::uint32_t>(accepted)};
    std::vector<double> accept(length, 0.0);
    if (!all) { accept[accepted] = 1.0 - 0x1.0p-53; }
    std::vector<draft> drafts;
    for (std::size_t s = 0; s < sets.count(); ++s) {
      draft d({-1, 0, 1, 2, 3, 4}, everything());
      for (std::size_t i = 0; i < length; ++i) {
        d.q[i] = law_of(sets, s, length + 1 + i);
        team::serial team;
        d.put(i + 1, kernel::argmax(team, d.q[i]));  // unlikely for the target
      }
      for (std::size_t i = 0; i <= length; ++i) { d.rows[i].logits = sets.view(s, i); }
      drafts.push_back(std::move(d));
    }
    bench::baselines::chain_rule written = bench::all_baselines().materialised(length, vocabulary);
    bench::baselines::chain_rule naive = bench::all_baselines().naive(length, vocabulary);
    const auto chain = [&](const bench::baselines::chain_rule& rule, std::size_t s) {
      const draft& d = drafts[s];
      const bench::chain_outcome found =
          rule(sets.row(s, 0), sets.row(s, length + 1), d.tokens.data() + 1, accept.data(), 0.5);
      need(found.accepted == static_cast<std::int32_t>(accepted), "the same drafts are accepted");
    };
    const std::size_t rows = all ? length + 1 : accepted + 1;
    std::vector<set_function> candidates;
    candidates.push_back([&](std::size_t s) {
      for (std::size_t i = 0; i < rows; ++i) { read_once(sets.row(s, i), row_width); }
      if (!all) { read_once(sets.row(s, length + 1 + accepted), row_width); }
    });
    const compared ours = compared::add(candidates, [&](const operations& run) {
      return [&, verify = run.chain](std::size_t s) {
        need(verify(drafts[s], words) == static_cast<std::int32_t>(accepted),
             "drafts are accepted");
      };
    });
    candidates.push_back([&](std::size_t s) { chain(written, s); });
    candidates.push_back([&](std::size_t s) { chain(naive, s); });
    const bench::timings t = bench::time_cold(sets, rounds, candidates);
    const std::size_t last = candidates.size() - 1;
    const std::string name =
        std::string("chain of 5, ") + (all ? "all accepted" : "rejected at the third") + ": ";
    out.add(name + "stream of the rows that must be read", bench::median(t[0]) * 1e6, "us");
    out.add(name + "rejection", bench::median(t[ours.native()]) * 1e6, "us");
    ours.say(out, name + "rejection", t, 0, {bench::at_most(all ? 1.7 : 2.2)});
    out.add(name + "materialised p and q against ours",
            bench::median_ratio(t[last - 1], t[ours.native()]), "", bench::at_least(2.5));
    out.add(name + "naive scalar code against ours", bench::median_ratio(t[last], t[ours.native()]),
            "");
  }
}

/// A tree of 60 nodes: four levels of the accepted path, each node with three children of which the
/// path takes the second; the rest hangs below the others. Node i of the path is at `path[i]`.
struct tree_shape {
  std::vector<std::int32_t> parent{-1};
  std::vector<std::int32_t> path{0};

  tree_shape() {
    for (int level = 0; level < 4; ++level) {
      const std::int32_t above = path.back();
      for (int child = 0; child < 3; ++child) {
        if (child == 1) { path.push_back(static_cast<std::int32_t>(parent.size())); }
        parent.push_back(above);
      }
    }
    std::int32_t side = 1;  // the first child of the root, and so on
    while (parent.size() < 60) {
      const bool on_path = std::find(path.begin(), path.end(), side) != path.end();
      if (!on_path) { parent.insert(parent.end(), 2, side); }
      ++side;
    }
  }
};

void trees(bench::report& out) {
  const tree_shape shape;
  const std::size_t depth = shape.path.size() - 1;
  const row_sets sets(2 * depth + 1);
  const scripted_words words{~std::uint32_t(0), 1};
  const random_source<scripted_words> random{words};
  std::vector<draft> ranked, drawn;
  for (std::size_t s = 0; s < sets.count(); ++s) {
    draft d(shape.parent, everything());
    // Rows that no rule asks for are never read; they need no memory of their own.
    for (auto& row : d.rows) { row.logits = sets.view(s, 0); }
    draft e = d;
    for (std::size_t i = 0; i <= depth; ++i) {
      const auto node = static_cast<std::size_t>(shape.path[i]);
      d.rows[node].logits = e.rows[node].logits = sets.view(s, i);
      if (i == depth) { break; }
      const auto first = static_cast<std::size_t>(shape.path[i + 1]) - 1;
      // A point mass accepts the token that the target's law draws there.
      // The rule draws by the sums that its team remembers of the law; so is it done here.
      team::serial team;
      const law<float> p = sampler::pipeline{sampler::temperature{}}(team, sets.view(s, i), {}, {});
      const std::int64_t y = random.categorical(team,
                                                {.seed = 7,
                                                 .length = 100,
                                                 .node = static_cast<std::uint32_t>(node),
                                                 .sibling = 0,
                                                 .what = purpose::bonus},
                                                vocabulary, weights_of{p});
      for (std::size_t child = 0; child < 3; ++child) {
        d.put(first + child,
              static_cast<token>((y + static_cast<std::int64_t>(child) + vocabulary - 1) %
                                 vocabulary));
      }
      // Drawn from q without replacement: its favourite is refused; the favourite of p is accepted.
      e.q[node] = law_of(sets, s, depth + 1 + i);
      e.put(first, kernel::argmax(team, e.q[node]));
      e.put(first + 1, kernel::argmax(team, p));
      e.put(first + 2, static_cast<token>((e.tokens[first] + 1) % vocabulary));
    }
    ranked.push_back(std::move(d));
    drawn.push_back(std::move(e));
  }
  const auto reader = [&sets](std::size_t rows) {
    return [&sets, rows](std::size_t s) {
      for (std::size_t i = 0; i < rows; ++i) { read_once(sets.row(s, i), row_width); }
    };
  };
  const auto verifier = [depth, &words](std::vector<draft>& drafts, auto verify) {
    return [depth, &words, &drafts, verify](std::size_t s) {
      need(verify(drafts[s], words) == static_cast<std::int32_t>(depth), "the path is accepted");
    };
  };
  std::vector<set_function> candidates;
  candidates.push_back(reader(depth + 1));
  const compared point_mass = compared::add(
      candidates, [&](const operations& run) { return verifier(ranked, run.ranked_tree); });
  const std::size_t both = candidates.size();
  candidates.push_back(reader(2 * depth + 1));
  const compared rejection = compared::add(
      candidates, [&](const operations& run) { return verifier(drawn, run.drawn_tree); });
  const bench::timings t = bench::time_cold(sets, rounds, candidates);
  const std::string name = "tree of 60 nodes, T = 1: ";
  out.add(name + "stream of the rows on the path", bench::median(t[0]) * 1e6, "us");
  point_mass.say(out, name + "point mass", t, 0, {bench::at_most(2.2)});
  out.add(name + "stream of these and the draft's rows", bench::median(t[both]) * 1e6, "us");
  rejection.say(out, name + "rejection, one refused sibling each", t, both, {bench::at_most(2.2)});
}

/// The five numbers of a law.
std::array<std::uint32_t, 5> bits(const law<float>& l) {
  return {std::bit_cast<std::uint32_t>(l.scale), std::bit_cast<std::uint32_t>(l.maximum),
          std::bit_cast<std::uint32_t>(l.norm), std::bit_cast<std::uint32_t>(l.threshold),
          static_cast<std::uint32_t>(l.last_kept)};
}

/// An operation on one row, and what is said of it.
struct row_operation {
  std::string name;
  std::function<law<float>(const operations&, row_view<float>)> make;
  std::optional<bench::goal> most;
};

/// Each of them with every set of flags, on rows of its own.
void measure_rows(bench::report& out, const std::string& what, const row_sets& sets,
                  const std::vector<row_operation>& all) {
  for (const row_operation& o : all) {
    std::vector<float> row;
    for (const bench::variant& v : bench::variants()) {
      if (v.run == nullptr) { continue; }
      const auto found = [&](const operations& run) {
        row.assign(sets.row(0, 0), sets.row(0, 0) + row_width);
        return bits(o.make(run, {row.data(), vocabulary}));
      };
      need(found(*v.run) == found(bench::native()), o.name + ": depends on the flags");
    }
  }
  std::vector<set_function> candidates;
  candidates.push_back([&](std::size_t s) { read_once(sets.row(s, 0), row_width); });
  std::vector<compared> ours;
  for (const row_operation& o : all) {
    ours.push_back(compared::add(candidates, [&](const operations& run) {
      return [&sets, &run, &o](std::size_t s) { sink = o.make(run, sets.view(s, 0)).norm; };
    }));
  }
  // No row is used twice, for some are edited.
  const int unused = static_cast<int>(sets.count() / candidates.size()) - 1;
  const bench::timings t = bench::time_cold(sets, std::min(rounds, unused), candidates);
  out.add(what + ": stream", bench::median(t[0]) * 1e6, "us");
  for (std::size_t i = 0; i < all.size(); ++i) {
    ours[i].say(out, what + ": " + all[i].name, t, 0, {all[i].most});
  }
}

/// Operations on one row, from its logits.
void single_rows(bench::report& out) {
  std::vector<token> text;
  std::mt19937 dice(3);
  for (int i = 0; i < 512; ++i) { text.push_back(static_cast<token>(dice() % vocabulary)); }
  counted_text census(vocabulary, text, 512);
  for (int i = 0; i < 512; ++i) { census.emit(static_cast<token>(dice() % vocabulary)); }
  std::vector<std::uint32_t> allowed(row_width / 32);
  for (std::uint32_t& word : allowed) { word = static_cast<std::uint32_t>(dice() | dice()); }
  sampling_parameters with;
  with.repetition_penalty = 1.1f;
  with.frequency_penalty = 0.2f;
  with.constrained = true;
  row_history history;
  history.committed = text.data();
  history.length = static_cast<std::int32_t>(text.size());
  history.counts = census.view();
  history.allowed = allowed.data();

  const auto top_p = [](float p) {
    return [p](const operations& run, row_view<float> row) { return run.top_p(row, p); };
  };
  // A draw has no law of its own to show; its token stands for the norm.
  const auto coupled = [](const operations& run, row_view<float> row) {
    law<float> drawn;
    drawn.norm = static_cast<float>(run.coupled(row, 11));
    return drawn;
  };
  measure_rows(out, "one row", row_sets(1),
               {{"law", [](const operations& run, row_view<float> row) { return run.law(row); },
                 bench::at_most(1.4)},
                {"coupled, from logits to the token", coupled, bench::at_most(3.0)},
                {"top-k, k = 50",
                 [](const operations& run, row_view<float> row) { return run.top_k(row, 50); },
                 bench::at_most(4.0)},
                {"top-p, p = 0.9", top_p(0.9f), bench::at_most(4.0)},
                {"top-p, p = 0.999, in the tail", top_p(0.999f), std::nullopt},
                {"law with penalties and a mask",
                 [&](const operations& run, row_view<float> row) {
                   return run.all_stages(row, with, history);
                 },
                 bench::at_most(3.0)}});
  measure_rows(
      out, "a flat row", row_sets(1, bench::shape::flat, 512),
      {{"top-p threshold, p = 0.999",
        [](const operations& run, row_view<float> row) { return run.top_p_cut(row, 0.999f); },
        bench::at_most(6.0)},
       {"top-p, p = 0.999", top_p(0.999f), std::nullopt}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run("verify", argc, argv, [](bench::report& out) {
    single_rows(out);
    chains(out);
    trees(out);
    bench::measure_heads(out);
  });
}
