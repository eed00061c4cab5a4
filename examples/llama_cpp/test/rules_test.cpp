// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/rejection.hpp>

#include "shipped.hpp"

// Three rules for one drafted token at temperature 1, computed on laws of the shipped pair: p is
// the target's law after a held-out text, q the draft model's. Nothing is drawn: the law e of the
// emitted token is computed, and its distance from p, sum |e - p| / 2.
//
// 1. `hunch::verifier::rejection` itself, of an x that is drawn from q: kept with probability
//    min(1, p(x) / q(x)), else replaced by one drawn from the positive part of p - q.
// 2. `examples/speculative` of llama.cpp 0.5.0 (commit 0c1e57098), one drafted sequence,
//    temperature alone in the chain of samplers, written down from its source: what it drafts is
//    the first of the candidates in descending order (`cur_p->data[is].id`; `is` is 0 for one
//    sequence), the most probable token of q; it is kept, and replaced, as in 1.
// 3. `examples/speculative-simple`: it drafts the most probable token, too, draws a token from p,
//    and goes on if that is what was drafted. What it emits has the law p by that.

namespace llama_cpp::test {
namespace {

using law = std::vector<double>;

double distance(const law& e, const law& p) {
  double sum = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) { sum += std::abs(e[i] - p[i]); }
  return sum / 2.0;
}

/// In place of chance: refuses what is drafted, and notes how probable it was to be kept, and the
/// law of what replaces it.
struct noting_source {
  double* kept;
  law* replaced;  ///< nullptr: is known

  bool bernoulli(const hunch::address&, double num, double den) const {
    *kept = num >= den ? 1.0 : num / den;
    return false;
  }
  template <hunch::Team T, class Weight>
  std::int64_t categorical(T&, const hunch::address&, std::int64_t n, Weight&& weight) const {
    if (replaced == nullptr) { return 0; }
    replaced->resize(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) { (*replaced)[static_cast<std::size_t>(i)] = weight(i); }
    const double sum = std::accumulate(replaced->begin(), replaced->end(), 0.0);
    for (double& w : *replaced) { w /= sum; }
    return 0;
  }
};
static_assert(hunch::RandomSource<noting_source>);

/// The law of the emitted token, and how often what was drafted is kept.
struct outcome {
  law emitted;
  double kept;
};

/// By hunch's verifier, which is asked about every token that may be drafted.
/// \param drafted the law of what is drafted.
outcome by_verifier(std::vector<double> p_logits, std::vector<double> q_logits,
                    const law& drafted) {
  hunch::team::serial team;
  const hunch::sampler::pipeline sampler{hunch::sampler::temperature{}};
  const auto size = static_cast<std::int32_t>(p_logits.size());
  const auto law_of_row = [&](std::vector<double>& logits) {
    return sampler(team, hunch::row_view<double>{logits.data(), size}, {}, {});
  };
  const std::array p{law_of_row(p_logits), hunch::law<double>{}};
  const std::array q{law_of_row(q_logits), hunch::law<double>{}};
  const hunch::row_range whole{0, size};
  const std::array lists{hunch::shortlist{&whole, 1, size, nullptr, nullptr}, hunch::shortlist{}};
  std::array<std::int32_t, 2> parent{-1, 0};

  outcome out{.emitted = law(drafted.size()), .kept = 0.0};
  law replaced;
  bool is_valid = true;
  for (std::int32_t x = 0; x < size; ++x) {
    const double drafts = drafted[static_cast<std::size_t>(x)];
    if (drafts == 0.0) { continue; }
    std::array<hunch::token, 2> tokens{0, x};
    const hunch::logits_view<double> view{{2, tokens.data(), parent.data(), tokens.data()},
                                          hunch::child_law::independent,
                                          {p.data()},
                                          {q.data(), lists.data()},
                                          0,
                                          1};
    std::array<std::int32_t, 2> path{};
    hunch::verdict verdict;
    verdict.path = path.data();
    double kept = 0.0;
    const noting_source source{&kept, replaced.empty() ? &replaced : nullptr};
    hunch::verifier::rejection{}(team, view, source, verdict);
    is_valid = is_valid && verdict.status == hunch::status::ok;
    out.emitted[static_cast<std::size_t>(x)] += drafts * kept;
    out.kept += drafts * kept;
  }
  REQUIRE(is_valid);
  // Behind a chain it does not depend on what was refused.
  for (std::size_t i = 0; i < replaced.size(); ++i) {
    out.emitted[i] += (1.0 - out.kept) * replaced[i];
  }
  return out;
}

std::size_t best_of(const law& q) {
  return static_cast<std::size_t>(std::max_element(q.begin(), q.end()) - q.begin());
}
law best_alone(const law& q) {
  law out(q.size());
  out[best_of(q)] = 1.0;
  return out;
}

/// Kept with probability min(1, p / q), else replaced.
outcome best_by_ratio(const law& p, const law& q) {
  const std::size_t x = best_of(q);
  outcome out{.emitted = law(p.size()), .kept = std::min(1.0, p[x] / q[x])};
  for (std::size_t i = 0; i < p.size(); ++i) { out.emitted[i] = std::max(0.0, p[i] - q[i]); }
  const double all = std::accumulate(out.emitted.begin(), out.emitted.end(), 0.0);
  for (double& e : out.emitted) { e *= (1.0 - out.kept) / all; }
  out.emitted[x] += out.kept;
  return out;
}

struct mean {
  double distance = 0.0;
  double kept = 0.0;
};

}  // namespace

TEST_CASE("a case by hand") {
  const law p{0.5, 0.25, 0.25};
  const law q{0.6, 0.3, 0.1};
  std::vector<double> p_logits(3), q_logits(3);
  for (std::size_t i = 0; i < 3; ++i) {
    p_logits[i] = std::log(p[i]);
    q_logits[i] = std::log(q[i]);
  }
  CHECK(distance(by_verifier(p_logits, q_logits, q).emitted, p) < 1e-15);
  // Kept: 5/6; else token 2, the only one with p > q.
  for (const outcome& o : {best_by_ratio(p, q), by_verifier(p_logits, q_logits, best_alone(q))}) {
    CHECK(o.kept == doctest::Approx(5.0 / 6.0));
    CHECK(o.emitted[0] == doctest::Approx(5.0 / 6.0));
    CHECK(o.emitted[1] == doctest::Approx(0.0));
    CHECK(o.emitted[2] == doctest::Approx(1.0 / 6.0));
    CHECK(distance(o.emitted, p) == doctest::Approx(1.0 / 3.0));
  }
}

TEST_CASE("laws of one drafted token on a thousand rows") {
  plain_context of_target(target());
  plain_context of_draft(draft());
  const auto vocab_size = static_cast<std::size_t>(of_target.vocab_size());
  mean drawn;
  mean by_ratio;
  double kept_by_match = 0.0;
  double between = 0.0;
  int rows = 0;
  for (const auto& text : prompts(160)) {
    const std::vector<float> p_rows = of_target.read_all(text);
    const std::vector<float> q_rows = of_draft.read_all(text);
    for (std::size_t row = 16; row < text.size(); ++row) {  // behind some context
      const float* const p_row = p_rows.data() + row * vocab_size;
      const float* const q_row = q_rows.data() + row * vocab_size;
      const std::vector<double> p_logits(p_row, p_row + vocab_size);
      const std::vector<double> q_logits(q_row, q_row + vocab_size);
      const law p = law_of(p_row, of_target.vocab_size());
      const law q = law_of(q_row, of_target.vocab_size());
      const auto add = [&p](mean& to, const outcome& o) {
        to.distance += distance(o.emitted, p);
        to.kept += o.kept;
      };
      add(drawn, by_verifier(p_logits, q_logits, q));
      const outcome best = best_by_ratio(p, q);
      add(by_ratio, best);
      between = std::max(
          between, distance(by_verifier(p_logits, q_logits, best_alone(q)).emitted, best.emitted));
      kept_by_match += p[best_of(q)];
      ++rows;
    }
  }
  for (mean* const m : {&drawn, &by_ratio}) {
    m->distance /= rows;
    m->kept /= rows;
  }
  kept_by_match /= rows;
  MESSAGE(rows << " rows");
  MESSAGE("rejection, of a drawn token: distance from the target's law "
          << drawn.distance << ", kept " << drawn.kept);
  MESSAGE("the same, of the most probable token: " << by_ratio.distance << ", kept "
                                                   << by_ratio.kept << "; by the verifier "
                                                   << between << " from it");
  MESSAGE("match with a token drawn from the target: kept " << kept_by_match);
  // The page prints these.
  CHECK(rows == 1008);
  CHECK(drawn.distance < 1e-12);
  CHECK(std::abs(drawn.kept - 0.64) < 0.01);
  CHECK(std::abs(by_ratio.distance - 0.26) < 0.01);
  CHECK(std::abs(by_ratio.kept - 0.64) < 0.01);
  CHECK(std::abs(kept_by_match - 0.42) < 0.01);
  // The two differ in what is drafted, and in nothing else.
  CHECK(between < 1e-12);
}

}  // namespace llama_cpp::test
