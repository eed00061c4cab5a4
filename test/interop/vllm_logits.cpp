// SPDX-License-Identifier: Apache-2.0

// The adapter for ragged chains on logits: against a scalar reference with the same random words,
// and its exact law.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/verifier/block.hpp>
#include "logits_requests.hpp"

namespace hunch::test::interop_vllm_logits {
namespace {

outputs reference(const requests& c) {
  outputs out;
  for (std::int32_t b = 0; b < c.batch(); ++b) {
    const std::int32_t begin = c.cu[static_cast<std::size_t>(b)];
    const std::int32_t last = c.cu[static_cast<std::size_t>(b) + 1] - 1;
    const double t = scale_of(c, b);
    const auto state = static_cast<std::size_t>(c.mapping[static_cast<std::size_t>(b)]);
    const auto u = [&](std::int32_t node, purpose what) {
      return kernel::uniform(
          philox{}({static_cast<std::uint64_t>(c.seed[state]),
                    static_cast<std::uint32_t>(c.pos[static_cast<std::size_t>(begin)]) + 1,
                    static_cast<std::uint32_t>(node), 0, what}));
    };
    std::vector<std::int64_t> row;
    bool done = false;
    for (std::int32_t i = 0; !done; ++i) {
      const auto logits = row_of(c.target, begin + i, c.vocab);
      const token x = begin + i < last ? c.sampled[static_cast<std::size_t>(begin + i + 1)] : -1;
      token next = no_token;
      if (t == 0.0) {
        next = static_cast<token>(std::ranges::max_element(logits) - logits.begin());
        done = next != x;
      } else {
        const auto p = softmax(logits, t);
        std::vector<double> q(p.size(), 0.0);
        if (x >= 0 && !c.has_draft) { q[static_cast<std::size_t>(x)] = 1.0; }
        if (x >= 0 && c.has_draft) {
          std::ranges::copy(softmax(row_of(c.draft, c.draft_row(b, i), c.draft_vocab), t),
                            q.begin());
        }
        if (x < 0) {
          next = picked(p, u(i, purpose::bonus));
          done = true;
        } else if (u(i, purpose::accept) * q[static_cast<std::size_t>(x)] <
                   p[static_cast<std::size_t>(x)]) {
          next = x;
        } else {
          next = picked(residual(p, q), u(i, purpose::residual));
          done = true;
        }
      }
      row.push_back(next);
    }
    out.counts.push_back(static_cast<std::int32_t>(row.size()));
    out.statuses.push_back(status::ok);
    row.resize(static_cast<std::size_t>(c.steps) + 1, -1);
    append(out.tokens, row);
  }
  return out;
}

TEST_CASE("vllm: logits and random words give the tokens of a scalar reference") {
  dice random{1};
  int differences = 0;
  int total = 0;
  for (const std::int32_t vocab : vocab_sizes) {
    for (int round = 0; round < 25; ++round) {
      CAPTURE(vocab);
      CAPTURE(round);
      const requests c = some_requests(random, 1 + round % 5, vocab);
      const outputs expected = reference(c);
      CHECK(run(c, executor::host{}) == expected);
      const outputs in_float = run<executor::host, float>(c, {});
      if (round % 3 == 0) { CHECK(run<threads, float>(c, two_blocks) == in_float); }
      if (round % 3 == 1) { CHECK(run<threads, float>(c, one_block) == in_float); }
      for (std::int64_t b = 0; b < c.batch(); ++b) {
        differences += row_of(in_float.tokens, b, 6) != row_of(expected.tokens, b, 6) ? 1 : 0;
        ++total;
      }
    }
  }
  // Floats round the laws, so that a word near a boundary picks its neighbour.
  CHECK(differences * 100 <= total);
}

TEST_CASE_TEMPLATE("vllm: logits of 16 bits give what their copies in float give", Half, bfloat16,
                   float16) {
  dice random{2};
  for (const std::int32_t vocab : vocab_sizes) {
    for (int round = 0; round < 10; ++round) {
      requests c = some_requests(random, 1 + round % 5, vocab);
      for (auto* logits : {&c.target, &c.draft}) {
        const auto halves = logits_in<Half>(*logits);
        std::ranges::transform(halves, logits->begin(), [](Half x) { return to_float(x); });
      }
      const outputs expected = run<executor::host, float>(c, {});
      CHECK(run<executor::host, Half>(c, {}) == expected);
      if (round % 3 == 0) { CHECK(run<threads, Half>(c, two_blocks) == expected); }
      if (round % 3 == 1) { CHECK(run<threads, Half>(c, one_block) == expected); }
    }
  }
}

enum class what_is_given { logits, nothing };

/// \param padded the drafts from this one on are -1.
template <class Real, class V>
double gap_of(const law_world& target, const law_world& draft, const law_world& claimed,
              std::int32_t length, what_is_given given, V verifier, std::int32_t padded = 99) {
  return exact_gap(target, static_cast<std::size_t>(length) + 1, [&](const forking_source& source) {
    const auto log_of_row = [](std::vector<double> row) {
      for (double& x : row) { x = std::log(x); }
      return row;
    };
    std::vector<Real> p_rows, q_rows;
    text drafted;
    std::vector<std::int32_t> read{0};
    for (std::int32_t i = 0; i < length; ++i) {
      append_as(p_rows, log_of_row(target.after(drafted)));
      append_as(q_rows, log_of_row(claimed.after(drafted)));
      if (i < padded) {
        drafted.push_back(drawn(source, static_cast<std::uint32_t>(i), draft.after(drafted)));
      }
      read.push_back(i < padded ? drafted.back() : -1);
    }
    append_as(p_rows, log_of_row(target.after(drafted)));
    const std::vector<std::int32_t> cu{0, length + 1};
    const std::vector<std::int64_t> pos(static_cast<std::size_t>(length) + 1, 4);
    const std::int32_t mapping = 0;
    const float temperature = 0.7f;
    const std::int64_t seed = 0;
    std::vector<std::int64_t> out(static_cast<std::size_t>(length) + 1);
    std::int32_t count = 0;
    status result = status::cache_full;
    adapter::logits_arguments<Real> args;
    args.num_reqs = args.max_num_reqs = 1;
    args.num_logits = length + 1;
    args.num_speculative_steps = length;
    args.vocab = target.vocab;
    args.target_logits = p_rows.data();
    args.draft_logits = q_rows.data();
    args.draft_sampled = read.data();
    args.cu_num_logits = cu.data();
    args.pos = pos.data();
    args.idx_mapping = &mapping;
    args.sampling.temperature = &temperature;
    args.seed = &seed;
    args.sampled = out.data();
    args.num_sampled = &count;
    args.status = &result;
    executor::host host;
    if (given == what_is_given::nothing) { args.draft_logits = nullptr; }
    std::vector<law<Real>> scratch = scratch_of(args);
    args.workspace = scratch.data();
    adapter::rejection_sample(host, args, verifier, source);
    REQUIRE(result == status::ok);
    const text emitted = emitted_of(out);
    REQUIRE(std::ssize(emitted) == count);
    return emitted;
  });
}

TEST_CASE("vllm: the law emitted from logits is the target's") {
  const verifier::rejection chain;
  const verifier::block block;
  for (const bool sparse : {false, true}) {
    for (const auto& [vocab, length] : {std::pair{2, 3}, {3, 2}, {4, 1}, {3, 0}}) {
      const law_world p{vocab, 11, sparse};
      const law_world q{vocab, 12};
      for (const auto given : {what_is_given::logits, what_is_given::nothing}) {
        CHECK(gap_of<double>(p, q, q, length, given, chain) <= 1e-12);
        CHECK(gap_of<double>(p, q, q, length, given, block) <= 1e-12);
        CHECK(gap_of<float>(p, q, q, length, given, chain) <= 1e-6);
        CHECK(gap_of<double>(p, q, q, length, given, chain, 1) <= 1e-12);
        CHECK(gap_of<double>(p, q, q, length, given, block, 0) <= 1e-12);
      }
      if (length > 0) {
        const law_world other{vocab, 13};
        CHECK(gap_of<double>(p, q, other, length, what_is_given::logits, chain) > 1e-3);
        CHECK(gap_of<double>(p, q, other, length, what_is_given::logits, block) > 1e-3);
      }
    }
  }
}

TEST_CASE_TEMPLATE("vllm: laws made side by side give what those give that are asked for", V,
                   verifier::rejection, verifier::block) {
  dice random{8};
  const auto with = [](const requests& c, auto executor, std::int32_t eager_rows) {
    logits_call<float> call(c);
    call.args.eager_rows = eager_rows;
    return call.on(executor, V{});
  };
  for (const std::int32_t vocab : vocab_sizes) {
    for (int round = 0; round < 6; ++round) {
      const requests c = some_requests(random, 1 + round % 4, vocab);
      const outputs expected = with(c, executor::host{}, 0);
      CHECK(with(c, executor::host{}, 1000) == expected);
      CHECK(with(c, one_block, 1000) == expected);
      CHECK(with(c, two_blocks, round % 2 == 0 ? 0 : 1000) == expected);
    }
  }
}

TEST_CASE("vllm: ids of 64 and of 32 bits and rows of logits that lie apart change nothing") {
  dice random{5};
  for (const std::int32_t vocab : vocab_sizes) {
    for (int round = 0; round < 6; ++round) {
      const requests c = some_requests(random, 1 + round % 4, vocab);
      const outputs expected = run<executor::host, float>(c, {});
      auto target = padded(logits_in<float>(c.target), vocab, 3);
      const auto draft = padded(logits_in<float>(c.draft), c.draft_vocab, 1 + round);
      const auto ids = widened(c.sampled);
      std::vector<std::int32_t> tokens(expected.tokens.size(), -7);
      logits_call<float> call(c);
      call.args.target_logits = target.data();
      call.args.target_stride = vocab + 3;
      if (c.has_draft) { call.args.draft_logits = draft.data(); }
      call.args.draft_stride = c.draft_vocab + 1 + round;
      call.args.draft_sampled = ids.data();
      call.args.sampled = tokens.data();
      outputs out = round % 2 == 0 ? call.on(executor::host{}) : call.on(two_blocks);
      out.tokens = widened(tokens);
      CHECK(out == expected);
    }
  }
}

TEST_CASE("vllm: a replay reads seeds, positions and temperatures where they lie") {
  dice random{6};
  requests c = some_requests(random, 4, 60);
  c.scaled = false;
  logits_call<float> recorded(c);
  recorded.args.pos = c.pos.data();
  recorded_launches graph;
  recorded.on(graph);
  CHECK(recorded.out.statuses[0] == status::cache_full);  // nothing ran at the recording
  std::vector<outputs> all;
  for (int step = 0; step < 12; ++step) {
    graph.replay();
    CHECK(recorded.out == run<executor::host, float>(c, {}));
    all.push_back(recorded.out);
    if (step % 3 == 0) {
      for (std::int64_t& seed : c.seed) { seed += 1; }
    } else if (step % 3 == 1) {
      for (std::int64_t& p : c.pos) { p += 4; }
    } else {
      for (float& t : c.temperature) { t *= 0.9f; }
    }
  }
  int changes = 0;
  for (std::size_t i = 1; i < all.size(); ++i) { changes += all[i] == all[i - 1] ? 0 : 1; }
  CHECK(changes > 3);
  graph.replay();
  const outputs before = recorded.out;
  graph.replay();
  CHECK(recorded.out == before);  // the control: what does not change is drawn again
}

TEST_CASE("vllm: correcting for a draft law where nothing was drafted is seen to be biased") {
  const law_world p{3, 11};
  const law_world q{3, 12};
  CHECK(exact_gap(p, 1, [&](const forking_source& source) {
          return text{drawn(source, 0, residual(p.after({}), q.after({})))};
        }) > 1e-3);
}

TEST_CASE("vllm: a draft that the draft's vocabulary does not have is an error of its request") {
  dice random{7};
  requests c = some_requests(random, 3, 20);
  while (!c.has_draft || c.draft_vocab >= 20 || c.cu[2] - c.cu[1] < 2 ||
         c.sampled[static_cast<std::size_t>(c.cu[1]) + 1] < 0) {
    c = some_requests(random, 3, 20);
  }
  c.temperature.assign(c.temperature.size(), 1.0f);
  const outputs expected = run(c, executor::host{});
  c.sampled[static_cast<std::size_t>(c.cu[1]) + 1] = c.draft_vocab;
  const outputs out = run(c, executor::host{});
  CHECK(run(c, one_block) == out);
  CHECK(out.statuses == std::vector<status>{status::ok, status::invalid_draft, status::ok});
  CHECK(out.counts[1] == 0);
  for (const std::int64_t b : {0, 2}) {
    CHECK(row_of(out.tokens, b, 6) == row_of(expected.tokens, b, 6));
  }
}

TEST_CASE("vllm: a bad request gets its status, the others are as without it") {
  dice random{4};
  requests good = some_requests(random, 3, 20);
  while (good.cu[2] - good.cu[1] < 3 || !good.has_draft || good.draft_vocab != 20 ||
         good.sampled[static_cast<std::size_t>(good.cu[1]) + 1] < 0) {
    good = some_requests(random, 3, 20);
  }
  good.temperature.assign(good.temperature.size(), 1.0f);
  const auto state = static_cast<std::size_t>(good.mapping[1]);
  const outputs expected = run(good, executor::host{});
  const auto check = [&](status wanted, auto&& damage, std::int32_t accepted = 0) {
    requests c = good;
    damage(c);
    const outputs out = run(c, executor::host{});
    CHECK(out.statuses[1] == wanted);
    CHECK(out.counts[1] == accepted);
    std::vector<std::int64_t> written(6, -1);
    std::copy_n(c.sampled.begin() + c.cu[1] + 1, accepted, written.begin());
    CHECK(row_of(out.tokens, 1, 6) == written);
    CHECK(row_of(out.tokens, 0, 6) == row_of(expected.tokens, 0, 6));
    CHECK(row_of(out.tokens, 2, 6) == row_of(expected.tokens, 2, 6));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto fill = [](std::vector<double>& rows, std::int64_t row, double value) {
    std::fill_n(rows.begin() + row * 20, 20, value);
  };
  const auto drafted = static_cast<std::size_t>(good.cu[1]) + 1;
  check(status::invalid_token, [&](requests& c) { c.sampled[drafted] = 20; });
  check(status::invalid_token, [&](requests& c) { c.sampled[drafted] = -2; });
  check(status::invalid_logits, [&](requests& c) { fill(c.target, c.cu[1], nan); });
  check(status::invalid_logits, [&](requests& c) { fill(c.target, c.cu[1], inf); });
  check(status::invalid_logits, [&](requests& c) { fill(c.target, c.cu[1], -inf); });
  check(status::invalid_draft, [&](requests& c) { fill(c.draft, c.draft_row(1, 0), nan); });
  check(status::invalid_draft, [&](requests& c) {
    c.draft[static_cast<std::size_t>(c.draft_row(1, 0) * 20 + c.sampled[drafted])] = -inf;
  });
  for (const float t : {-1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    check(status::invalid_parameter, [&](requests& c) { c.temperature[state] = t; });
  }
  check(status::invalid_parameter, [&](requests& c) { c.mapping[1] = -1; });
  check(status::invalid_parameter, [&](requests& c) { c.mapping[1] = c.states; });
  check(status::invalid_logits, [&](requests& c) {
    c.temperature[state] = 0.0f;
    fill(c.target, c.cu[1], nan);
  });
  // What is accepted for sure in front of a bad row stays, whether drawn or greedy.
  for (const float t : {1.0f, 0.0f}) {
    check(
        status::invalid_logits,
        [&](requests& c) {
          c.temperature[state] = t;
          fill(c.target, c.cu[1], -inf);
          c.target[static_cast<std::size_t>(c.cu[1] * 20 + c.sampled[drafted])] = 1.0;
          fill(c.target, c.cu[1] + 1, nan);
        },
        1);
  }
  for (const std::int32_t end : {-5, 1 << 30}) {
    requests c = good;
    c.cu[2] = end;
    const outputs out = run(c, executor::host{});
    CHECK(out.statuses[0] == status::ok);
    CHECK(out.statuses[1] == status::invalid_parameter);
    CHECK(out.statuses[2] == status::invalid_parameter);
  }
}

}  // namespace
}  // namespace hunch::test::interop_vllm_logits
