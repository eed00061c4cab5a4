// SPDX-License-Identifier: Apache-2.0

// Penalties, biases, grammars, min-p and log-probabilities: every row, drafted, verified or bonus,
// has the history that it has in plain decoding.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../support/stages.hpp"
#include "selectors.hpp"
#include "steps.hpp"

namespace hunch::test {
namespace {

/// The last token ends the text, and after it nothing is allowed.
struct ending_grammar {
  std::int32_t vocab;

  using state = bool;  // whether the text has ended
  static state start() { return false; }
  state advance(state ended, token t) const noexcept { return ended || t == vocab - 1; }
  void allowed(state ended, std::uint32_t* words) const noexcept {
    for (std::int32_t w = 0; w < allowed_words(vocab); ++w) { words[w] = ended ? 0 : ~0u; }
  }
};
static_assert(Grammar<ending_grammar>);

struct named_options {
  const char* name;
  generation_options options;
};

/// Each stage on its own, and all of them.
std::vector<named_options> all_options(std::int32_t vocab, std::int32_t length) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  std::vector<named_options> out;
  const auto add = [&](const char* name, auto&& change) {
    generation_options o = ask(length);
    change(o);
    out.push_back({name, o});
  };
  const auto repetition = [](generation_options& o) { o.repetition_penalty = 1.5f; };
  const auto presence = [](generation_options& o) { o.presence_penalty = 0.7f; };
  const auto frequency = [](generation_options& o) { o.frequency_penalty = -0.6f; };
  const auto bias = [&](generation_options& o) { o.bias = {{1, 1.5f}, {vocab - 1, -2.0f}}; };
  const auto ban = [&](generation_options& o) { o.bias = {{1, never}}; };
  const auto grammar = [&](generation_options& o) { o.grammar = toy_grammar{vocab}; };
  const auto min_p = [](generation_options& o) { o.min_p = 0.4f; };
  add("repetition", repetition);
  add("presence", presence);
  add("frequency", frequency);
  add("bias", bias);
  add("ban", ban);
  add("grammar", grammar);
  add("min-p", min_p);
  add("end of text", [&](generation_options& o) {
    o.grammar = ending_grammar{vocab};
    o.stop_tokens = {vocab - 1};
  });
  add("all", [&](generation_options& o) { o = with_every_stage(o, vocab); });
  return out;
}

TEST_CASE("chains") {
  std::int64_t tapes = 0;
  for (const auto& named : all_options(4, 4)) {
    const std::string name = named.name;
    const generation_options& options = named.options;
    CAPTURE(name);
    exact_case c{{4, 91, flavour::smooth}, {4, 92, flavour::smooth}, {{{1, 2, 1}, options}}};
    tapes += exact_plain(c, every_stage{}, verifier::rejection{}).tapes;
    tapes += exact_chain<3>(c, selector::full{4}, every_stage{}, verifier::rejection{}).tapes;
    tapes += exact_chain<3>(c, selector::full{4}, every_stage{}, verifier::block{}).tapes;
    tapes += exact_chain<2>(c, selector::full{4}, every_stage{}, verifier::point_mass{}).tapes;
    c.requests[0].options.max_new_tokens = 3;
    tapes += over_selectors(c, every_stage{}, verifier::rejection{});
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("trees") {
  std::int64_t tapes = 0;
  for (const auto& named : all_options(4, 4)) {
    const std::string name = named.name;
    const generation_options& options = named.options;
    for (const auto& shape : {std::vector<std::int32_t>{-1, 0, 0, 1, 1}, {-1, 0, 1, 0, 3}}) {
      CAPTURE(name);
      const tree_case c{
          {4, 93, flavour::smooth}, {4, 94, flavour::smooth}, {{1, 2, 1}, options}, shape};
      step_law step;
      const auto check = [&](double gap) {
        CHECK(gap <= law_tolerance);
        tapes += step.tapes;
      };
      const selector::full all{4};
      const toy_selector some{shuffled_layout(4, 4)};
      const every_stage sampler;
      using enum child_law;
      check(step_gap<independent>(c, all, sampler, verifier::rejection{}, &step));
      check(step_gap<without_replacement>(c, all, sampler, verifier::rejection{}, &step));
      check(step_gap<ranked>(c, all, sampler, verifier::point_mass{}, &step));
      check(step_gap<without_replacement>(c, some, sampler, verifier::rejection{}, &step));
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("a batch whose requests differ in every stage") {
  const std::vector<named_options> all = all_options(3, 2);
  exact_case c{{3, 95, flavour::smooth},
               {3, 96, flavour::smooth},
               {{{1, 2}, all[0].options}, {{0}, all[5].options, 1}}};
  c.requests[0].options.seed = 1;
  c.requests[1].options.seed = 2;
  exact_chain<2>(c, selector::full{3}, every_stage{}, verifier::rejection{});
}

/// Runs requests and compares each reported log-probability with a replay from scratch.
template <class V>
std::int64_t check_log_probabilities(const std::vector<named_options>& all, V verifier,
                                     std::vector<float>* reported = nullptr) {
  constexpr std::int32_t vocab = 12;
  const toy_world world{vocab, 99, flavour::smooth};
  std::int64_t tokens = 0;
  for (const auto& named : all) {
    const std::string name = named.name;
    const generation_options& options = named.options;
    CAPTURE(name);
    toy_target<> target{world};
    toy_draft<> draft{{vocab, 100, flavour::smooth}};
    auto d = chain_decoder<3>(target, draft, every_stage{}, verifier,
                              {.max_log_probabilities = 5, .token_text = {}});
    for (const std::int32_t top : {0, 1, 5}) {
      const text prompt{1, 2, 1};
      generation_options o = options;
      o.log_probabilities = top;
      o.seed = static_cast<std::uint64_t>(top);
      d.add(prompt, o);
      text emitted;
      while (d.running() > 0) {
        for (const emission& e : d.step()) {
          const auto stride = static_cast<std::size_t>(1 + top);
          REQUIRE(e.log_probabilities.size() == e.tokens.size() * stride);
          for (std::size_t i = 0; i < e.tokens.size(); ++i) {
            const std::vector<double> law = next_law(world, o, prompt, emitted);
            const auto report = e.log_probabilities.subspan(i * stride, stride);
            CHECK(report[0].t == e.tokens[i]);
            const std::vector<std::int32_t> ranks = by_rank(law);
            for (std::size_t r = 0; r < stride; ++r) {
              const token t = report[r].t;
              if (r > 0 && t == no_token) {
                CHECK(law[static_cast<std::size_t>(ranks[r - 1])] == 0.0);
                continue;
              }
              if (r > 0) { CHECK(t == ranks[r - 1]); }
              const double p = law[static_cast<std::size_t>(t)];
              CHECK(static_cast<double>(report[r].log_probability) ==
                    doctest::Approx(std::log(p)).epsilon(1e-6));
            }
            if (reported != nullptr) { reported->push_back(report[0].log_probability); }
            emitted.push_back(e.tokens[i]);
            ++tokens;
          }
        }
      }
    }
  }
  return tokens;
}

TEST_CASE("log-probabilities equal a replay from scratch") {
  const std::vector<named_options> all = all_options(12, 30);
  CHECK(check_log_probabilities(all, verifier::rejection{}) > 300);
  CHECK(check_log_probabilities(all, verifier::block{}) > 300);
  CHECK(check_log_probabilities(all, verifier::point_mass{}) > 300);
  CHECK(check_log_probabilities(all, verifier::coupled{}) > 300);
}

TEST_CASE("a grammar that allows nothing ends its request, and no other") {
  struct nothing_after_two : toy_grammar {
    using state = toy_grammar::state;
    void allowed(const state& s, std::uint32_t* words) const noexcept {
      toy_grammar::allowed(s, words);
      if (s.length >= 2) { words[0] = 0; }
    }
  };
  toy_target<> target{{5, 101, flavour::smooth}};
  toy_draft<> draft{{5, 102, flavour::smooth}};
  auto d = chain_decoder<3>(target, draft, every_stage{}, {}, {.max_batch = 2, .token_text = {}});
  generation_options o = ask(10);
  const request_id free = d.add(text{1}, o);
  o.grammar = nothing_after_two{{5}};
  const request_id bound = d.add(text{1}, o);
  std::size_t free_tokens = 0, bound_tokens = 0;
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      (e.id == free ? free_tokens : bound_tokens) += e.tokens.size();
      if (e.finish == finish_reason::none) { continue; }
      CHECK(e.finish == (e.id == free ? finish_reason::length : finish_reason::error));
      CHECK(e.status == (e.id == free ? status::ok : status::empty_support));
    }
  }
  CHECK(free_tokens == 10);
  CHECK(bound_tokens == 2);
  CHECK_FALSE(d.is_running(bound));
}

}  // namespace
}  // namespace hunch::test
