// SPDX-License-Identifier: Apache-2.0

// Parameters of requests as arrays, penalties and masks for the adapter on logits: against the
// library's samplers and rules on one request at a time.

#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/decoder/token_census.hpp>
#include <hunch/interop/text_census.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "logits_requests.hpp"

namespace hunch::test::interop_vllm_sampling {
namespace {

/// The census of an engine's texts, with its arrays.
struct engine_census {
  std::vector<std::int32_t> tokens, emitted, index, size;
  interop::text_census view;

  engine_census(std::int32_t states, std::int32_t vocab, std::int32_t capacity)
      : tokens(static_cast<std::size_t>(states * capacity), -9),
        emitted(tokens.size(), -9),
        index(static_cast<std::size_t>(states * vocab), -9),
        size(static_cast<std::size_t>(states), -9),
        view{.states = states,
             .vocab = vocab,
             .capacity = capacity,
             .tokens = tokens.data(),
             .emitted = emitted.data(),
             .index = index.data(),
             .size = size.data()} {}
};

/// Texts of states: prompts, and what was emitted since.
struct texts {
  std::vector<text> prompts, emitted;
};

texts some_texts(dice& random, std::int32_t states, std::int32_t vocab) {
  texts t;
  for (std::int32_t s = 0; s < states; ++s) {
    text prompt, emitted;
    for (std::int32_t i = random.below(8); i >= 0; --i) { prompt.push_back(random.below(vocab)); }
    for (std::int32_t i = random.below(8); i > 0; --i) { emitted.push_back(random.below(vocab)); }
    t.prompts.push_back(prompt);
    t.emitted.push_back(emitted);
  }
  return t;
}

/// Rows of ids, and what of them counts, for a call about all states in reverse.
template <class Id>
struct rows_of_texts {
  std::vector<std::int32_t> state, lengths;
  std::vector<Id> ids;
  std::vector<status> statuses;
  interop::counted_texts view;

  rows_of_texts(const interop::text_census& census, const std::vector<text>& of,
                std::int32_t stride) {
    for (std::int32_t s = census.states - 1; s >= 0; --s) {
      const text& t = of[static_cast<std::size_t>(s)];
      state.push_back(s);
      lengths.push_back(static_cast<std::int32_t>(t.size()));
      ids.insert(ids.end(), t.begin(), t.end());
      ids.resize(state.size() * static_cast<std::size_t>(stride), -1);
    }
    statuses.assign(state.size(), status::cache_full);
    view = {.census = census,
            .count = census.states,
            .state = state.data(),
            .ids = ids.data(),
            .stride = stride,
            .lengths = lengths.data(),
            .status = statuses.data()};
  }
};

template <class Id = std::int64_t, class E>
void count(E executor, const engine_census& census, const texts& t) {
  const rows_of_texts<Id> prompts(census.view, t.prompts, 9);
  interop::begin_texts(executor, prompts.view);
  const rows_of_texts<Id> emitted(census.view, t.emitted, 8);
  interop::count_tokens(executor, emitted.view);
  for (const auto* statuses : {&prompts.statuses, &emitted.statuses}) {
    for (const status s : *statuses) { CHECK(s == status::ok); }
  }
}

TEST_CASE("vllm: a census in arrays of an engine is that of a text") {
  dice random{1};
  for (const std::int32_t vocab : {1, 3, 40}) {
    const texts t = some_texts(random, 5, vocab);
    engine_census one(5, vocab, 16);
    count<std::int64_t>(executor::host{}, one, t);
    for (const threads& teams : {one_block, two_blocks}) {
      engine_census other(5, vocab, 16);
      count<std::int32_t>(teams, other, t);
      CHECK(one.index == other.index);
      CHECK(one.size == other.size);
      CHECK(one.tokens == other.tokens);
      CHECK(one.emitted == other.emitted);
    }
    for (std::int32_t s = 0; s < 5; ++s) {
      const auto at = static_cast<std::size_t>(s);
      counted_text expected(vocab, t.prompts[at], t.emitted[at].size());
      for (const token x : t.emitted[at]) { expected.emit(x); }
      const token_counts wanted = expected.view();
      const token_counts found = one.view.of(s, one.size[at]).view();
      REQUIRE(found.size == wanted.size);
      for (std::int32_t i = 0; i < wanted.size; ++i) {
        CHECK(found.tokens[i] == wanted.tokens[i]);
        CHECK(found.emitted[i] == wanted.emitted[i]);
      }
      CHECK(std::equal(wanted.index, wanted.index + vocab, found.index));
    }
  }
}

TEST_CASE("vllm: texts with errors are counted as far as they go, the others whole") {
  engine_census census(3, 10, 2);
  const std::vector<text> prompts{{1, 2, 1}, {3, 4, 5}, {6}};
  const auto begin = [&](auto&& damage) {
    rows_of_texts<std::int32_t> rows(census.view, prompts, 4);
    damage(rows);
    executor::host host;
    interop::begin_texts(host, rows.view);
    CHECK(rows.statuses[0] == status::ok);
    CHECK(rows.statuses[2] == status::ok);
    CHECK((census.size[2] == 1 && census.size[0] == 2));
    return rows.statuses[1];
  };
  CHECK(begin([](auto&) {}) == status::cache_full);
  CHECK(census.size[1] == 2);
  census.size[1] = 77;
  CHECK(begin([](auto& r) { r.ids[5] = 10; }) == status::invalid_token);
  CHECK(begin([](auto& r) { r.state[1] = 3; }) == status::invalid_parameter);
  CHECK(begin([](auto& r) { r.lengths[1] = 5; }) == status::invalid_parameter);
  CHECK(begin([](auto& r) { r.lengths[1] = -1; }) == status::invalid_parameter);
  CHECK(census.size[1] == 77);
}

/// What requests may have beside their temperature.
struct parameters_of_states {
  std::vector<sampling_parameters> each;
  std::vector<std::int32_t> top_k;
  std::vector<float> top_p, min_p, repetition, presence, frequency;
  std::vector<std::uint32_t> masks;
  std::int32_t words = 0;
  std::vector<std::int32_t> mask_of_row;

  interop::parameter_arrays arrays(const requests& c) {
    for (std::size_t s = 0; s < each.size(); ++s) {
      each[s].temperature = c.temperature[s];
      top_k.push_back(each[s].top_k);
      top_p.push_back(each[s].top_p);
      min_p.push_back(each[s].min_p);
      repetition.push_back(each[s].repetition_penalty);
      presence.push_back(each[s].presence_penalty);
      frequency.push_back(each[s].frequency_penalty);
    }
    return {.temperature = c.temperature.data(),
            .top_k = top_k.data(),
            .top_p = top_p.data(),
            .min_p = min_p.data(),
            .repetition_penalty = repetition.data(),
            .presence_penalty = presence.data(),
            .frequency_penalty = frequency.data()};
  }
  const std::uint32_t* mask(std::int32_t row) const {
    const std::int32_t which = mask_of_row[static_cast<std::size_t>(row)];
    return which < 0 ? nullptr : masks.data() + which * words;
  }
};

parameters_of_states some_parameters(dice& random, const requests& c) {
  parameters_of_states p;
  const auto maybe = [&](auto value, auto off) { return random.below(2) == 0 ? value : off; };
  for (std::int32_t s = 0; s < c.states; ++s) {
    p.each.push_back({.top_k = maybe(1 + random.below(c.vocab + 2), 0),
                      .top_p = maybe(0.3f + 0.7f * static_cast<float>(random.unit()), 1.0f),
                      .min_p = maybe(0.3f * static_cast<float>(random.unit()), 0.0f),
                      .repetition_penalty = maybe(1.7f, 1.0f),
                      .presence_penalty = maybe(-0.4f, 0.0f),
                      .frequency_penalty = maybe(0.3f, 0.0f)});
  }
  p.words = (c.vocab + 31) / 32 + 1;  // lie apart
  for (std::int32_t m = 0; m < 3; ++m) {
    for (std::int32_t w = 0; w < p.words; ++w) {
      p.masks.push_back(static_cast<std::uint32_t>(random.next() | random.next() << 7));
    }
  }
  for (std::size_t row = 0; row < c.sampled.size(); ++row) {
    p.mask_of_row.push_back(random.below(5) - 1 < 3 ? random.below(4) - 1 : -1);
  }
  return p;
}

/// One request at a time, by the library's samplers, rules and scalars.
template <class Real, class V>
outputs one_by_one(const requests& c, const parameters_of_states& p, const texts& t, V verifier) {
  outputs out;
  team::serial team;
  auto target = logits_in<Real>(c.target);
  auto draft = logits_in<Real>(c.draft);
  for (std::int32_t b = 0; b < c.batch(); ++b) {
    const std::int32_t begin = c.cu[static_cast<std::size_t>(b)];
    const std::int32_t state = c.mapping[static_cast<std::size_t>(b)];
    const auto at = static_cast<std::size_t>(state);
    text nodes{0};
    for (std::int32_t row = begin + 1; row < c.cu[static_cast<std::size_t>(b) + 1]; ++row) {
      const token x = c.sampled[static_cast<std::size_t>(row)];
      if (x < 0) { break; }
      nodes.push_back(x);
    }
    const auto count = static_cast<std::int32_t>(nodes.size());
    std::vector<std::int32_t> parents;
    counted_text census(c.vocab, t.prompts[at], t.emitted[at].size());
    for (const token x : t.emitted[at]) { census.emit(x); }
    std::vector<target_row<Real>> rows;
    std::vector<law<Real>> made(nodes.size()), drawn_from;
    sampling_parameters own = p.each[at];
    if (c.scaled && own.temperature != 0.0f) { own.temperature = 1.0f; }
    for (std::int32_t i = 0; i < count; ++i) {
      parents.push_back(i - 1);
      rows.push_back({{target.data() + (begin + i) * c.vocab, c.vocab}, own, {}});
      drawn_from.push_back(
          i + 1 < count && c.has_draft
              ? interop::scaled_logits{}(
                    team,
                    row_view<Real>{draft.data() + c.draft_row(b, i) * c.draft_vocab, c.draft_vocab},
                    sampling_parameters{.temperature = own.temperature}, {})
              : law<Real>{});
    }
    for (std::int32_t i = 0; i < count; ++i) {
      rows[static_cast<std::size_t>(i)].history = {.counts = census.view(),
                                                   .tree_tokens = nodes.data(),
                                                   .tree_parent = parents.data(),
                                                   .node = i,
                                                   .allowed = p.mask(begin + i)};
    }
    verdict v;
    const auto decide = [&](const auto& drafts, const auto& rule) {
      using drafts_type = std::remove_cvref_t<decltype(drafts)>;
      const verify_view<sampled_laws<Real, interop::sampled_logits>, drafts_type,
                        interop::drafted_chain>
          view{.tree = interop::drafted_chain(nodes.data() + 1, count - 1),
               .target = {rows.data(), made.data(), {}},
               .drafts = drafts,
               .seed = static_cast<std::uint64_t>(c.seed[at]),
               .length = static_cast<std::uint32_t>(c.pos[static_cast<std::size_t>(begin)]) + 1u};
      rule(team, view, random_source<>{}, v);
    };
    const auto decide_by = [&](const auto& rule) {
      if (c.has_draft) {
        decide(interop::drafts_of<const law<Real>*>{drawn_from.data(),
                                                    interop::first_tokens(c.draft_vocab)},
               rule);
      } else {
        using points = interop::point_rows<real_of<Real>>;
        decide(interop::drafts_of<points>{points{nodes.data() + 1, c.vocab},
                                          interop::first_tokens(c.vocab)},
               rule);
      }
    };
    if (own.temperature == 0.0f) {
      decide_by(verifier::greedy{});
    } else {
      decide_by(verifier);
    }
    std::vector<std::int64_t> row(nodes.begin() + 1, nodes.begin() + 1 + v.accepted);
    if (v.status == status::ok) { row.push_back(v.next); }
    out.counts.push_back(static_cast<std::int32_t>(row.size()));
    out.statuses.push_back(v.status);
    row.resize(static_cast<std::size_t>(c.steps) + 1, -1);
    append(out.tokens, row);
  }
  return out;
}

/// The same in one call.
template <class Real>
struct sampled_call : logits_call<Real> {
  parameters_of_states parameters;
  engine_census census;

  sampled_call(const requests& c, const parameters_of_states& p, const texts& t)
      : logits_call<Real>(c), parameters(p), census(c.states, c.vocab, 16) {
    count(executor::host{}, census, t);
    this->args.sampling = parameters.arrays(c);
    this->args.census = census.view;
    this->args.allowed = {.words = parameters.masks.data(),
                          .masks = 3,
                          .stride = parameters.words,
                          .mask_of_row = parameters.mask_of_row.data()};
  }
};

TEST_CASE_TEMPLATE("vllm: parameters as arrays give what one request at a time gives", Real, float,
                   bfloat16, float16) {
  dice random{2};
  int empty = 0;
  for (const std::int32_t vocab : vocab_sizes) {
    for (int round = 0; round < 12; ++round) {
      CAPTURE(vocab);
      CAPTURE(round);
      const requests c = some_requests(random, 1 + round % 5, vocab);
      const texts t = some_texts(random, c.states, vocab);
      parameters_of_states p = some_parameters(random, c);
      for (std::size_t s = 0; s < p.each.size(); ++s) { p.each[s].temperature = c.temperature[s]; }
      const auto check = [&](auto verifier) {
        const outputs expected = one_by_one<Real>(c, p, t, verifier);
        CHECK(sampled_call<Real>(c, p, t).on(executor::host{}, verifier) == expected);
        if (round % 4 == 0) {
          CHECK(sampled_call<Real>(c, p, t).on(two_blocks, verifier) == expected);
        }
        if (round % 4 == 1) {
          CHECK(sampled_call<Real>(c, p, t).on(one_block, verifier) == expected);
        }
        for (const status s : expected.statuses) { empty += s == status::empty_support ? 1 : 0; }
      };
      if (round % 3 == 0) {
        check(verifier::block{});
      } else {
        check(verifier::rejection{});
      }
    }
  }
  CHECK(empty > 0);
}

TEST_CASE("vllm: each parameter takes part, and arrays of defaults change nothing") {
  dice random{3};
  constexpr std::int32_t vocab = 60;
  int changed[8] = {};
  for (int round = 0; round < 40; ++round) {
    requests c = some_requests(random, 5, vocab);
    c.temperature.assign(c.temperature.size(), 1.0f);
    const texts t = some_texts(random, c.states, vocab);
    parameters_of_states off = some_parameters(random, c);
    off.each.assign(off.each.size(), {});
    off.mask_of_row.assign(off.mask_of_row.size(), -1);
    const outputs plain = run<executor::host, float>(c, {});
    CHECK(sampled_call<float>(c, off, t).on(executor::host{}) == plain);
    const auto differs = [&](int which, auto&& set) {
      parameters_of_states p = off;
      set(p);
      changed[which] += sampled_call<float>(c, p, t).on(executor::host{}) == plain ? 0 : 1;
    };
    const auto all = [&](int which, auto member, auto value) {
      differs(which, [&](parameters_of_states& p) {
        for (sampling_parameters& each : p.each) { each.*member = value; }
      });
    };
    all(0, &sampling_parameters::top_k, 2);
    all(1, &sampling_parameters::top_p, 0.5f);
    all(2, &sampling_parameters::min_p, 0.5f);
    all(3, &sampling_parameters::repetition_penalty, 9.0f);
    all(4, &sampling_parameters::presence_penalty, 9.0f);
    all(5, &sampling_parameters::frequency_penalty, 9.0f);
    differs(6, [](parameters_of_states& p) {
      p.mask_of_row.assign(p.mask_of_row.size(), 0);
      std::ranges::fill(p.masks, 0x55555555u);
    });
    all(7, &sampling_parameters::top_k, 0);
  }
  for (int which = 0; which < 7; ++which) {
    CAPTURE(which);
    CHECK(changed[which] > 10);
  }
  CHECK(changed[7] == 0);
}

TEST_CASE("vllm: a request with a bad parameter gets its status, the others are as without it") {
  dice random{4};
  constexpr std::int32_t vocab = 50;
  requests c = some_requests(random, 3, vocab);
  while (c.cu[2] - c.cu[1] < 3 || c.sampled[static_cast<std::size_t>(c.cu[1]) + 1] < 0) {
    c = some_requests(random, 3, vocab);
  }
  c.temperature.assign(c.temperature.size(), 0.8f);
  const texts t = some_texts(random, c.states, vocab);
  parameters_of_states good = some_parameters(random, c);
  good.mask_of_row.assign(good.mask_of_row.size(), -1);
  const auto state = static_cast<std::size_t>(c.mapping[1]);
  good.each[state] = {};
  const outputs expected = sampled_call<float>(c, good, t).on(executor::host{});
  REQUIRE(expected.statuses == std::vector<status>(3, status::ok));
  const auto check = [&](status wanted, auto&& damage) {
    parameters_of_states p = good;
    sampled_call<float> undamaged(c, p, t);
    damage(p);
    sampled_call<float> call(c, p, t);
    const outputs& out = call.on(executor::host{});
    CHECK(out.statuses[1] == wanted);
    CHECK(out.counts[1] == 0);
    CHECK(row_of(out.tokens, 1, 6) == std::vector<std::int64_t>(6, -1));
    for (const std::int64_t b : {0, 2}) {
      CHECK(out.statuses[static_cast<std::size_t>(b)] == status::ok);
      CHECK(row_of(out.tokens, b, 6) == row_of(expected.tokens, b, 6));
    }
    CHECK(sampled_call<float>(c, p, t).on(one_block) == out);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto set = [&](auto member, auto value) {
    check(status::invalid_parameter,
          [&](parameters_of_states& p) { p.each[state].*member = value; });
  };
  set(&sampling_parameters::top_k, -1);
  for (const float x : {0.0f, -0.5f, 1.5f, nan}) { set(&sampling_parameters::top_p, x); }
  for (const float x : {-0.1f, 1.5f, nan}) { set(&sampling_parameters::min_p, x); }
  for (const float x : {0.0f, -1.0f, nan}) { set(&sampling_parameters::repetition_penalty, x); }
  set(&sampling_parameters::presence_penalty, std::numeric_limits<float>::infinity());
  set(&sampling_parameters::frequency_penalty, nan);
  const auto row = static_cast<std::size_t>(c.cu[1]);
  for (const std::int32_t mask : {3, -2, 1 << 30}) {
    check(status::invalid_parameter, [&](parameters_of_states& p) { p.mask_of_row[row] = mask; });
  }
  check(status::empty_support, [&](parameters_of_states& p) {
    p.mask_of_row[row] = 1;
    std::fill_n(p.masks.begin() + p.words, p.words, 0u);
  });

  // Penalties of a text that was not counted.
  parameters_of_states p = good;
  for (sampling_parameters& each : p.each) {
    each.repetition_penalty = 1.0f;
    each.presence_penalty = each.frequency_penalty = 0.0f;
  }
  p.each[state].presence_penalty = 0.5f;
  sampled_call<float> call(c, p, t);
  call.args.census = {};
  const outputs& out = call.on(executor::host{});
  CHECK(out.statuses == std::vector<status>{status::ok, status::invalid_parameter, status::ok});
}

}  // namespace
}  // namespace hunch::test::interop_vllm_sampling
