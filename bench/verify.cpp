// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <hunch/hunch.hpp>

#include "common.hpp"
#include "materialised.hpp"
#include "read_once.hpp"

/// \file
/// Verification and sampling on one thread, from logits to the outcome, against reading the same
/// bytes once. Every run finds its rows in memory and not in a cache.

namespace {

using namespace hunch;

constexpr std::int32_t vocab = 128256;
constexpr std::size_t width = vocab;
constexpr int rounds = 31;

using sampler_type =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

void need(bool holds, const char* what) {
  if (holds) { return; }
  std::fprintf(stderr, "the bench is wrong: %s\n", what);
  std::exit(1);
}

volatile float sink;

void read_once(const float* first, std::size_t n) { sink = bench::read_once(first, n); }

/// Rows of logits like those of a language model, a few likely tokens before a long tail, in sets
/// of `rows_per_set`. There are more of them than a last-level cache holds, and no set is used
/// twice.
class row_sets {
 public:
  explicit row_sets(std::size_t rows_per_set)
      : rows_(rows_per_set),
        sets_(pool_rows / rows_per_set),
        values_(new float[pool_rows * width]) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    // Each row is a window of one long stretch of noise, with likely tokens of its own.
    std::vector<float> noise(width + pool_rows * 61);
    for (float& x : noise) { x = 1.8f * normal(random); }
    for (std::size_t r = 0; r < pool_rows; ++r) {
      std::copy_n(noise.data() + r * 61, width, values_.get() + r * width);
      for (int rank = 0; rank < 200; ++rank) {
        values_[r * width + random() % width] =
            18.0f - 2.0f * std::log(1.0f + static_cast<float>(rank));
      }
    }
  }

  std::size_t count() const { return sets_; }
  float* row(std::size_t set, std::size_t row) const {
    return values_.get() + ((set % sets_) * rows_ + row) * width;
  }

 private:
  static constexpr std::size_t pool_rows = 2048;

  std::size_t rows_;
  std::size_t sets_;
  std::unique_ptr<float[]> values_;
};

/// Times functions of a set; each takes sets of its own, so that none finds what another has read.
bench::timings time_cold(const row_sets& sets,
                         const std::vector<std::function<void(std::size_t)>>& of_set) {
  const std::size_t each = sets.count() / of_set.size();
  std::vector<std::function<void()>> candidates;
  for (std::size_t c = 0; c < of_set.size(); ++c) {
    candidates.push_back(
        [&of_set, c, each, run = std::size_t(0)]() mutable { of_set[c](c * each + run++ % each); });
  }
  return bench::interleave(std::min<int>(rounds, static_cast<int>(each) - 1),
                           bench::memory::as_left, candidates);
}

law<float> law_of(float* row) {
  team::serial team;
  return sampler_type{}(team, row_view<float>{row, vocab}, {}, {});
}

/// Uniforms that accept every drafted token but the first `refused` children of each node, or but
/// the child of one node.
struct scripted_words {
  std::uint32_t refused_node = ~std::uint32_t(0);
  std::uint32_t refused_siblings = 0;

  std::uint64_t operator()(const address& a) const {
    if (a.what != purpose::accept) { return philox{}(a); }
    const bool refuse = a.node == refused_node || a.sibling < refused_siblings;
    return refuse ? ~std::uint64_t(0) : 0;
  }
};

/// A draft of one sequence: the arrays that an engine would hold.
struct draft {
  std::vector<token> tokens;
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> drawn_at;
  std::vector<law<float>> q;
  std::vector<shortlist> lists;
  std::vector<target_row<float>> rows;
  std::vector<law<float>> p;
  std::vector<std::int32_t> path;
  std::vector<double> scratch;

  explicit draft(std::vector<std::int32_t> parents)
      : tokens(parents.size()),
        parent(std::move(parents)),
        drawn_at(tokens.size()),
        q(tokens.size()),
        lists(tokens.size(), everything()),
        rows(tokens.size()),
        p(tokens.size()),
        path(tokens.size()),
        scratch(tokens.size()) {}

  static shortlist everything() {
    static const row_range whole{0, vocab};
    return {&whole, 1, vocab, nullptr, nullptr, vocab};
  }

  void put(std::size_t node, token t) { tokens[node] = drawn_at[node] = t; }

  /// From logits to the verdict; every law is made anew.
  template <class V, class Random>
  verdict verify(const V& verifier, const Random& random, child_law children) {
    std::fill(p.begin(), p.end(), law<float>{});
    using laws = sampled_laws<float, sampler_type>;
    const verify_view<laws, stored_drafts<law<float>>> view{
        {static_cast<std::int32_t>(tokens.size()), tokens.data(), parent.data(), drawn_at.data()},
        children,
        {rows.data(), p.data(), {}},
        {q.data(), lists.data()},
        7,
        100,
        scratch.data()};
    verdict out;
    out.path = path.data();
    team::serial team;
    verifier(team, view, random, out);
    return out;
  }
};

/// Verification of a chain of five, against the same rule over materialised probabilities.
void chains(bench::report& out) {
  constexpr std::size_t length = 5;
  const row_sets sets(2 * length + 1);  // rows of the target, then of the draft
  for (const std::size_t accepted : {length, std::size_t(2)}) {
    const bool all = accepted == length;
    const random_source<scripted_words> random{
        {all ? ~std::uint32_t(0) : static_cast<std::uint32_t>(accepted)}};
    std::vector<double> accept(length, 0.0);
    if (!all) { accept[accepted] = 1.0 - 0x1.0p-53; }
    std::vector<draft> drafts;
    for (std::size_t s = 0; s < sets.count(); ++s) {
      draft d({-1, 0, 1, 2, 3, 4});
      for (std::size_t i = 0; i < length; ++i) {
        d.q[i] = law_of(sets.row(s, length + 1 + i));
        team::serial team;
        d.put(i + 1, kernel::argmax(team, d.q[i]));  // unlikely for the target
      }
      for (std::size_t i = 0; i <= length; ++i) { d.rows[i].logits = {sets.row(s, i), vocab}; }
      drafts.push_back(std::move(d));
    }
    bench::materialised_chain written(length, vocab);
    const bench::naive_chain naive(length, vocab);
    const auto chain = [&](auto& rule, std::size_t s) {
      const draft& d = drafts[s];
      const bench::chain_outcome found =
          rule(sets.row(s, 0), sets.row(s, length + 1), d.tokens.data() + 1, accept.data(), 0.5);
      need(found.accepted == static_cast<std::int32_t>(accepted), "the same drafts are accepted");
    };
    const std::size_t rows = all ? length + 1 : accepted + 1;
    const bench::timings t = time_cold(
        sets, {[&](std::size_t s) {
                 for (std::size_t i = 0; i < rows; ++i) { read_once(sets.row(s, i), width); }
                 if (!all) { read_once(sets.row(s, length + 1 + accepted), width); }
               },
               [&](std::size_t s) {
                 const verdict v =
                     drafts[s].verify(verifier::rejection{}, random, child_law::independent);
                 need(v.accepted == static_cast<std::int32_t>(accepted), "drafts are accepted");
               },
               [&](std::size_t s) { chain(written, s); }, [&](std::size_t s) { chain(naive, s); }});
    const std::string name =
        std::string("chain of 5, ") + (all ? "all accepted" : "rejected at the third") + ": ";
    out.add(name + "stream of the rows that must be read", bench::median(t[0]) * 1e6, "us");
    out.add(name + "rejection", bench::median(t[1]) * 1e6, "us");
    out.add(name + "rejection against the stream", bench::median_ratio(t[1], t[0]), "",
            bench::at_most(2.2));
    out.add(name + "materialised p and q against ours", bench::median_ratio(t[2], t[1]), "",
            bench::at_least(2.5));
    out.add(name + "naive scalar code against ours", bench::median_ratio(t[3], t[1]), "");
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
  const random_source<scripted_words> random{{~std::uint32_t(0), 1}};
  std::vector<draft> ranked, drawn;
  for (std::size_t s = 0; s < sets.count(); ++s) {
    draft d(shape.parent);
    // Rows that no rule asks for are never read; they need no memory of their own.
    for (auto& row : d.rows) { row.logits = {sets.row(s, 0), vocab}; }
    draft e = d;
    for (std::size_t i = 0; i <= depth; ++i) {
      const auto node = static_cast<std::size_t>(shape.path[i]);
      d.rows[node].logits = e.rows[node].logits = {sets.row(s, i), vocab};
      if (i == depth) { break; }
      const auto first = static_cast<std::size_t>(shape.path[i + 1]) - 1;
      // A point mass accepts the token that the target's law draws there.
      const law<float> p = law_of(sets.row(s, i));
      team::serial team;
      const std::int64_t y =
          random.categorical(team, {7, 100, static_cast<std::uint32_t>(node), 0, purpose::bonus},
                             vocab, [&](std::int64_t v) { return p.weight(v); });
      for (std::size_t child = 0; child < 3; ++child) {
        d.put(first + child,
              static_cast<token>((y + static_cast<std::int64_t>(child) + vocab - 1) % vocab));
      }
      // Drawn from q without replacement: its favourite is refused; the favourite of p is accepted.
      e.q[node] = law_of(sets.row(s, depth + 1 + i));
      e.put(first, kernel::argmax(team, e.q[node]));
      e.put(first + 1, kernel::argmax(team, p));
      e.put(first + 2, static_cast<token>((e.tokens[first] + 1) % vocab));
    }
    ranked.push_back(std::move(d));
    drawn.push_back(std::move(e));
  }
  const bench::timings t = time_cold(
      sets, {[&](std::size_t s) {
               for (std::size_t i = 0; i <= depth; ++i) { read_once(sets.row(s, i), width); }
             },
             [&](std::size_t s) {
               const verdict v =
                   ranked[s].verify(verifier::point_mass{}, random, child_law::ranked);
               need(v.accepted == static_cast<std::int32_t>(depth), "the path is accepted");
             },
             [&](std::size_t s) {
               for (std::size_t i = 0; i < 2 * depth + 1; ++i) { read_once(sets.row(s, i), width); }
             },
             [&](std::size_t s) {
               const verdict v =
                   drawn[s].verify(verifier::rejection{}, random, child_law::without_replacement);
               need(v.accepted == static_cast<std::int32_t>(depth), "the path is accepted");
             }});
  const std::string name = "tree of 60 nodes, T = 1: ";
  out.add(name + "stream of the rows on the path", bench::median(t[0]) * 1e6, "us");
  out.add(name + "point mass against the stream", bench::median_ratio(t[1], t[0]), "",
          bench::at_most(2.2));
  out.add(name + "stream of these and the draft's rows", bench::median(t[2]) * 1e6, "us");
  out.add(name + "rejection, one refused sibling each, against it", bench::median_ratio(t[3], t[2]),
          "", bench::at_most(2.2));
}

/// Operations on one row.
void single_rows(bench::report& out) {
  const row_sets sets(1);
  team::serial team;
  const auto row = [&](std::size_t s) { return row_view<float>{sets.row(s, 0), vocab}; };
  const auto cut = [&](std::size_t s, auto&& restrict_to) {
    law<float> l = kernel::whole_row(team, row_view<const float>{sets.row(s, 0), vocab});
    restrict_to(l);
    sink = l.threshold;
  };
  const sampler::pipeline temperature{sampler::temperature{}};
  const random_source<> random;

  std::vector<token> text;
  std::mt19937 dice(3);
  for (int i = 0; i < 512; ++i) { text.push_back(static_cast<token>(dice() % vocab)); }
  token_census census(vocab, text, 512);
  for (int i = 0; i < 512; ++i) { census.emit(static_cast<token>(dice() % vocab)); }
  std::vector<std::uint32_t> allowed(width / 32);
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

  std::uint64_t seed = 0;
  const bench::timings t = time_cold(
      sets,
      {[&](std::size_t s) { read_once(sets.row(s, 0), width); },
       [&](std::size_t s) {
         const law<float> l = temperature(team, row(s), {}, {});
         sink = static_cast<float>(random.noisy_argmax(team, noise_address(++seed, 5), l));
       },
       [&](std::size_t s) { cut(s, [&](law<float>& l) { kernel::keep_top_k(team, l, 50); }); },
       [&](std::size_t s) { cut(s, [&](law<float>& l) { kernel::keep_top_p(team, l, 0.9f); }); },
       [&](std::size_t s) { cut(s, [&](law<float>& l) { kernel::keep_top_p(team, l, 0.999f); }); },
       [&](std::size_t s) { sink = sampler_type{}(team, row(s), with, history).norm; },
       [&](std::size_t s) { sink = temperature(team, row(s), {}, {}).norm; }});
  const auto add = [&](const char* name, std::size_t c, double most) {
    out.add(std::string("one row: ") + name + " against the stream",
            bench::median_ratio(t[c], t[0]), "", bench::at_most(most));
  };
  out.add("one row: stream", bench::median(t[0]) * 1e6, "us");
  out.add("one row: law against the stream", bench::median_ratio(t[6], t[0]), "");
  add("coupled, from logits to the token,", 1, 3.0);
  add("top-k threshold, k = 50,", 2, 4.0);
  add("top-p threshold, p = 0.9,", 3, 4.0);
  out.add("one row: top-p threshold, p = 0.999, in the tail, against the stream",
          bench::median_ratio(t[4], t[0]), "");
  add("law with penalties and a mask", 5, 3.0);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run("verify", argc, argv, [](bench::report& out) {
    single_rows(out);
    chains(out);
    trees(out);
  });
}
