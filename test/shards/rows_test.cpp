// SPDX-License-Identifier: Apache-2.0
// What is computed of a row that is divided among ranks has the bits of one rank that has it all.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/distribution/detail/rank_of.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/distribution/race_source.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/distribution/residual.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include "on_ranks.hpp"

namespace hunch::test::shard_rows_test {
namespace {

using every_stage =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

/// What differs between rows.
struct question {
  std::string name;
  sampling_parameters parameters;
  bool masked = false;
  bool penalised = false;
};

template <class Real>
struct problem {
  std::int32_t vocab = 0;
  std::vector<std::vector<Real>> rows;     ///< the target's
  std::vector<std::vector<Real>> drafted;  ///< one for each, whole on all ranks
  std::vector<question> asked;             ///< one for each
  std::vector<std::uint32_t> mask;
  std::vector<token> history{0, 5, 17, 5};
  std::vector<std::int32_t> places;
  std::vector<logit_bias> bias;
  token_counts counts;
  std::vector<token> seen{0, 5, 17};
  std::vector<std::int32_t> emitted{0, 2, 1};
};

/// The bits of what a body has found, in order.
struct findings {
  std::vector<std::uint64_t> words;

  template <class T>
  void note(const T& value) {
    std::uint64_t word = 0;
    static_assert(sizeof(T) <= 8);
    std::memcpy(&word, &value, sizeof(T));
    words.push_back(word);
  }
};

template <class Real>
struct look_at_row {
  static constexpr bool spans_ranks = true;
  const problem<Real>* of;
  held_rows<Real>* rows;
  std::vector<findings>* to;

  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    using real = real_of<Real>;
    const auto at = static_cast<std::size_t>(index);
    const question& q = of->asked[at];
    findings& found = (*to)[at];
    row_history history;
    history.committed = of->history.data();
    history.length = static_cast<std::int32_t>(of->history.size());
    if (q.masked) { history.allowed = of->mask.data(); }
    if (q.penalised) { history.counts = of->counts; }
    const law<Real> l = every_stage{}(team, (*rows)[index], q.parameters, history);
    found.note(l.status);
    if (l.status != status::ok) { return; }
    found.note(l.scale);
    found.note(l.maximum);
    found.note(l.norm);
    found.note(l.threshold);
    found.note(l.last_kept);
    const random_source<> random;
    const race_source<> races;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const address a{.seed = 7 + k, .length = k, .what = purpose::bonus};
      found.note(random.categorical(team, a, l.size(), weights_of<law<Real>>{l}));
      found.note(races.categorical(team, a, l.size(), weights_of<law<Real>>{l}));
      found.note(random.noisy_argmax(team, noise_address(k, k), l));
    }
    found.note(kernel::entropy(team, l));
    found.note(kernel::argmax(team, l));
    found.note(kernel::rank_of(team, l, of->vocab / 2));
    // The residual after the draft's law, over the whole vocabulary.
    law<Real> d;
    d.logits = {of->drafted[at].data(), of->vocab};
    d.maximum = to_real(of->drafted[at][0]);
    for (const Real x : of->drafted[at]) { d.maximum = std::max(d.maximum, to_real(x)); }
    d.scale = kernel::scale_at_one<real>;
    double sum = 0.0;
    for (std::int32_t v = 0; v < of->vocab; ++v) { sum += static_cast<double>(d.weight(v)); }
    d.norm = static_cast<real>(1.0 / sum);
    shortlist everything;
    row_range all{0, of->vocab};
    everything.ranges = &all;
    everything.range_count = 1;
    everything.size = of->vocab;
    everything.vocab_size = of->vocab;
    kernel::with_residual(l, d, everything, real(1), real(1), [&](const auto& weight) {
      found.note(team.sum(l.size(), weight));
      for (std::uint32_t k = 0; k < 3; ++k) {
        const address a{.seed = 70 + k, .what = purpose::residual};
        found.note(random.categorical(team, a, l.size(), weight));
      }
      kernel::token_set removed(team);
      removed.add(team, of->vocab / 3);
      const team::two_sums both =
          team.sum_both(l.size(), kernel::residual_and_remainder{weight, removed});
      found.note(both.first);
      found.note(both.second);
    });
    token_log_probability reported[4];
    kernel::report_log_probabilities<Real>::of(
        team, {.drawn_from = &l, .chosen = kernel::argmax(team, l), .top = 3, .result = reported});
    for (const token_log_probability& r : reported) {
      found.note(r.t);
      found.note(r.log_probability);
    }
  }
};

template <class Real>
problem<Real> make(std::int32_t vocab, std::uint32_t seed) {
  problem<Real> p;
  p.vocab = vocab;
  p.mask.assign(static_cast<std::size_t>(vocab + 31) / 32, 0xA5F00FFFu);
  p.places.assign(static_cast<std::size_t>(vocab), -1);
  for (std::size_t k = 0; k < p.seen.size(); ++k) {
    p.places[static_cast<std::size_t>(p.seen[k])] = static_cast<std::int32_t>(k);
  }
  p.counts = {3, p.seen.data(), p.emitted.data(), p.places.data()};
  p.bias = {{vocab - 1, 3.0f}, {1, -2.0f}, {vocab / 2, 1.5f}};
  std::mt19937 generator(seed);
  const auto add = [&](question q, double spread, bool ties) {
    std::normal_distribution<double> normal(0.0, spread);
    std::vector<Real> row, drafted;
    for (std::int32_t v = 0; v < vocab; ++v) {
      const double x = normal(generator);
      row.push_back(to_logit<Real>(static_cast<real_of<Real>>(ties ? std::round(x * 2) / 2 : x)));
      drafted.push_back(
          to_logit<Real>(static_cast<real_of<Real>>(x + 0.3 * normal(generator) / spread)));
    }
    p.rows.push_back(row);
    p.drafted.push_back(drafted);
    p.asked.push_back(q);
  };
  sampling_parameters plain;
  add({"plain", plain}, 3.0, false);
  add({"wide", plain}, 12.0, false);
  sampling_parameters cold = plain;
  cold.temperature = 0.0f;
  add({"greedy", cold}, 2.0, true);
  sampling_parameters k = plain;
  k.top_k = 40;
  add({"top k", k}, 3.0, false);
  k.top_k = 3000;
  add({"top k through ties", k}, 1.0, true);
  // Few elements near the largest: more of them equal, on each rank, than are kept; just as many
  // as are kept, and on one rank only, where the others have nothing.
  k.top_k = 40;
  add({"top k among few ties", k}, 1.0, false);
  for (std::size_t v = 0; v < p.rows.back().size(); v += 7) {
    p.rows.back()[v] = to_logit<Real>(static_cast<real_of<Real>>(v % 35 == 0 ? 20.0 : 21.0));
    if (v > 7 * 400) { v += 210; }
  }
  add({"top k, just as many on one rank", k}, 1.0, false);
  for (std::size_t v = 0; v < p.rows.back().size(); ++v) {
    const double x = v < 40 ? 90.0 + static_cast<double>(v) / 4 : -static_cast<double>(v % 64);
    p.rows.back()[v] = to_logit<Real>(v < 1000 ? static_cast<real_of<Real>>(x)
                                               : -std::numeric_limits<real_of<Real>>::infinity());
  }
  sampling_parameters nucleus = plain;
  nucleus.top_p = 0.9f;
  nucleus.temperature = 0.7f;
  add({"top p", nucleus}, 3.0, false);
  add({"top p of a flat row", nucleus}, 0.2, false);
  add({"top p through ties", nucleus}, 0.7, true);
  sampling_parameters all = plain;
  all.min_p = 0.02f;
  all.top_p = 0.95f;
  all.top_k = 200;
  all.repetition_penalty = 1.3f;
  all.frequency_penalty = 0.2f;
  all.bias = p.bias.data();
  all.bias_count = static_cast<std::int32_t>(p.bias.size());
  add({"all", all, true, true}, 3.0, false);
  // A bad row in the last tile, and one of nothing.
  add({"no number", plain}, 3.0, false);
  p.rows.back().back() = to_logit<Real>(std::numeric_limits<real_of<Real>>::quiet_NaN());
  add({"nothing", plain}, 3.0, false);
  for (Real& x : p.rows.back()) {
    x = to_logit<Real>(-std::numeric_limits<real_of<Real>>::infinity());
  }
  return p;
}

template <class Real>
void compare(std::int32_t vocab, const std::vector<shard_bounds>& divisions) {
  problem<Real> p = make<Real>(vocab, static_cast<std::uint32_t>(vocab));
  const auto count = static_cast<std::int32_t>(p.rows.size());
  std::vector<findings> expected(p.rows.size());
  {
    executor::host host;
    collective::none alone;
    const vocab_shards whole(alone, 0, vocab, vocab);
    held_rows<Real> rows(p.rows, whole);
    host.launch(count, look_at_row<Real>{&p, &rows, &expected});
  }
  for (const shard_bounds& bounds : divisions) {
    const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
    CAPTURE(vocab);
    CAPTURE(ranks);
    std::vector<std::vector<findings>> found(static_cast<std::size_t>(ranks));
    const rank_ends ends = on_ranks(ranks, [&](auto& c) {
      const vocab_shards shards = shards_of(c, bounds);
      executor::sharded executor(c, shards);
      held_rows<Real> rows(p.rows, shards);
      auto& mine = found[static_cast<std::size_t>(c.rank())];
      mine.resize(p.rows.size());
      executor.launch(count, look_at_row<Real>{&p, &rows, &mine});
    });
    for (const std::string& what : ends.what) { CHECK(what == ""); }
    for (std::size_t r = 0; r < found.size(); ++r) {
      CAPTURE(r);
      for (std::size_t i = 0; i < p.rows.size(); ++i) {
        CAPTURE(p.asked[i].name);
        CHECK(found[r][i].words == expected[i].words);
      }
    }
  }
}

/// Bounds of so many equal shards, which end where they end.
shard_bounds equal_shards(std::int32_t vocab, std::int32_t ranks) {
  shard_bounds bounds;
  for (std::int64_t r = 0; r <= ranks; ++r) {
    bounds.push_back(static_cast<std::int32_t>(r * vocab / ranks));
  }
  return bounds;
}

}  // namespace

TEST_CASE("rows of every size have the bits of one rank, whatever the shards") {
  SUBCASE("three tiles") {
    compare<float>(9000, {equal_shards(9000, 1),
                          {0, 4096, 9000},
                          {0, 8192, 9000},
                          {0, 1, 9000},
                          {0, 0, 0, 9000},
                          {0, 100, 200, 8999, 9000},
                          equal_shards(9000, 7)});
  }
  SUBCASE("a published vocabulary") {
    const std::int32_t v = 128256;
    compare<float>(v, {equal_shards(v, 1), equal_shards(v, 2), equal_shards(v, 3),
                       equal_shards(v, 4), equal_shards(v, 7)});
  }
  SUBCASE("groups of several tiles") {
    const std::int32_t v = 600000;
    compare<float>(v, {equal_shards(v, 2), equal_shards(v, 3)});
  }
  SUBCASE("16 bits") { compare<bfloat16>(20000, {equal_shards(20000, 2), equal_shards(20000, 3)}); }
  SUBCASE("double") { compare<double>(20000, {equal_shards(20000, 2), equal_shards(20000, 5)}); }
}

}  // namespace hunch::test::shard_rows_test
