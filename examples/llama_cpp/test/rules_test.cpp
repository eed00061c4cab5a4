// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "shipped.hpp"

// Three rules for one drafted token at temperature 1, computed on laws of the shipped pair: p is
// the target's law after a held-out text, q the draft model's. Nothing is drawn: each rule's law of
// the emitted token is written down, and its distance from p, sum |a - p| / 2, is taken.
//
// 1. Rejection: x drawn from q, kept with probability min(1, p(x) / q(x)), else one drawn from the
//    positive part of p - q. (`hunch::verifier::rejection`)
// 2. `examples/speculative` of llama.cpp 0.5.0 (commit 0c1e57098), one drafted sequence,
// temperature
//    alone in the chain of samplers: what it drafts is the first of the candidates in descending
//    order (`cur_p->data[0]`), the most probable token of q; it is kept, and replaced, as in 1.
// 3. `examples/speculative-simple`: it drafts the most probable token, too, draws a token from p,
//    and goes on if that is what was drafted.

namespace llama_cpp::test {
namespace {

using law = std::vector<double>;

double distance(const law& a, const law& p) {
  double sum = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) { sum += std::abs(a[i] - p[i]); }
  return sum / 2.0;
}

/// The law of the emitted token, and how often what was drafted is kept.
struct outcome {
  law emitted;
  double kept;
};

/// Kept with probability min(1, p / q), else replaced. \param drafted the law of what is drafted.
outcome kept_by_ratio(const law& p, const law& q, const law& drafted) {
  outcome out{.emitted = law(p.size()), .kept = 0.0};
  law residual(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    residual[i] = std::max(0.0, p[i] - q[i]);
    out.emitted[i] = drafted[i] > 0.0 ? drafted[i] * std::min(1.0, p[i] / q[i]) : 0.0;
  }
  out.kept = std::accumulate(out.emitted.begin(), out.emitted.end(), 0.0);
  const double all = std::accumulate(residual.begin(), residual.end(), 0.0);
  for (std::size_t i = 0; i < p.size(); ++i) {
    out.emitted[i] += (1.0 - out.kept) * residual[i] / all;
  }
  return out;
}

law certain(std::size_t token, std::size_t size) {
  law out(size);
  out[token] = 1.0;
  return out;
}

outcome rejection(const law& p, const law& q) { return kept_by_ratio(p, q, q); }
outcome argmax_by_ratio(const law& p, const law& q) {
  const auto best = static_cast<std::size_t>(std::max_element(q.begin(), q.end()) - q.begin());
  return kept_by_ratio(p, q, certain(best, q.size()));
}
outcome argmax_by_match(const law& p, const law& q) {
  const auto best = static_cast<std::size_t>(std::max_element(q.begin(), q.end()) - q.begin());
  return {.emitted = p, .kept = p[best]};
}

struct mean {
  double distance = 0.0;
  double kept = 0.0;
  int rows = 0;
  void add(const outcome& o, const law& p) {
    distance += test::distance(o.emitted, p);
    kept += o.kept;
    ++rows;
  }
};

}  // namespace

TEST_CASE("a case by hand") {
  const law p{0.5, 0.25, 0.25};
  const law q{0.6, 0.3, 0.1};
  CHECK(distance(rejection(p, q).emitted, p) < 1e-15);
  const outcome o = argmax_by_ratio(p, q);  // kept: 5/6; else token 2, the only one with p > q
  CHECK(o.kept == doctest::Approx(5.0 / 6.0));
  CHECK(o.emitted[0] == doctest::Approx(5.0 / 6.0));
  CHECK(o.emitted[1] == doctest::Approx(0.0));
  CHECK(o.emitted[2] == doctest::Approx(1.0 / 6.0));
  CHECK(distance(o.emitted, p) == doctest::Approx(1.0 / 3.0));
}

TEST_CASE("laws of one drafted token on a thousand rows") {
  plain_context of_target(target());
  plain_context of_draft(draft());
  const auto vocab_size = static_cast<std::size_t>(of_target.vocab_size());
  mean by_rejection;
  mean by_ratio;
  mean by_match;
  for (const auto& text : prompts(160)) {
    const std::vector<float> p_rows = of_target.read_all(text);
    const std::vector<float> q_rows = of_draft.read_all(text);
    for (std::size_t row = 16; row < text.size(); ++row) {  // behind some context
      const law p = law_of(p_rows.data() + row * vocab_size, of_target.vocab_size());
      const law q = law_of(q_rows.data() + row * vocab_size, of_target.vocab_size());
      by_rejection.add(rejection(p, q), p);
      by_ratio.add(argmax_by_ratio(p, q), p);
      by_match.add(argmax_by_match(p, q), p);
    }
  }
  const auto report = [](const std::string& name, const mean& m) {
    MESSAGE(name << ": distance from the target's law " << m.distance / m.rows << ", kept "
                 << m.kept / m.rows << ", " << m.rows << " rows");
  };
  report("rejection, of a drawn token", by_rejection);
  report("the same, of the most probable token", by_ratio);
  report("match with a token drawn from the target", by_match);
  CHECK(by_rejection.rows > 1000);
  CHECK(by_rejection.distance / by_rejection.rows < 1e-12);
  CHECK(by_match.distance == 0.0);
  CHECK(by_ratio.distance / by_ratio.rows > 0.1);
  CHECK(by_rejection.kept > by_match.kept);
}

}  // namespace llama_cpp::test
