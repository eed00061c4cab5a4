// SPDX-License-Identifier: Apache-2.0

// The rejection rule on cases that were worked out by hand.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/verifier/rejection.hpp>

namespace hunch::test {
namespace {

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

}  // namespace
}  // namespace hunch::test
