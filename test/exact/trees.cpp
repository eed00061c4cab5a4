// SPDX-License-Identifier: Apache-2.0

// The exact law over draft trees: every shape of up to five nodes, every way in which children come
// about, every rule that accepts them. One step is enumerated from a state and continued by plain
// decoding; by induction over the tokens that are left, runs are exact if such steps are.

#include <cstdint>
#include <string>
#include <vector>

#include "selectors.hpp"
#include "steps.hpp"

#include <hunch/verifier/block.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>

namespace hunch::test {
namespace {

template <child_law Children, class V>
std::int64_t over_shapes(const tree_case& base, V verifier) {
  std::int64_t tapes = 0;
  for (std::int32_t nodes = 1; nodes <= 5; ++nodes) {
    for (const auto& shape : all_trees(nodes)) {
      tree_case c = base;
      c.shape = shape;
      step_law step;
      CAPTURE(nodes);
      CHECK(step_gap<Children>(c, selector::full{c.target.vocab}, plain_sampler{}, verifier,
                               &step) <= law_tolerance);
      tapes += step.tapes;
    }
  }
  return tapes;
}

TEST_CASE("trees of every shape") {
  std::int64_t tapes = 0;
  const std::vector<std::pair<std::int32_t, std::int32_t>> sizes{{3, 1}, {3, 2}, {3, 3},
                                                                 {3, 5}, {2, 4}, {4, 3}};
  for (const auto& [vocab, length] : sizes) {
    const tree_case c = tree_of(flavour::smooth, flavour::smooth, vocab, length);
    CAPTURE(vocab);
    CAPTURE(length);
    tapes += over_shapes<child_law::independent>(c, verifier::rejection{});
    tapes += over_shapes<child_law::without_replacement>(c, verifier::rejection{});
    tapes += over_shapes<child_law::independent>(c, verifier::point_mass{});
    tapes += over_shapes<child_law::without_replacement>(c, verifier::point_mass{});
    tapes += over_shapes<child_law::ranked>(c, verifier::point_mass{});
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("trees for every pair of kinds of law") {
  const std::vector<std::vector<std::int32_t>> shapes{{-1, 0, 0, 0}, {-1, 0, 0, 1, 2}};
  for (const flavour p : all_flavours) {
    for (const flavour q : all_flavours) {
      for (const std::int32_t vocab : {2, 3, 4}) {
        for (const auto& shape : shapes) {
          tree_case c = tree_of(p, q, vocab, 3);
          c.shape = shape;
          CAPTURE(static_cast<int>(p));
          CAPTURE(static_cast<int>(q));
          CAPTURE(vocab);
          const selector::full all{vocab};
          const plain_sampler sampler;
          const verifier::rejection rule;
          CHECK(step_gap<child_law::independent>(c, all, sampler, rule) <= law_tolerance);
          CHECK(step_gap<child_law::without_replacement>(c, all, sampler, rule) <= law_tolerance);
          CHECK(step_gap<child_law::ranked>(c, all, sampler, verifier::point_mass{}) <=
                law_tolerance);
        }
      }
    }
  }
}

TEST_CASE("trees over shortlists, with restricted laws and with end of text") {
  const auto check = [](const tree_case& c, const auto& selector, auto sampler) {
    const verifier::rejection rule;
    CHECK(step_gap<child_law::independent>(c, selector, sampler, rule) <= law_tolerance);
    CHECK(step_gap<child_law::without_replacement>(c, selector, sampler, rule) <= law_tolerance);
    CHECK(step_gap<child_law::ranked>(c, selector, sampler, verifier::point_mass{}) <=
          law_tolerance);
  };
  for (const auto& shape : {std::vector<std::int32_t>{-1, 0, 0, 1, 1}, {-1, 0, 0, 0, 2}}) {
    tree_case c = tree_of(flavour::smooth, flavour::sharp, 4, 4);
    c.shape = shape;
    for (const bool ends : {false, true}) {
      if (ends) { c.asked.options.stop_tokens = {2}; }
      check(c, selector::frequency{shuffled_layout(4, 4), 2}, plain_sampler{});
      check(c, selector::full{shuffled_layout(4, 3)}, plain_sampler{});
      check(c, toy_selector{shuffled_layout(4, 4)}, plain_sampler{});
    }
    c.asked.options = ask(3, 0.7f, 3, 0.8f);
    check(c, selector::full{4}, full_sampler{});
    check(c, toy_selector{shuffled_layout(4, 4)}, full_sampler{});
    c.asked.options = ask(3, 0.0f);
    check(c, selector::full{4}, full_sampler{});
  }
}

TEST_CASE("whole runs over trees, also in a batch") {
  forking_source source;
  const toy_world world{3, 61, flavour::smooth};
  toy_target<> target{world};
  decoder d{target,
            tree_drafter<child_law::without_replacement>{{3, 62, flavour::smooth}, {-1, 0, 0}},
            selector::full{3},
            plain_sampler{},
            verifier::rejection{},
            decoder_options{.max_batch = 2, .token_text = {}},
            source};
  check_law(d, source, {world, {}, {{{1}, ask(4)}}});
  std::vector<request> two{{{1}, ask(2)}, {{2, 0}, ask(2, 0.6f), 1}};
  two[0].options.seed = 1;
  two[1].options.seed = 2;
  check_law(d, source, {world, {}, two});
  target.cache().check();
}

/// Siblings tested against p and q that never change, then one residual: what several systems do.
struct static_siblings : verifier::rejection {
  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    const auto p = view.target(team, 0);
    const auto q = view.drafts.laws[0];
    std::int32_t sibling = 0;
    for (std::int32_t i = view.tree.next_child(0, 0); i >= 0; i = view.tree.next_child(0, i)) {
      if (random.bernoulli(view.at(0, purpose::accept, sibling++), p.prob(view.tree.tokens[i]),
                           q.prob(view.tree.drawn_at[i]))) {
        kernel::accept(team, out, i);
        return kernel::emit(team, view.at(i, purpose::bonus), view.target(team, i), random, out);
      }
    }
    const shortlist list = view.drafts.lists[0];
    out.next = static_cast<token>(
        kernel::with_excess(p, q, list, 1.0, 1.0, nullptr, [&](const auto& weight) {
          return random.categorical(team, view.at(0, purpose::residual), p.size(), weight);
        }));
  }
};

void fixed_rows(std::uint64_t, std::int32_t, double* row, const std::vector<double>& law) {
  for (std::size_t v = 0; v < law.size(); ++v) { row[v] = std::log(law[v]); }
}

TEST_CASE("siblings tested without updating p: the published counter-example") {
  // Target (.4, .3, .2, .1), draft (.1, .2, .3, .4), two independent siblings.
  forking_source source;
  toy_target<> target{{4, 1, flavour::smooth}};
  target.edit = [](std::uint64_t h, std::int32_t v, double* row) {
    fixed_rows(h, v, row, {0.4, 0.3, 0.2, 0.1});
  };
  const auto first_token = [&](auto rule) {
    law_of_texts law;
    std::vector<double> q_row;
    for (const double q : {0.1, 0.2, 0.3, 0.4}) { q_row.push_back(std::log(q)); }
    const sampler::pipeline sampler{sampler::temperature{}};
    team::serial team;
    std::vector<double> p_row(4);
    target.edit(0, 4, p_row.data());
    const hunch::law<double> q = sampler(team, row_view<double>{q_row.data(), 4}, {}, {});
    const hunch::law<double> p = sampler(team, row_view<double>{p_row.data(), 4}, {}, {});
    std::vector<hunch::law<double>> ps(3, p), qs(3, q);
    const row_range whole{0, 4};
    std::vector<shortlist> lists(3, {&whole, 1, 4, nullptr, nullptr});
    std::vector<std::int32_t> parent{-1, 0, 0}, at(3, 0), path(3);
    std::vector<token> tokens(3, 0);
    source.rewind();
    do {
      for (std::uint32_t s = 0; s < 2; ++s) {
        at[1 + s] = tokens[1 + s] = static_cast<token>(source.categorical(
            team, {0, 1, 0, s, purpose::draft}, 4, [&](std::int64_t i) { return q.weight(i); }));
      }
      verdict out;
      out.path = path.data();
      rule(team,
           logits_view<double>{{3, tokens.data(), parent.data(), at.data()},
                               child_law::independent,
                               {ps.data()},
                               {qs.data(), lists.data()},
                               0,
                               1},
           source, out);
      const token t = out.accepted > 0 ? tokens[static_cast<std::size_t>(path[0])] : out.next;
      law[{t}] += source.probability();
    } while (source.next());
    return law;
  };
  const law_of_texts right{{{0}, 0.4}, {{1}, 0.3}, {{2}, 0.2}, {{3}, 0.1}};
  const law_of_texts wrong{{{0}, 0.26}, {{1}, 0.32}, {{2}, 0.28}, {{3}, 0.14}};
  CHECK(distance(first_token(verifier::rejection{}), right) <= law_tolerance);
  CHECK(distance(first_token(static_siblings{}), wrong) <= law_tolerance);
}

TEST_CASE("lossy rules are seen to be lossy") {
  const auto gaps = [](auto rule, const std::string& name) {
    double largest = 0.0;
    for (const auto& shape : {std::vector<std::int32_t>{-1, 0, 1, 2}, {-1, 0, 0, 1, 2}}) {
      tree_case c = tree_of(flavour::smooth, flavour::smooth, 4, 4);
      c.shape = shape;
      const double gap = step_gap<child_law::ranked>(c, selector::full{4}, plain_sampler{}, rule);
      MESSAGE(name << ": a text's probability is off by up to " << gap);
      largest = std::max(largest, gap);
    }
    return largest;
  };
  CHECK(gaps(verifier::typical{}, "typical") > 1e-3);
  CHECK(gaps(verifier::top_k{2}, "top_k{2}") > 1e-3);
  CHECK_FALSE(verifier::typical::lossless);
  CHECK_FALSE(verifier::top_k::lossless);
}

}  // namespace
}  // namespace hunch::test
