// SPDX-License-Identifier: Apache-2.0

// The adapter for ragged chains on probabilities: against a scalar reference with the same
// uniforms, and its exact law.

#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/interop/vllm.hpp>
#include "support.hpp"

namespace hunch::test::interop_vllm {
namespace {

namespace adapter = interop::vllm;

struct outputs {
  std::vector<std::int32_t> tokens;
  std::vector<status> statuses;

  friend bool operator==(const outputs&, const outputs&) = default;
};

struct ragged {
  std::int32_t most = 0, vocab = 0;
  std::vector<std::int32_t> ends, ids, bonus;
  std::vector<float> draft, target, tests, recoveries;
  std::vector<std::uint8_t> greedy;
  bool has_draft = true;

  std::int32_t batch() const { return static_cast<std::int32_t>(ends.size()); }
};

ragged some_chains(dice& random, std::int32_t batch, std::int32_t vocab) {
  ragged c;
  c.most = 5;
  c.vocab = vocab;
  c.has_draft = random.below(3) > 0;
  for (std::int32_t b = 0; b < batch; ++b) {
    const std::int32_t length = random.below(6);
    c.ends.push_back(static_cast<std::int32_t>(c.ids.size()) + length);
    c.bonus.push_back(random.below(vocab));
    c.greedy.push_back(random.below(4) == 0 ? 1 : 0);
    for (std::int32_t i = 0; i < length; ++i) {
      const auto q = any_law(random, vocab);
      const auto p = random.below(3) == 0 ? q : any_law(random, vocab);
      append(c.draft, q);
      append(c.target, p);
      c.ids.push_back(random.below(4) == 0
                          ? static_cast<token>(std::ranges::max_element(p) - p.begin())
                          : picked(q, random.unit()));
      if (q[static_cast<std::size_t>(c.ids.back())] <= 0.0f) { c.ids.back() = picked(q, 0.5); }
    }
  }
  c.tests = uniforms_of(random, c.ids.size());
  c.recoveries = uniforms_of(random, static_cast<std::size_t>(batch));
  return c;
}

template <class E>
outputs run(const ragged& c, E executor, const interop::random_keys* keys = nullptr,
            bool check_rows = false) {
  outputs out;
  out.tokens.assign(static_cast<std::size_t>(c.batch() * (c.most + 1)), -7);
  out.statuses.assign(static_cast<std::size_t>(c.batch()), status::cache_full);
  adapter::rejection_arguments<float> args;
  args.check_rows = check_rows;
  args.batch = c.batch();
  args.num_tokens = static_cast<std::int32_t>(c.ids.size());
  args.max_spec_len = c.most;
  args.vocab = c.vocab;
  args.draft_token_ids = c.ids.data();
  args.cu_num_draft_tokens = c.ends.data();
  args.draft_probs = c.has_draft ? c.draft.data() : nullptr;
  args.target_probs = c.target.data();
  args.bonus_token_ids = c.bonus.data();
  args.is_greedy = c.greedy.data();
  args.output_token_ids = out.tokens.data();
  args.status = out.statuses.data();
  if (keys != nullptr) {
    args.keys = *keys;
  } else {
    args.uniform_probs = c.tests.data();
    args.recovery_uniforms = c.recoveries.data();
  }
  adapter::rejection_sample(executor, args);
  return out;
}

outputs reference(const ragged& c) {
  outputs out;
  for (std::int32_t b = 0; b < c.batch(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    const std::int32_t begin = b == 0 ? 0 : c.ends[at - 1];
    const std::int32_t end = c.ends[at];
    std::vector<std::int32_t> row;
    bool rejected = false;
    for (std::int32_t t = begin; t < end && !rejected; ++t) {
      const token x = c.ids[static_cast<std::size_t>(t)];
      const auto p = row_of(c.target, t, c.vocab);
      std::vector<float> q(p.size(), 0.0f);
      q[static_cast<std::size_t>(x)] = 1.0f;
      if (c.has_draft) { q = row_of(c.draft, t, c.vocab); }
      token next = x;
      if (c.greedy[at] != 0) {
        next = static_cast<token>(std::ranges::max_element(p) - p.begin());
        rejected = next != x;
      } else {
        const double u = c.tests[static_cast<std::size_t>(t)];
        rejected = !(u * static_cast<double>(q[static_cast<std::size_t>(x)]) <
                     static_cast<double>(p[static_cast<std::size_t>(x)]));
        if (rejected) {
          next = picked(residual(p, q), c.recoveries[at]);
          if (next < 0) { next = picked(p, c.recoveries[at]); }
        }
      }
      row.push_back(next);
    }
    if (!rejected) { row.push_back(c.bonus[at]); }
    row.resize(static_cast<std::size_t>(c.most) + 1, -1);
    append(out.tokens, row);
    out.statuses.push_back(status::ok);
  }
  return out;
}

TEST_CASE("vllm: the same uniforms give the tokens of a scalar reference") {
  dice random{1};
  for (const std::int32_t vocab : vocab_sizes) {
    for (int round = 0; round < 25; ++round) {
      CAPTURE(vocab);
      CAPTURE(round);
      const ragged c = some_chains(random, 1 + round % 5, vocab);
      const outputs expected = reference(c);
      CHECK(run(c, executor::host{}) == expected);
      CHECK(run(c, executor::host{}, nullptr, true) == expected);
      if (round % 3 == 0) { CHECK(run(c, two_blocks) == expected); }
      if (round % 3 == 1) { CHECK(run(c, one_block) == expected); }
    }
  }
}

/// \param claimed what the rows say that drafts were drawn from; nullptr: no rows.
template <class Real>
double gap_of(const law_world& target, const law_world& draft, const law_world* claimed,
              std::int32_t length) {
  return exact_gap(target, static_cast<std::size_t>(length) + 1, [&](const forking_source& source) {
    std::vector<Real> p_rows, q_rows;
    text drafted;
    for (std::int32_t i = 0; i < length; ++i) {
      append_as(p_rows, target.after(drafted));
      if (claimed != nullptr) { append_as(q_rows, claimed->after(drafted)); }
      drafted.push_back(drawn(source, static_cast<std::uint32_t>(i), draft.after(drafted)));
    }
    const std::int32_t bonus = drawn(source, 100, target.after(drafted));
    const std::int32_t end = length;
    std::vector<std::int32_t> out(static_cast<std::size_t>(length) + 1);
    status result = status::cache_full;
    adapter::rejection_arguments<Real> args;
    args.batch = 1;
    args.num_tokens = length;
    args.max_spec_len = length;
    args.vocab = target.vocab;
    args.draft_token_ids = drafted.data();
    args.cu_num_draft_tokens = &end;
    args.draft_probs = q_rows.data();
    args.target_probs = p_rows.data();
    args.bonus_token_ids = &bonus;
    args.output_token_ids = out.data();
    args.status = &result;
    executor::host host;
    if (claimed != nullptr) {
      host.launch(1, adapter::rejection_body<Real, forking_source, true>{args, source});
    } else {
      host.launch(1, adapter::rejection_body<Real, forking_source, false>{args, source});
    }
    REQUIRE(result == status::ok);
    return emitted_of(out);
  });
}

TEST_CASE("vllm: the emitted law is the target's, with and without laws of the draft") {
  for (const bool sparse : {false, true}) {
    for (const auto& [vocab, length] : {std::pair{2, 3}, {3, 2}, {4, 1}, {3, 0}}) {
      const law_world p{vocab, 11, sparse};
      const law_world q{vocab, 12};
      const law_world other{vocab, 13};
      CHECK(gap_of<double>(p, q, &q, length) <= 1e-12);
      CHECK(gap_of<double>(p, q, nullptr, length) <= 1e-12);
      CHECK(gap_of<float>(p, q, &q, length) <= 1e-6);
      CHECK(gap_of<float>(p, q, nullptr, length) <= 1e-6);
      if (length > 0) { CHECK(gap_of<double>(p, q, &other, length) > 1e-3); }
    }
  }
}

TEST_CASE("vllm: logits will do for greedy rows, and the lower id wins a tie") {
  ragged c;
  c.most = 2;
  c.vocab = 3;
  c.has_draft = false;
  c.ends = {2, 3};
  c.ids = {1, 2, 2};
  c.bonus = {0, 2};
  c.greedy = {1, 1};
  c.target = {-5.0f, 4.0f, 4.0f, -1.0f, -3.0f, -0.5f, 7.0f, 7.0f, 6.0f};
  CHECK(run(c, executor::host{}).tokens == std::vector<std::int32_t>{1, 2, 0, 0, -1, -1});
}

TEST_CASE("vllm: seeds of sequences do not depend on the batch") {
  dice random{3};
  ragged c = some_chains(random, 1, 60);
  while (c.ids.size() < 3) { c = some_chains(random, 1, 60); }
  c.greedy[0] = 0;
  const ragged one = c;
  for (int copy = 1; copy < 3; ++copy) {
    append(c.draft, one.draft);
    append(c.target, one.target);
    append(c.ids, one.ids);
    append(c.bonus, one.bonus);
    append(c.greedy, one.greedy);
    c.ends.push_back(static_cast<std::int32_t>(c.ids.size()));
  }
  for (std::uint32_t length = 0; length < 20; ++length) {
    const std::vector<std::uint64_t> seeds{7, 8, 7};
    const std::vector<std::uint32_t> lengths(3, length);
    const interop::random_keys keys{0, 0, seeds.data(), lengths.data()};
    const outputs out = run(c, executor::host{}, &keys);
    CHECK(row_of(out.tokens, 0, 6) == row_of(out.tokens, 2, 6));
    CHECK(run(c, two_blocks, &keys) == out);
  }
}

TEST_CASE("vllm: ids of 64 bits and rows that lie apart change nothing") {
  dice random{5};
  for (const std::int32_t vocab : vocab_sizes) {
    const ragged c = some_chains(random, 4, vocab);
    const outputs expected = run(c, executor::host{});
    const auto draft = padded(c.draft, vocab, 2);
    const auto target = padded(c.target, vocab, 7);
    const auto ids = widened(c.ids);
    const auto bonus = widened(c.bonus);
    std::vector<std::int64_t> tokens(expected.tokens.size(), -7);
    std::vector<status> statuses(expected.statuses.size(), status::cache_full);
    adapter::rejection_arguments<float> args;
    args.batch = c.batch();
    args.num_tokens = static_cast<std::int32_t>(c.ids.size());
    args.max_spec_len = c.most;
    args.vocab = vocab;
    args.draft_stride = vocab + 2;
    args.target_stride = vocab + 7;
    args.draft_token_ids = ids.data();
    args.cu_num_draft_tokens = c.ends.data();
    args.draft_probs = c.has_draft ? draft.data() : nullptr;
    args.target_probs = target.data();
    args.bonus_token_ids = bonus.data();
    args.is_greedy = c.greedy.data();
    args.output_token_ids = tokens.data();
    args.status = statuses.data();
    args.uniform_probs = c.tests.data();
    args.recovery_uniforms = c.recoveries.data();
    executor::host host;
    adapter::rejection_sample(host, args);
    CHECK(tokens == widened(expected.tokens));
    CHECK(statuses == expected.statuses);
  }
}

TEST_CASE("vllm: whether rows are laws is looked at where that is wanted") {
  ragged c;
  c.most = 1;
  c.vocab = 3;
  c.ends = {1};
  c.ids = {1};
  c.bonus = {0};
  c.greedy = {0};
  c.tests = {0.9f};
  c.recoveries = {0.1f};
  c.draft = {0.0f, 1.0f, 0.0f};
  c.target = {0.4f, 0.1f, 0.4f};
  CHECK(run(c, executor::host{}).statuses[0] == status::ok);
  CHECK(run(c, executor::host{}, nullptr, true).statuses[0] == status::invalid_logits);
  c.target[2] = 0.5f;
  CHECK(run(c, executor::host{}, nullptr, true).statuses[0] == status::ok);
  c.draft[0] = 0.3f;
  CHECK(run(c, executor::host{}).statuses[0] == status::ok);
  CHECK(run(c, executor::host{}, nullptr, true).statuses[0] == status::invalid_draft);
}

TEST_CASE("vllm: a bad sequence gets its status, the others are as without it") {
  dice random{4};
  ragged good = some_chains(random, 3, 20);
  while (good.ends[1] - good.ends[0] < 2) { good = some_chains(random, 3, 20); }
  good.greedy = {0, 0, 0};
  const auto first = static_cast<std::size_t>(good.ends[0]);
  for (const bool has_draft : {true, false}) {
    good.has_draft = has_draft;
    const outputs expected = run(good, executor::host{});
    const auto check = [&](status wanted, auto&& damage, std::int32_t accepted = 0) {
      ragged c = good;
      damage(c);
      const outputs out = run(c, executor::host{});
      CHECK(run(c, executor::host{}, nullptr, true) == out);
      CHECK(out.statuses[1] == wanted);
      std::vector<std::int32_t> written(6, -1);
      std::copy_n(c.ids.begin() + static_cast<std::ptrdiff_t>(first), accepted, written.begin());
      CHECK(row_of(out.tokens, 1, 6) == written);
      CHECK(row_of(out.tokens, 0, 6) == row_of(expected.tokens, 0, 6));
      CHECK(row_of(out.tokens, 2, 6) == row_of(expected.tokens, 2, 6));
    };
    const auto fill = [&](std::vector<float>& rows, float value) {
      std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(first) * 20, 20, value);
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    check(status::invalid_token, [&](ragged& c) { c.ids[first] = -1; });
    check(status::invalid_token, [&](ragged& c) { c.ids[first + 1] = 20; });
    check(status::invalid_logits, [&](ragged& c) { fill(c.target, nan); });
    check(status::invalid_logits, [&](ragged& c) { fill(c.target, 0.0f); });
    check(status::invalid_logits, [&](ragged& c) {
      c.greedy[1] = 1;
      fill(c.target, nan);
    });
    check(
        status::invalid_token,
        [&](ragged& c) {  // everything is accepted: the bonus is due
          c.greedy[1] = 1;
          c.bonus[1] = -1;
          for (auto t = static_cast<std::int64_t>(first); t < c.ends[1]; ++t) {
            c.target[static_cast<std::size_t>(t * 20 + c.ids[static_cast<std::size_t>(t)])] = 9.0f;
          }
        },
        good.ends[1] - good.ends[0]);
    // What is accepted for sure in front of a bad row stays.
    const auto certain = [&](ragged& c) {
      fill(c.target, 0.0f);
      c.target[first * 20 + static_cast<std::size_t>(c.ids[first])] = 1.0f;
    };
    check(
        status::invalid_logits,
        [&](ragged& c) {
          certain(c);
          std::fill_n(c.target.begin() + static_cast<std::ptrdiff_t>(first + 1) * 20, 20, nan);
        },
        1);
    check(
        status::invalid_logits,
        [&](ragged& c) {  // no law, where one value of it was read
          certain(c);
          c.target[first * 20 + 20 + static_cast<std::size_t>(c.ids[first + 1])] = 2.0f;
        },
        1);
    if (has_draft) {
      check(
          status::invalid_draft,
          [&](ragged& c) {
            certain(c);
            std::fill_n(c.draft.begin() + static_cast<std::ptrdiff_t>(first + 1) * 20, 20, nan);
          },
          1);
    }
    if (has_draft) {
      check(status::invalid_draft, [&](ragged& c) { fill(c.draft, 0.0f); });
      check(status::invalid_draft, [&](ragged& c) { fill(c.draft, nan); });
    }
  }
  // Ranges that lead out of the arrays.
  for (const std::int32_t end : {-1, 1 << 30, std::numeric_limits<std::int32_t>::min()}) {
    ragged c = good;
    c.ends[1] = end;
    const outputs out = run(c, executor::host{});
    CHECK(out.statuses[0] == status::ok);
    CHECK(out.statuses[1] == status::invalid_parameter);
    CHECK(out.statuses[2] == status::invalid_parameter);
    CHECK(row_of(out.tokens, 1, 6) == std::vector<std::int32_t>(6, -1));
  }
}

}  // namespace
}  // namespace hunch::test::interop_vllm
