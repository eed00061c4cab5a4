// SPDX-License-Identifier: Apache-2.0

// The planner on the formulas and published numbers, and the small parts by themselves.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/statistics.hpp>
#include <hunch/decoder/stop.hpp>
#include <hunch/length/planner.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tools/frequency_ranking.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

double rounded(double x) { return std::round(100.0 * x) / 100.0; }

TEST_CASE("the planner's formulas against a simulation of the definition") {
  // Tokens per step: drafts are accepted one by one with probability alpha until the first failure,
  // and one token more is always emitted.
  for (const double alpha : {0.0, 0.3, 0.8, 0.99, 1.0}) {
    for (std::int32_t gamma = 0; gamma <= 12; ++gamma) {
      double expected = 1.0;
      double alive = 1.0;
      for (std::int32_t i = 0; i < gamma; ++i) { expected += alive *= alpha; }
      CHECK(planner::expected_tokens(alpha, gamma) == doctest::Approx(expected).epsilon(1e-12));
      CHECK(planner::walltime_gain(alpha, gamma, 0.1) ==
            doctest::Approx(expected / (1.0 + 0.1 * gamma)).epsilon(1e-12));
    }
  }
}

TEST_CASE("worked cases") {
  CHECK(rounded(planner::expected_tokens(0.8, 5)) == 3.69);
  CHECK(rounded(planner::walltime_gain(0.8, 5, 0.05)) == 2.95);
  CHECK(rounded(planner::walltime_gain(0.65, 5, 0.0)) ==
        2.64);  // the ceiling of CNNDM, small, T = 0
}

TEST_CASE("the published table beside its ceiling") {
  struct row {
    const char* task;
    std::int32_t gamma;
    double alpha;
    double published;
  };
  constexpr row table[] = {{"EnDe T=0 small", 7, 0.75, 3.4},  {"EnDe T=0 base", 7, 0.80, 2.8},
                           {"EnDe T=0 large", 7, 0.82, 1.7},  {"EnDe T=1 small", 7, 0.62, 2.6},
                           {"EnDe T=1 base", 5, 0.68, 2.4},   {"EnDe T=1 large", 3, 0.71, 1.4},
                           {"CNNDM T=0 small", 5, 0.65, 3.1}, {"CNNDM T=0 base", 5, 0.73, 3.0},
                           {"CNNDM T=0 large", 3, 0.74, 2.2}, {"CNNDM T=1 small", 5, 0.53, 2.3},
                           {"CNNDM T=1 base", 3, 0.55, 2.2},  {"CNNDM T=1 large", 3, 0.56, 1.7}};
  int beyond = 0;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2);
  for (const row& r : table) {
    const double ceiling = planner::walltime_gain(r.alpha, r.gamma, 0.0);
    text << "\n  " << std::left << std::setw(18) << r.task << " predicted at c = 0: " << ceiling
         << ", published: " << r.published;
    beyond += r.published > ceiling ? 1 : 0;
  }
  MESSAGE(text.str());
  CHECK(beyond == 4);  // of the twelve; the i.i.d. formula does not cover them
}

TEST_CASE("costs of rows, and the best draft length") {
  const std::array<double, 3> curve{1.0, 1.1, 1.4};
  CHECK(planner::row_cost({}, 9) == 1.0);
  CHECK(planner::row_cost(curve, 1) == 1.0);
  CHECK(planner::row_cost(curve, 3) == 1.4);
  CHECK(planner::row_cost(curve, 5) == doctest::Approx(2.0));
  CHECK(planner::row_cost(curve, 0) == 1.0);
  CHECK(planner::best_draft_length(0.8, 0.05, 16) > 0);
  CHECK(planner::best_draft_length(0.04, 0.05, 16) == 0);  // no gain unless alpha > c
  CHECK(planner::best_draft_length(0.06, 0.05, 16) == 1);
  CHECK(planner::best_draft_length(1.0, 0.0, 7) == 7);
  const std::array<double, 2> steep{1.0, 2.0};  // rows cost what steps cost
  CHECK(planner::best_draft_length(0.9, 0.01, 16, steep) == 0);
  for (const double alpha : {0.3, 0.6, 0.9}) {
    for (const double c : {0.0, 0.05, 0.3}) {
      const std::int32_t best = planner::best_draft_length(alpha, c, 20);
      for (std::int32_t gamma = 0; gamma <= 20; ++gamma) {
        CHECK(planner::walltime_gain(alpha, best, c) >= planner::walltime_gain(alpha, gamma, c));
      }
    }
  }
}

/// Uniforms given by the caller, by node.
struct given_uniforms {
  std::array<double, 6> accept{};
  std::uint64_t operator()(const address& a) const {
    const double u = a.what == purpose::accept ? accept[a.node] : 0.5;
    return static_cast<std::uint64_t>(u * 0x1.0p53) << 11;
  }
};

TEST_CASE("the worked case of the rejection rule") {
  // r = (.3, .5, .7, .2, .9), p/q = (.4, .6, .5, .3, .8): two drafts are accepted.
  constexpr std::array<double, 5> ratio{0.4, 0.6, 0.5, 0.3, 0.8};
  constexpr std::int32_t nodes = 6;
  std::array<std::array<double, 2>, nodes> p_rows{};
  std::array<double, 2> q_row{std::log(0.5), std::log(0.5)};
  const sampler::pipeline sampler{sampler::temperature{}};
  team::serial team;
  std::array<law<double>, nodes> p;
  std::array<law<double>, nodes> q;
  std::array<token, nodes> tokens{};  // every draft is token 0
  std::array<std::int32_t, nodes> drawn_at{};
  std::array<std::int32_t, nodes> parent{-1, 0, 1, 2, 3, 4};
  const row_range whole{0, 2};
  std::array<shortlist, nodes> lists;
  for (std::size_t i = 0; i < nodes; ++i) {
    const double at_0 = i < ratio.size() ? 0.5 * ratio[i] : 0.5;
    p_rows[i] = {std::log(at_0), std::log(1.0 - at_0)};
    p[i] = sampler(team, row_view<double>{p_rows[i].data(), 2}, {}, {});
    q[i] = sampler(team, row_view<double>{q_row.data(), 2}, {}, {});
    lists[i] = {&whole, 1, 2, nullptr, nullptr};
  }
  std::array<std::int32_t, nodes> path{};
  verdict out;
  out.path = path.data();
  const logits_view<double> view{{nodes, tokens.data(), parent.data(), drawn_at.data()},
                                 child_law::independent,
                                 {p.data()},
                                 {q.data(), lists.data()},
                                 0,
                                 1};
  const random_source<given_uniforms> random{{{0.3, 0.5, 0.7, 0.2, 0.9, 0.0}}};
  verifier::rejection{}(team, view, random, out);
  CHECK(out.status == status::ok);
  CHECK(out.accepted == 2);
  CHECK(path[0] == 1);
  CHECK(path[1] == 2);
  CHECK(out.next == 1);  // the residual at the third place has mass on token 1 alone
  CHECK(out.next_origin == origin::corrected);
}

TEST_CASE("an empty residual is a draw from p, and is reported") {
  // p and q differ by rounding only: rejection is forced by the caller's uniforms.
  struct never : random_source<given_uniforms> {
    bool bernoulli(const address&, double, double) const { return false; }
  };
  const sampler::pipeline sampler{sampler::temperature{}};
  team::serial team;
  std::array<double, 2> row{0.0, 1.0};
  const law<double> l = sampler(team, row_view<double>{row.data(), 2}, {}, {});
  std::array<law<double>, 2> laws{l, l};
  std::array<token, 2> tokens{0, 1};
  std::array<std::int32_t, 2> drawn_at{0, 1};
  std::array<std::int32_t, 2> parent{-1, 0};
  const row_range whole{0, 2};
  std::array<shortlist, 2> lists{shortlist{&whole, 1, 2, nullptr, nullptr}};
  std::array<std::int32_t, 2> path{};
  verdict out;
  out.path = path.data();
  const logits_view<double> view{{2, tokens.data(), parent.data(), drawn_at.data()},
                                 child_law::independent,
                                 {laws.data()},
                                 {laws.data(), lists.data()},
                                 0,
                                 1};
  verifier::rejection{}(team, view, never{}, out);
  CHECK(out.empty_residual);
  CHECK(out.accepted == 0);
  CHECK(out.next == 1);  // u = 1/2 falls on the token of probability 0.73
}

TEST_CASE("statistics by the field's names") {
  statistics<4> s;
  CHECK(s.mean_acceptance_length() == 0.0);
  CHECK(s.draft_acceptance_rate() == 0.0);
  CHECK(s.acceptance_probability() == 0.0);
  // Three steps of three drafts: 3, 1 and 0 accepted.
  s.steps = 3;
  s.drafted = 9;
  s.accepted = 4;
  std::ranges::copy(std::vector{3, 3, 3, 0}, s.proposed_at);
  std::ranges::copy(std::vector{2, 1, 1, 0}, s.accepted_at);
  s.shortlists = 9;
  s.shortlist_rows = 90;
  CHECK(s.mean_acceptance_length() == doctest::Approx(1.0 + 4.0 / 3.0));
  CHECK(s.draft_acceptance_rate() == doctest::Approx(4.0 / 9.0));
  CHECK(s.acceptance_at(0) == doctest::Approx(2.0 / 3.0));
  CHECK(s.acceptance_at(1) == doctest::Approx(1.0 / 3.0));
  CHECK(s.acceptance_at(3) == 0.0);
  CHECK(s.acceptance_probability() ==
        doctest::Approx(4.0 / 6.0));  // 3 + 2 + 1 were put to the test
  CHECK(s.average_shortlist_rows() == 10.0);
}

/// Feeds texts one by one; the index of the one that ends the text, or -1.
int ends_at(const stop_strings& stops, stop_tail& tail,
            const std::vector<std::string_view>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (stops.feed(tail, texts[i])) { return static_cast<int>(i); }
  }
  return -1;
}

TEST_CASE("stop strings across tokens") {
  const stop_strings stops({"</s>", "\n\n", "abcabd"});
  CHECK_FALSE(stops.empty());
  CHECK(stop_strings{}.empty());
  CHECK(stops.longest() == 6);
  const auto check = [&](const std::vector<std::string_view>& texts, int at, std::size_t excess) {
    stop_tail tail;
    CHECK(ends_at(stops, tail, texts) == at);
    if (at >= 0) { CHECK(tail.excess == excess); }
  };
  check({"a", "b", "c"}, -1, 0);
  check({"x</s>yz"}, 0, 6);
  check({"x<", "/", "s", ">y", "z"}, 3, 5);
  check({"\n", "a", "\n", "\n"}, 3, 2);
  check({"", "", "\n\n"}, 2, 2);
  check({"abc", "abc", "abd"}, 2, 6);  // a match that overlaps a failed one
  check({"</s></s>"}, 0, 8);           // the first one counts
  check({"\n\n</s>"}, 0, 6);
  check({"</s>\n\n"}, 0, 6);
}

TEST_CASE("stop strings against a search of the whole text") {
  dice random{31};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> wanted;
    for (int i = random.below(3); i >= 0; --i) {
      std::string s;
      for (int j = random.below(4); j >= 0; --j) { s += static_cast<char>('a' + random.below(2)); }
      wanted.push_back(s);
    }
    const stop_strings stops(wanted);
    stop_tail tail;
    std::string whole;
    for (int i = 0; i < 12; ++i) {
      std::string piece;
      for (int j = random.below(4); j > 0; --j) {
        piece += static_cast<char>('a' + random.below(2));
      }
      whole += piece;
      std::size_t first = std::string::npos;
      for (const std::string& s : wanted) { first = std::min(first, whole.find(s)); }
      const bool found = stops.feed(tail, piece);
      CHECK(found == (first != std::string::npos));
      if (found) {
        CHECK(tail.excess == whole.size() - first);
        break;
      }
    }
  }
}

TEST_CASE("layouts and shortlists") {
  const auto layout = vocab_layout::permuted({4, 2, 0, 1}, 6);
  CHECK(layout.vocab_size() == 6);
  CHECK(layout.head_rows() == 4);
  const row_range ranges[] = {{0, 1}, {2, 4}};
  const shortlist list = layout.list(ranges, 2);
  CHECK(list.size == 3);
  const token expected[] = {4, 0, 1};
  for (std::int32_t i = 0; i < 3; ++i) {
    CHECK(list.token_at(i) == expected[i]);
    CHECK(list.position_of(expected[i]) == i);
  }
  for (const token absent : {2, 3, 5}) { CHECK(list.position_of(absent) == -1); }
  CHECK_FALSE(list.is_everything(6));

  const auto identity = vocab_layout::identity(6);
  const row_range whole{0, 6};
  CHECK(identity.list(&whole, 1).is_everything(6));
  CHECK_FALSE(identity.list(&whole, 1).is_everything(7));
  const row_range part{2, 5};
  CHECK(identity.list(&part, 1).token_at(0) == 2);
  CHECK(identity.list(&part, 1).position_of(1) == -1);
  CHECK(identity.list(&part, 1).position_of(4) == 2);
}

/// Every lookup of a list against the rows of its ranges, one by one.
void check_lookups(const vocab_layout& layout, const shortlist& list) {
  std::vector<token> tokens;
  for (std::int32_t r = 0; r < list.range_count; ++r) {
    for (std::int32_t row = list.ranges[r].begin; row < list.ranges[r].end; ++row) {
      tokens.push_back(layout.row_token() == nullptr ? row : layout.row_token()[row]);
    }
  }
  std::vector<std::int32_t> at(static_cast<std::size_t>(layout.vocab_size()), -1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    at[static_cast<std::size_t>(tokens[i])] = static_cast<std::int32_t>(i);
  }
  std::vector<std::int32_t> found;
  for (token t = 0; t < layout.vocab_size(); ++t) { found.push_back(list.position_of(t)); }
  CHECK(found == at);
  std::vector<token> held;
  for (std::int32_t i = 0; i < list.size; ++i) { held.push_back(list.token_at(i)); }
  CHECK(held == tokens);
  for (const std::int32_t step : {1, 3, 100}) {
    std::vector<token> walked;
    for (std::int32_t i = 0; i < list.size; i += step) {
      list.for_each_in(i, std::min(i + step, list.size), [&](std::int32_t position, token t) {
        CHECK(position == static_cast<std::int32_t>(walked.size()));
        walked.push_back(t);
      });
    }
    CHECK(walked == tokens);
  }
}

TEST_CASE("tokens are found by the shift of their part, and where there is none") {
  dice random{11};
  for (int round = 0; round < 60; ++round) {
    const std::int32_t vocab = 2 + random.below(60);
    std::vector<token> order(static_cast<std::size_t>(vocab));
    std::iota(order.begin(), order.end(), 0);
    for (std::int32_t i = vocab - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)],
                order[static_cast<std::size_t>(random.below(i + 1))]);
    }
    const std::int32_t rows = 1 + random.below(vocab);
    order.resize(static_cast<std::size_t>(rows));
    std::vector<std::int32_t> begin{random.below(rows)};
    while (begin.back() < rows) {
      begin.push_back(std::min(rows, begin.back() + 1 + random.below(5)));
    }
    const vocab_layout layout =
        (round % 4 == 0 ? vocab_layout::identity(rows) : vocab_layout::permuted(order, vocab))
            .clustered(begin);
    std::vector<row_range> ranges;
    const auto take = [&](std::int32_t first, std::int32_t last) {
      if (random.below(2) == 0 && first < last) { ranges.push_back({first, last}); }
    };
    take(0, begin[0]);
    for (std::size_t c = 1; c < begin.size(); ++c) { take(begin[c - 1], begin[c]); }
    const auto count = static_cast<std::int32_t>(ranges.size());
    std::vector<std::int32_t> shifts(static_cast<std::size_t>(layout.parts()));
    const shortlist list = layout.list(ranges.data(), count, shifts.data());
    CHECK(list.shift == shifts.data());
    check_lookups(layout, list);
    check_lookups(layout, layout.list(ranges.data(), count));
    // A part that is not in the list as a whole: there are no shifts, and nothing is lost.
    for (row_range& r : ranges) {
      if (r.end - r.begin < 2) { continue; }
      const row_range whole = r;
      r = random.below(2) == 0 ? row_range{r.begin + 1, r.end} : row_range{r.begin, r.end - 1};
      const shortlist cut = layout.list(ranges.data(), count, shifts.data());
      CHECK(cut.shift == nullptr);
      check_lookups(layout, cut);
      r = whole;
    }
  }
}

TEST_CASE("orders and clusters tell layouts apart") {
  const std::uint64_t all[] = {vocab_layout::identity(4).order(),
                               vocab_layout::identity(5).order(),
                               vocab_layout::permuted({1, 0, 2, 3}, 4).order(),
                               vocab_layout::permuted({0, 1, 3, 2}, 4).order(),
                               vocab_layout::permuted({0, 1, 3}, 4).order(),
                               vocab_layout::permuted({0, 1, 3}, 5).order()};
  for (const std::uint64_t& a : all) {
    for (const std::uint64_t& b : all) { CHECK((a == b) == (&a == &b)); }
  }
  const auto layout = vocab_layout::permuted({1, 0}, 4);
  CHECK(layout.order() == vocab_layout::permuted({1, 0}, 4).order());
  // Token order is one order, whether it is written down or not: a file has it written down.
  CHECK(vocab_layout::permuted({0, 1, 2}, 3).order() == vocab_layout::identity(3).order());
  // Clusters change no order: a head is stored for all clusters over it.
  const std::uint64_t clusters[] = {layout.fingerprint(), layout.clustered({0, 2}).fingerprint(),
                                    layout.clustered({1, 2}).fingerprint(),
                                    layout.clustered({0, 1, 2}).fingerprint()};
  for (const std::uint64_t& a : clusters) {
    for (const std::uint64_t& b : clusters) { CHECK((a == b) == (&a == &b)); }
  }
  CHECK(layout.clustered({0, 1, 2}).order() == layout.order());
}

std::vector<token> order_of(const vocab_layout& layout) {
  return {layout.row_token(), layout.row_token() + layout.head_rows()};
}

TEST_CASE("a ranking by frequency") {
  const std::vector<token> corpus{3, 3, 3, 1, 5, 5, 0, 1};
  CHECK(order_of(frequency_ranking(corpus, 7)) == std::vector<token>{3, 1, 5, 0, 2, 4, 6});
  const std::vector<token> keep{6, 0, 6};
  CHECK(order_of(frequency_ranking(corpus, 7, keep)) == std::vector<token>{0, 6, 3, 1, 5, 2, 4});
  CHECK(order_of(frequency_ranking({}, 3)) == std::vector<token>{0, 1, 2});
}

}  // namespace
}  // namespace hunch::test
