// SPDX-License-Identifier: Apache-2.0

// Samplers and verifiers on any rows, parameters and uniforms: an error, or a token that the target
// allows.

#include <cmath>
#include <vector>

#include <hunch/kernel/draw_children.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/verifier/rejection.hpp>
#include "bytes.hpp"

namespace {

struct fuzzed_words {
  std::uint64_t seed = 0;
  std::uint64_t operator()(const hunch::address& a) const {
    switch (seed % 4) {
      case 0:
        return 0;
      case 1:
        return ~std::uint64_t(0);
      default:
        return hunch::philox{}(a);
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hunch;
  using test::must;
  test::bytes in{data, size};
  const std::int32_t vocab = 1 + in.below(10) + (in.below(8) == 0 ? 130 : 0);
  const std::int32_t nodes = 1 + in.below(4);
  const sampler::pipeline sampler{sampler::temperature{}, sampler::top_k{}, sampler::top_p{}};
  const sampling_parameters with{in.below(2) == 0 ? 1.0f : in.real(),
                                 in.below(2) == 0 ? 0 : static_cast<std::int32_t>(in.word()),
                                 in.below(2) == 0 ? 1.0f : in.real()};
  const bool in_range = with.temperature >= 0.0f && std::isfinite(with.temperature) &&
                        with.top_k >= 0 && with.top_p > 0.0f && with.top_p <= 1.0f;
  must((sampler.check(with) == status::ok) == in_range, "parameters refused if and only if wrong");
  if (!in_range) { return 0; }
  const random_source<fuzzed_words> random{{in.byte()}};

  const auto width = static_cast<std::size_t>(vocab);
  std::vector<float> rows(2 * static_cast<std::size_t>(nodes) * width);
  std::vector<float> pattern(7);
  for (float& x : pattern) { x = in.real(); }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = in.empty() ? pattern[i % pattern.size()] : in.real();
  }
  std::vector<law<float>> p(static_cast<std::size_t>(nodes));
  std::vector<law<float>> q(static_cast<std::size_t>(nodes));
  std::vector<token> tokens(static_cast<std::size_t>(nodes), 0);
  std::vector<std::int32_t> drawn_at(static_cast<std::size_t>(nodes), 0);
  std::vector<std::int32_t> parent(static_cast<std::size_t>(nodes), -1);
  std::vector<std::int32_t> path(static_cast<std::size_t>(nodes), -1);
  const row_range whole{0, vocab};
  std::vector<shortlist> lists(static_cast<std::size_t>(nodes),
                               {&whole, 1, vocab, nullptr, nullptr});
  team::serial team;
  const auto row = [&](std::size_t i) { return row_view<float>{rows.data() + i * width, vocab}; };
  std::int32_t count = 1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    p[i] = sampler(team, row(2 * i), with, {});
    bool has_law = false;
    bool broken = false;
    for (std::int32_t v = 0; v < vocab; ++v) {
      const float x = row(2 * i)[v];
      has_law = has_law || x > -__builtin_inff();
      broken = broken || std::isnan(x) || x == __builtin_inff();
    }
    must((p[i].status == status::ok) == (has_law && !broken), "invalid rows are told apart");
    if (p[i].status == status::ok) {
      double mass = 0.0;
      for (std::int32_t v = 0; v < vocab; ++v) { mass += static_cast<double>(p[i].prob(v)); }
      must(std::abs(mass - 1.0) < 1e-5, "a law has mass one");
    }
  }
  for (std::int32_t i = 0; i + 1 < nodes && i + 1 == count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const kernel::draft_row<float> task{row(2 * at + 1),
                                        lists[at],
                                        with,
                                        {},
                                        {7, 3, static_cast<std::uint32_t>(i), 0, purpose::draft},
                                        static_cast<std::uint32_t>(3 + i),
                                        &q[at],
                                        &drawn_at[at + 1],
                                        &tokens[at + 1]};
    using draw_type = child_draw<random_source<fuzzed_words>, false>;
    kernel::draw_children<float, decltype(sampler), draw_type>{&task, sampler, {random}}(team, 0);
    if (tokens[at + 1] == no_token) { break; }
    must(q[at].prob(drawn_at[at + 1]) > 0.0f, "only what is possible is drafted");
    parent[at + 1] = i;
    ++count;
  }
  verdict out;
  out.path = path.data();
  const logits_view<float> view{{count, tokens.data(), parent.data(), drawn_at.data()},
                                child_law::independent,
                                {p.data()},
                                {q.data(), lists.data()},
                                7,
                                3};
  verifier::rejection{}(team, view, random, out);
  must(out.accepted >= 0 && out.accepted < count, "accepted nodes are nodes");
  for (std::int32_t i = 0; i < out.accepted; ++i) {
    const auto before = static_cast<std::size_t>(i);
    must(path[before] == i + 1, "a path of the chain");
    must(p[before].prob(tokens[before + 1]) > 0.0f, "an accepted token is possible");
  }
  const law<float>& last = p[static_cast<std::size_t>(out.accepted)];
  if (last.status == status::ok) {
    must(out.status == status::ok, "no error where there is none");
    must(out.next >= 0 && out.next < vocab, "a token");
    must(last.prob(out.next) > 0.0f, "an emitted token is possible");
  } else {
    must(out.status == status::invalid_logits, "an error where there is one");
    must(out.failed_node == out.accepted, "the row that is wrong");
  }
  return 0;
}
