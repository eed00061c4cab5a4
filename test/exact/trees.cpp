// SPDX-License-Identifier: Apache-2.0

// The exact law over draft trees: every shape of up to five nodes, every way in which children come
// about, every rule that accepts them. One step is enumerated from a state and continued by plain
// decoding; by induction over the tokens that are left, runs are exact if such steps are.

#include <cstdint>
#include <string>
#include <vector>

#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include "selectors.hpp"
#include "steps.hpp"

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
  for (const auto& size : sizes) {
    const std::int32_t vocab = size.first;
    const std::int32_t length = size.second;
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

TEST_CASE("every law of the children, over every shortlist, by every rule") {
  using enum child_law;
  const auto over_shortlists = [](const tree_case& c, auto sampler) {
    for_each_selector(c.target.vocab, [&](const auto& selector) {
      const verifier::rejection tests;
      const verifier::point_mass draws;
      CHECK(step_gap<independent>(c, selector, sampler, tests) <= law_tolerance);
      CHECK(step_gap<without_replacement>(c, selector, sampler, tests) <= law_tolerance);
      CHECK(step_gap<independent>(c, selector, sampler, draws) <= law_tolerance);
      CHECK(step_gap<without_replacement>(c, selector, sampler, draws) <= law_tolerance);
      CHECK(step_gap<ranked>(c, selector, sampler, draws) <= law_tolerance);
    });
  };
  for (const auto& shape : {std::vector<std::int32_t>{-1, 0, 0, 1, 1}, {-1, 0, 0, 0, 2}}) {
    tree_case c = tree_of(flavour::smooth, flavour::sharp, 4, 3);
    c.shape = shape;
    over_shortlists(c, plain_sampler{});
    c.asked.options.stop_tokens = {2};
    over_shortlists(c, plain_sampler{});
    c.asked.options = ask(3, 0.7f, 3, 0.8f);
    over_shortlists(c, full_sampler{});
    c.asked.options = ask(3, 0.0f);
    over_shortlists(c, full_sampler{});
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
