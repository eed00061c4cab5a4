// SPDX-License-Identifier: Apache-2.0

// Block verification and the point mass on chains: the exact law, and how much each rule accepts.

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <hunch/verifier/block.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "selectors.hpp"
#include "steps.hpp"

namespace hunch::test {
namespace {

TEST_CASE("block verification is exact for every pair of kinds of law") {
  std::int64_t tapes = 0;
  for (const flavour p : all_flavours) {
    for (const flavour q : all_flavours) {
      for (const std::int32_t vocab : {2, 3, 4}) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(static_cast<int>(q));
        CAPTURE(vocab);
        const exact_case c = case_of(p, q, vocab, vocab == 4 ? 3 : 4);
        const selector::full all{vocab};
        tapes += exact_chain<3>(c, all, plain_sampler{}, verifier::block{}).tapes;
        tapes += exact_chain<2>(c, all, plain_sampler{}, verifier::point_mass{}).tapes;
      }
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("block verification in loops, batches, with stops and over shortlists") {
  std::int64_t tapes = 0;
  for (const std::int32_t length : {1, 2, 3, 4, 5}) {
    exact_case c = case_of(flavour::smooth, flavour::sharp, 2, length);
    tapes += exact_chain<4>(c, selector::full{2}, plain_sampler{}, verifier::block{}).tapes;
    c.requests[0].options.stop_tokens = {1};
    tapes += exact_chain<4>(c, selector::full{2}, plain_sampler{}, verifier::block{}).tapes;
  }
  exact_case c = case_of(flavour::smooth, flavour::smooth, 4, 3);
  tapes += over_selectors(c, plain_sampler{}, verifier::block{});
  tapes += over_selectors(c, plain_sampler{}, verifier::point_mass{});
  c.requests[0].options = ask(3, 0.7f, 3, 0.8f);
  tapes += over_selectors(c, full_sampler{}, verifier::block{});
  c = case_of(flavour::smooth, flavour::masked, 3, 2);
  c.requests.push_back({{1}, ask(3, 0.6f), 1});
  c.requests[0].options.seed = 1;
  c.requests[1].options.seed = 2;
  tapes += exact_chain<2>(c, selector::full{3}, plain_sampler{}, verifier::block{}).tapes;
  MESSAGE(tapes << " tapes");
}

/// The expected number of accepted tokens of one step.
template <child_law Children, class V>
double accepted(const std::vector<double>& p, const std::vector<double>& q,
                const std::vector<std::int32_t>& shape, V verifier) {
  const auto vocab = static_cast<std::int32_t>(p.size());
  tree_case c{{vocab}, {vocab}, {{0}, ask(9)}, shape};
  c.target.fixed = p.data();
  c.draft.fixed = q.data();
  forking_source source;
  toy_target<> target{c.target};
  decoder d{target,
            tree_drafter<Children>{c.draft, c.shape},
            selector::full{vocab},
            plain_sampler{},
            verifier,
            decoder_options{},
            source};
  return enumerate_step(d, source, c.asked).accepted;
}

/// The same for a chain of two, which block verification needs to be told of at compile time.
template <class V>
double accepted_of_two(const toy_world& p, const toy_world& q, V verifier) {
  forking_source source;
  toy_target<> target{p};
  toy_draft<> draft{q};
  auto d = chain_decoder<2>(target, draft, plain_sampler{}, verifier, {}, source);
  return enumerate_step(d, source, {{0}, ask(9)}).accepted;
}

TEST_CASE("block verification accepts 11/9 where the chain rule accepts 10/9") {
  const double p[] = {1.0 / 3.0, 2.0 / 3.0};
  const double q[] = {2.0 / 3.0, 1.0 / 3.0};
  toy_world target{2};
  toy_world draft{2};
  target.fixed = p;
  draft.fixed = q;
  CHECK(accepted_of_two(target, draft, verifier::rejection{}) ==
        doctest::Approx(10.0 / 9.0).epsilon(1e-12));
  CHECK(accepted_of_two(target, draft, verifier::block{}) ==
        doctest::Approx(11.0 / 9.0).epsilon(1e-12));
}

TEST_CASE("block verification never accepts less than the chain rule") {
  int more = 0;
  for (std::uint64_t salt = 0; salt < 1000; ++salt) {
    const toy_world p{3, 2 * salt + 100, flavour::smooth};
    const toy_world q{3, 2 * salt + 101, salt % 2 == 0 ? flavour::smooth : flavour::sharp};
    const double chain = accepted_of_two(p, q, verifier::rejection{});
    const double block = accepted_of_two(p, q, verifier::block{});
    CHECK(block >= chain - 1e-12);
    more += block > chain + 1e-9 ? 1 : 0;
  }
  CHECK(more > 500);  // that it does accept more shows that the two are told apart
}

TEST_CASE("expected accepted tokens of every rule, on two candidates and on chains of two") {
  const std::vector<double> p{0.4, 0.3, 0.2, 0.1};
  const std::vector<double> q{0.1, 0.2, 0.3, 0.4};
  const std::vector<double> near{0.35, 0.35, 0.15, 0.15};
  const std::vector<std::int32_t> two{-1, 0, 0};
  const std::vector<std::int32_t> chain{-1, 0, 1};
  std::printf("%-44s %10s %10s\n", "expected accepted tokens", "far draft", "near draft");
  const auto row = [&](const char* name, const auto& of) {
    std::printf("%-44s %10.4f %10.4f\n", name, of(q), of(near));
    return of(q);
  };
  const double one = row("one candidate, rejection", [&](const auto& draft) {
    return accepted<child_law::independent>(p, draft, {-1, 0}, verifier::rejection{});
  });
  const double twice = row("two independent candidates, rejection", [&](const auto& draft) {
    return accepted<child_law::independent>(p, draft, two, verifier::rejection{});
  });
  const double without = row("two without replacement, rejection", [&](const auto& draft) {
    return accepted<child_law::without_replacement>(p, draft, two, verifier::rejection{});
  });
  const double ranked = row("two most probable, point mass", [&](const auto& draft) {
    return accepted<child_law::ranked>(p, draft, two, verifier::point_mass{});
  });
  row("two independent candidates, point mass", [&](const auto& draft) {
    return accepted<child_law::independent>(p, draft, two, verifier::point_mass{});
  });
  row("chain of two, rejection", [&](const auto& draft) {
    return accepted<child_law::independent>(p, draft, chain, verifier::rejection{});
  });
  row("chain of two, block verification", [&](const auto& draft) {
    toy_world target{4};
    toy_world drafted{4};
    target.fixed = p.data();
    drafted.fixed = draft.data();
    return accepted_of_two(target, drafted, verifier::block{});
  });
  row("chain of two, point mass", [&](const auto& draft) {
    return accepted<child_law::independent>(p, draft, chain, verifier::point_mass{});
  });
  CHECK(one == doctest::Approx(0.1 + 0.2 + 0.2 + 0.1).epsilon(1e-12));  // sum min(p, q)
  CHECK(twice > one);
  CHECK(without > one);
  CHECK(ranked == doctest::Approx(0.2 + 0.1).epsilon(1e-12));  // p of the draft's two favourites
}

}  // namespace
}  // namespace hunch::test
