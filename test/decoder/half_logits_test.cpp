// SPDX-License-Identifier: Apache-2.0

// A decoder over models with 16-bit logits writes, bit for bit, what it writes over models whose
// logits are copies of these in float.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/selector/second_opinion.hpp>
#include <hunch/selector/united.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include "../support/hidden_host.hpp"
#include "../support/rereading_draft.hpp"
#include "../support/resident_models.hpp"
#include "../support/rounded_models.hpp"
#include "../support/stages.hpp"
#include "../support/toy_heads.hpp"
#include "../support/toy_router.hpp"
#include "../support/toy_streams.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 300;
constexpr toy_world target_world{vocab, 21, flavour::sharp};
constexpr toy_world draft_world{vocab, 21, flavour::smooth};
constexpr toy_world broken_world{vocab, 21, flavour::tied, 0, nullptr, 9};

/// Samplers whose stages round nothing.
using law_stages = sampler::pipeline<sampler::allowed_tokens, sampler::temperature, sampler::top_k,
                                     sampler::top_p, sampler::min_p>;

/// The sampler with every stage: over floats, the stages that edit round what they write.
template <class Logit, class Half>
using edit_stages = std::conditional_t<
    std::is_same_v<Logit, Half>, every_stage,
    sampler::pipeline<rounded_stage<sampler::penalties, Half>, rounded_stage<sampler::bias, Half>,
                      sampler::allowed_tokens, sampler::temperature, sampler::top_k, sampler::top_p,
                      sampler::min_p>>;

enum class edits { none, all };

generation_options options_of(std::int32_t n, edits e) {
  generation_options o;
  if (e == edits::all) {
    o = with_every_stage(o, vocab);
  } else {
    o.temperature = n % 3 == 0 ? 1.0f : 0.7f;
    o.top_k = n % 3 == 1 ? 20 : 0;
    o.top_p = n % 2 == 0 ? 0.95f : 1.0f;
    o.min_p = n % 4 == 3 ? 0.02f : 0.0f;
    if (n % 4 == 2) { o.grammar = toy_grammar{vocab}; }
  }
  if (n == 4) { o.temperature = 0.0f; }
  o.max_new_tokens = 24;
  o.seed = static_cast<std::uint64_t>(70 + n);
  o.log_probabilities = 3;
  return o;
}

constexpr std::int32_t request_count = 5;

using record = std::vector<std::int64_t>;

/// Everything that requests emit, log-probabilities included, step by step.
template <class Decoder>
record emitted(Decoder& d, edits e, bool greedy) {
  std::map<request_id, std::int32_t> number;
  for (std::int32_t n = 0; n < request_count; ++n) {
    generation_options o = options_of(n, e);
    if (greedy) {
      const auto seed = o.seed;
      o = {};
      o.max_new_tokens = 24;
      o.seed = seed;
      o.log_probabilities = 3;
    }
    number[d.add(std::vector<token>{n, 5, 7, n, 5}, o)] = n;
  }
  record out;
  for (std::size_t open = number.size(); open > 0;) {
    for (const emission& m : d.step()) {
      out.insert(out.end(), {number[m.id], m.drafted, static_cast<std::int64_t>(m.finish),
                             static_cast<std::int64_t>(m.status)});
      out.insert(out.end(), m.tokens.begin(), m.tokens.end());
      for (const origin o : m.origins) { out.push_back(static_cast<std::int64_t>(o)); }
      for (const token_log_probability& l : m.log_probabilities) {
        out.push_back(l.t);
        out.push_back(std::bit_cast<std::int32_t>(l.log_probability));
      }
      open -= m.finish != finish_reason::none ? 1 : 0;
    }
  }
  return out;
}

decoder_options batch_options() {
  return {.max_batch = request_count, .max_log_probabilities = 3, .token_text = {}};
}

/// The models of a composition.
template <class Logit, class Half>
struct models {
  using target = rounded_target<Logit, Half, toy_stream_target<float>>;
  using draft = rounded_draft<Logit, Half>;
  using eagle = rounded_draft<Logit, Half, rereading_draft<float>>;
  using heads = rounded_draft<Logit, Half, toy_heads<float>>;
  using stream_head = rounded_draft<Logit, Half, toy_stream_head<float>>;
  using first_layers = rounded_draft<Logit, Half, toy_view<toy_stream_target<float>, float>>;
};

const std::vector<token>& frequent() {
  static const std::vector<token> order = [] {
    std::vector<token> all;
    for (token t = 0; t < vocab; ++t) { all.push_back(t * 7 % vocab); }
    return all;
  }();
  return order;
}
vocab_layout ranked_layout() { return vocab_layout::permuted(frequent(), vocab); }
selector::frequency<> most_frequent() { return {ranked_layout(), 250}; }

/// Two of six clusters, and a core.
auto routed() {
  static const toy_router weights(toy_context_size, 6, 7);
  return selector::clustered{ranked_layout().clustered({30, 70, 120, 160, 200, 260, vocab}),
                             weights.view(), budget::fixed{2}};
}
using opinion = decltype(selector::second_opinion{routed(), 0.4});

struct chains {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::autoregressive{typename M::draft{draft_world, ranked_layout()},
                                   tree::chain<4>{}};
  }
};
template <class Tree>
struct trees {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::autoregressive{typename M::draft{draft_world, ranked_layout()}, Tree{}};
  }
};
template <class Tree>
struct eagles {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::autoregressive{typename M::eagle{draft_world, ranked_layout()}, Tree{}};
  }
};
template <class Policy>
struct stopping_chains {
  Policy policy;
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::autoregressive{typename M::draft{draft_world, ranked_layout()},
                                   tree::chain<4>{}, policy};
  }
};
struct nothing {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::none{};
  }
};
struct repeats {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::lookup<4>{};
  }
};
template <class Drafting>
struct repeats_or {
  template <class M>
  auto operator()(std::type_identity<M> type, auto& target) const {
    return drafter::cascade{drafter::lookup<4>{}, Drafting{}(type, target)};
  }
};
template <class Tree>
struct by_heads {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::heads{typename M::heads{draft_world, 3, ranked_layout()}, Tree{}};
  }
};
template <class Tree>
struct by_streams {
  template <class M>
  auto operator()(std::type_identity<M>, auto&) const {
    return drafter::streaming{typename M::stream_head{draft_world, 3, ranked_layout()}, Tree{}};
  }
};
template <class Tree>
struct pruned_streams {
  template <class M>
  auto operator()(std::type_identity<M>, auto& target) const {
    return drafter::pruned{by_streams<Tree>{}(std::type_identity<M>{}, target),
                           typename M::first_layers{target, draft_world, ranked_layout()}, 4};
  }
};

template <class Half, edits Edits, class Logit, class S, class V>
record run(const toy_world& world, auto drafting, auto selector, S sampler, V verifier) {
  using of = models<Logit, Half>;
  typename of::target target{world};
  auto drafter = drafting(std::type_identity<of>{}, target);
  decoder d{target,   std::move(drafter), std::move(selector), std::move(sampler),
            verifier, batch_options()};
  return emitted(d, Edits, S::always_greedy);
}

/// \param of_copy the selector over floats.
template <class Half, class S = law_stages, class V>
void check_over(const auto& selector, const auto& of_copy, auto drafting, V verifier,
                S sampler = {}, const toy_world& world = target_world) {
  const record half = run<Half, edits::none, Half>(world, drafting, selector, sampler, verifier);
  const record copy = run<Half, edits::none, float>(world, drafting, of_copy, sampler, verifier);
  CHECK(half.size() > 100);
  CHECK(half == copy);
}
template <class Half, class S = law_stages, class V>
void check(auto drafting, V verifier, S sampler = {}, const toy_world& world = target_world) {
  check_over<Half>(most_frequent(), most_frequent(), drafting, verifier, sampler, world);
}

template <class Half, class V>
void check_with_edits(auto drafting, V verifier) {
  const record half = run<Half, edits::all, Half>(target_world, drafting, most_frequent(),
                                                  edit_stages<Half, Half>{}, verifier);
  const record copy = run<Half, edits::all, float>(target_world, drafting, most_frequent(),
                                                   edit_stages<float, Half>{}, verifier);
  CHECK(half.size() > 100);
  CHECK(half == copy);
}

constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}, {0, 2, 0}};

TEST_CASE_TEMPLATE("plain decoding", Half, bfloat16, float16) {
  check<Half>(nothing{}, verifier::rejection{});
  check<Half>(nothing{}, verifier::greedy{}, sampler::greedy{});
  check_with_edits<Half>(nothing{}, verifier::coupled{});
}

TEST_CASE_TEMPLATE("chains by every rule", Half, bfloat16, float16) {
  check<Half>(chains{}, verifier::rejection{});
  check<Half>(chains{}, verifier::block{});
  check<Half>(chains{}, verifier::point_mass{});
  check<Half>(chains{}, verifier::coupled{});
  check<Half>(chains{}, verifier::typical{});
  check<Half>(chains{}, verifier::top_k{3});
  check<Half>(chains{}, verifier::greedy{}, sampler::greedy{});
  check<Half>(repeats{}, verifier::point_mass{});
  check<Half>(repeats_or<chains>{}, verifier::rejection{});
  check<Half>(repeats_or<chains>{}, verifier::block{});
}

TEST_CASE_TEMPLATE("rows without a law", Half, bfloat16, float16) {
  check<Half>(chains{}, verifier::rejection{}, law_stages{}, broken_world);
  check<Half>(trees<tree::dynamic<3, 3, 6>>{}, verifier::coupled{}, law_stages{}, broken_world);
}

TEST_CASE_TEMPLATE("trees", Half, bfloat16, float16) {
  check<Half>(trees<tree::sampled<2, 2, 1>>{}, verifier::rejection{});
  check<Half>(trees<tree::sampled<2, 2, 1>>{}, verifier::coupled{});
  check<Half>(repeats_or<trees<tree::sampled<2, 2, 1>>>{}, verifier::rejection{});
  check<Half>(trees<tree::dynamic<3, 3, 7>>{}, verifier::point_mass{});
  check<Half>(trees<tree::dynamic<3, 3, 7>>{}, verifier::typical{});
  check<Half>(trees<tree::dynamic<3, 3, 7>>{}, verifier::greedy{}, sampler::greedy{});
  check<Half>(trees<tree::fixed<some>>{}, verifier::coupled{});
}

TEST_CASE_TEMPLATE("what reads accepted tokens again", Half, bfloat16, float16) {
  check<Half>(eagles<tree::chain<4>>{}, verifier::rejection{});
  check<Half>(eagles<tree::dynamic<3, 3, 7>>{}, verifier::coupled{});
}

TEST_CASE_TEMPLATE("routed shortlists", Half, bfloat16, float16) {
  check_over<Half>(routed(), routed(), chains{}, verifier::block{});
  const selector::united united{routed(), 8};
  check_over<Half>(united, united, eagles<tree::dynamic<3, 3, 7>>{}, verifier::point_mass{});
  const opinion second{routed(), 0.4};
  const rounded_advice<opinion, Half> rounded(second);
  check_over<Half>(second, rounded, chains{}, verifier::rejection{});
  check_over<Half>(second, rounded, trees<tree::sampled<2, 2, 1>>{}, verifier::rejection{});
}

TEST_CASE("without the rounding of a second opinion a text differs") {
  // Of draft laws only, so that few texts show it.
  const opinion second{routed(), 0.4};
  std::int32_t differ = 0;
  for (std::uint64_t salt = 1; salt <= 12; ++salt) {
    CAPTURE(salt);
    const toy_world world{vocab, salt, flavour::sharp};
    const auto by = [&](auto logit, const auto& selector) {
      return run<bfloat16, edits::none, decltype(logit)>(world, chains{}, selector, law_stages{},
                                                         verifier::block{});
    };
    const record half = by(bfloat16{}, second);
    CHECK(half == by(0.0f, rounded_advice<opinion, bfloat16>(second)));
    differ += half != by(0.0f, second) ? 1 : 0;
  }
  CHECK(differ > 0);
}

TEST_CASE_TEMPLATE("drafters ahead of the target", Half, bfloat16, float16) {
  check<Half>(by_heads<tree::sampled<2, 1>>{}, verifier::rejection{});
  check<Half>(by_heads<tree::dynamic<2, 3, 7>>{}, verifier::point_mass{});
  check<Half>(by_streams<tree::fixed<some>>{}, verifier::point_mass{});
  check<Half>(pruned_streams<tree::dynamic<2, 3, 7>>{}, verifier::point_mass{});
}

TEST_CASE_TEMPLATE("draft lengths by evidence", Half, bfloat16, float16) {
  check<Half>(stopping_chains<length::entropy>{}, verifier::rejection{});
  check<Half>(stopping_chains<length::confidence>{}, verifier::rejection{});
}

TEST_CASE_TEMPLATE("edits are those in float, rounded", Half, bfloat16, float16) {
  check_with_edits<Half>(chains{}, verifier::rejection{});
  check_with_edits<Half>(chains{}, verifier::block{});
  check_with_edits<Half>(trees<tree::sampled<2, 2, 1>>{}, verifier::rejection{});
  check_with_edits<Half>(trees<tree::dynamic<3, 3, 7>>{}, verifier::point_mass{});
  check_with_edits<Half>(by_heads<tree::dynamic<2, 3, 7>>{}, verifier::coupled{});
}

TEST_CASE("without the rounding of edits the texts differ") {
  const record half = run<bfloat16, edits::all, bfloat16>(target_world, chains{}, most_frequent(),
                                                          every_stage{}, verifier::rejection{});
  const record exact = run<bfloat16, edits::all, float>(target_world, chains{}, most_frequent(),
                                                        every_stage{}, verifier::rejection{});
  CHECK(half != exact);
}

/// The texts of a resident loop. \tparam Toy the draft model, before its logits are rounded.
template <class Half, class Logit, class Toy>
record resident_record(auto executor, const auto& selector) {
  constexpr std::int32_t slots = 3;
  constexpr std::int32_t nodes = 5;
  using draft_type = rounded_draft<Logit, Half, Toy>;
  rounded_target<Logit, Half> target{target_world};
  draft_type draft{draft_world, selector.layout()};
  resident_target<Logit, rounded_target<Logit, Half>> on_executor{target, slots * nodes + nodes};
  resident_draft<Logit, draft_type> drafts{draft};
  resident_decoder d{
      on_executor,
      drafter::autoregressive{drafts, tree::chain<nodes - 1>{}},
      std::remove_cvref_t<decltype(selector)>(selector),
      sampler::pipeline<sampler::temperature, sampler::top_k>{},
      verifier::rejection{},
      resident_options{
          .max_batch = slots, .max_length = 64, .chunk = nodes, .ring = 3 * nodes, .eager_rows = 0},
      random_source<>{},
      executor};
  for (std::int32_t n = 0; n < slots; ++n) {
    generation_options o;
    o.max_new_tokens = 20 + n;
    o.temperature = n == 2 ? 0.0f : 0.8f;
    o.top_k = n == 1 ? 12 : 0;
    o.seed = static_cast<std::uint64_t>(n);
    d.add(std::vector<token>{n, 3}, o);
  }
  record out;
  while (d.running() > 0) {
    d.run(4);
    d.poll([&](const ring_entry& e) {
      out.insert(out.end(), {static_cast<std::int64_t>(e.id), e.t});
    });
  }
  return out;
}

TEST_CASE_TEMPLATE("a loop without the host", Half, bfloat16, float16) {
  const auto check = []<class Toy>(std::type_identity<Toy>, const auto& selector) {
    const record half = resident_record<Half, Half, Toy>(executor::host{}, selector);
    CHECK(half.size() > 100);
    CHECK(half == resident_record<Half, float, Toy>(executor::host{}, selector));
    CHECK(half == resident_record<Half, Half, Toy>(hidden_host{}, selector));
    CHECK(half == resident_record<Half, float, Toy>(hidden_host{}, selector));
  };
  check(std::type_identity<toy_draft<float>>{}, selector::full{vocab});
  check(std::type_identity<rereading_draft<float>>{}, routed());
}

}  // namespace
}  // namespace hunch::test
