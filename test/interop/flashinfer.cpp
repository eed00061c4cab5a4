// SPDX-License-Identifier: Apache-2.0

// The adapter for chains of one length: against a scalar reference with the same uniforms, and its
// exact law.

#include <cstdint>
#include <limits>
#include <vector>

#include <hunch/interop/flashinfer.hpp>
#include "support.hpp"

namespace hunch::test::interop_flashinfer {
namespace {

namespace adapter = interop::flashinfer;

struct outputs {
  std::vector<std::int32_t> tokens, accepted, emitted;
  std::vector<status> statuses;

  friend bool operator==(const outputs&, const outputs&) = default;
};

struct chains {
  std::int32_t batch, length, vocab;
  std::vector<float> draft, target, uniforms;
  std::vector<std::int32_t> ids;
};

chains some_chains(dice& random, std::int32_t batch, std::int32_t length, std::int32_t vocab) {
  chains c{batch, length, vocab, {}, {}, {}, {}};
  for (std::int32_t b = 0; b < batch; ++b) {
    for (std::int32_t i = 0; i < length; ++i) {
      const auto q = any_law(random, vocab);
      append(c.draft, q);
      append(c.target, random.below(3) == 0 ? q : any_law(random, vocab));
      c.ids.push_back(picked(q, random.unit()));
    }
    append(c.target, any_law(random, vocab));
  }
  c.uniforms = uniforms_of(random, static_cast<std::size_t>(batch * (length + 1)));
  return c;
}

adapter::chain_arguments<float> arguments(const chains& c, outputs& out) {
  const auto n = static_cast<std::size_t>(c.batch);
  out.tokens.assign(n * static_cast<std::size_t>(c.length + 1), -7);
  out.accepted.assign(n, 100);
  out.emitted.assign(n, 1000);
  out.statuses.assign(n, status::cache_full);
  adapter::chain_arguments<float> args;
  args.batch = c.batch;
  args.length = c.length;
  args.vocab = c.vocab;
  args.draft_probs = c.draft.data();
  args.draft_token_ids = c.ids.data();
  args.target_probs = c.target.data();
  args.output_token_ids = out.tokens.data();
  args.accepted = out.accepted.data();
  args.emitted = out.emitted.data();
  args.status = out.statuses.data();
  return args;
}

template <class E>
outputs run(const chains& c, E executor, const interop::random_keys* keys = nullptr,
            bool check_rows = false) {
  outputs out;
  auto args = arguments(c, out);
  args.check_rows = check_rows;
  if (keys != nullptr) {
    args.keys = *keys;
  } else {
    args.uniform_samples = c.uniforms.data();
  }
  adapter::chain_speculative_sampling(executor, args);
  return out;
}

outputs reference(const chains& c) {
  outputs out;
  arguments(c, out);
  for (std::int32_t b = 0; b < c.batch; ++b) {
    const auto u = [&](std::int32_t i) {
      return static_cast<double>(c.uniforms[static_cast<std::size_t>(b * (c.length + 1) + i)]);
    };
    const auto p = [&](std::int32_t i) {
      return row_of(c.target, b * (c.length + 1) + i, c.vocab);
    };
    const auto q = [&](std::int32_t i) { return row_of(c.draft, b * c.length + i, c.vocab); };
    const auto id = [&](std::int32_t i) {
      return c.ids[static_cast<std::size_t>(b * c.length + i)];
    };
    const auto passes = [&](std::int32_t i) {
      const auto x = static_cast<std::size_t>(id(i));
      return u(i) * static_cast<double>(q(i)[x]) < static_cast<double>(p(i)[x]);
    };
    std::int32_t n = 0;
    while (n < c.length && passes(n)) { ++n; }
    std::int32_t on_their_own = 0;
    for (std::int32_t i = 0; i < c.length; ++i) { on_their_own += passes(i) ? 1 : 0; }
    const std::size_t at = static_cast<std::size_t>(b);
    out.emitted[at] += n;
    out.accepted[at] += on_their_own;
    out.statuses[at] = status::ok;
    const double last = u(std::min(n + 1, c.length));
    token next = picked(n < c.length ? residual(p(n), q(n)) : p(n), last);
    if (next < 0) { next = picked(p(n), last); }
    for (std::int32_t i = 0; i <= c.length; ++i) {
      out.tokens[static_cast<std::size_t>(b * (c.length + 1) + i)] = i < n    ? id(i)
                                                                     : i == n ? next
                                                                              : -1;
    }
  }
  return out;
}

TEST_CASE("flashinfer: the same uniforms give the tokens and counts of a scalar reference") {
  dice random{1};
  int rejected = 0;
  int whole = 0;
  for (const std::int32_t vocab : vocab_sizes) {
    for (std::int32_t length = 0; length <= 5; ++length) {
      for (std::int32_t batch = 1; batch <= 5; ++batch) {
        CAPTURE(vocab);
        CAPTURE(length);
        CAPTURE(batch);
        const chains c = some_chains(random, batch, length, vocab);
        const outputs expected = reference(c);
        const outputs got = run(c, executor::host{});
        CHECK(got == expected);
        for (const std::int32_t n : got.emitted) { (n - 1000 < length ? rejected : whole) += 1; }
        // Rows of laws pass, and nothing else changes.
        CHECK(run(c, executor::host{}, nullptr, true) == expected);
        if (batch % 2 == 0) { CHECK(run(c, two_blocks, nullptr, length % 2 == 0) == expected); }
        if (batch == 3) { CHECK(run(c, one_block, nullptr, length % 2 == 0) == expected); }
      }
    }
  }
  CHECK(rejected > 200);
  CHECK(whole > 100);
}

/// What one chain emits, where drafts are drawn from `draft` and said to be drawn from `claimed`.
template <class Real>
double gap_of(const law_world& target, const law_world& draft, const law_world& claimed,
              std::int32_t length) {
  return exact_gap(target, static_cast<std::size_t>(length) + 1, [&](const forking_source& source) {
    std::vector<Real> p_rows, q_rows;
    text drafted;
    for (std::int32_t i = 0; i < length; ++i) {
      append_as(p_rows, target.after(drafted));
      append_as(q_rows, claimed.after(drafted));
      drafted.push_back(drawn(source, static_cast<std::uint32_t>(i), draft.after(drafted)));
    }
    append_as(p_rows, target.after(drafted));
    std::vector<std::int32_t> out(static_cast<std::size_t>(length) + 1);
    status result = status::cache_full;
    adapter::chain_arguments<Real> args;
    args.batch = 1;
    args.length = length;
    args.vocab = target.vocab;
    args.draft_probs = q_rows.data();
    args.draft_token_ids = drafted.data();
    args.target_probs = p_rows.data();
    args.output_token_ids = out.data();
    args.status = &result;
    executor::host{}.launch(1, adapter::chain_body<Real, forking_source>{args, source});
    REQUIRE(result == status::ok);
    return emitted_of(out);
  });
}

TEST_CASE("flashinfer: the emitted law is the target's") {
  for (const bool sparse : {false, true}) {
    for (const auto& [vocab, length] : {std::pair{2, 3}, {3, 2}, {4, 2}, {5, 1}, {3, 0}}) {
      const law_world p{vocab, 11, sparse};
      const law_world q{vocab, 12};
      CHECK(gap_of<double>(p, q, q, length) <= 1e-12);
      CHECK(gap_of<double>(p, p, p, length) <= 1e-12);
      CHECK(gap_of<float>(p, q, q, length) <= 1e-6);
      if (length > 0) {
        // The control: a law that the drafts were not drawn from.
        CHECK(gap_of<double>(p, q, {vocab, 13}, length) > 1e-3);
      }
    }
  }
}

TEST_CASE("flashinfer: a residual that is zero after rounding gives a token of the target") {
  // p falls short of q at the drafted token by one unit in the last place and exceeds it nowhere.
  chains c{1, 1, 4, {0.25f, 0.25f, 0.25f, 0.25f}, {}, {std::nextafter(1.0f, 0.0f), 0.6f}, {2}};
  c.target = c.draft;
  c.target[2] = std::nextafter(0.25f, 0.0f) - 0x1.0p-25f;
  append(c.target, c.draft);
  const outputs out = run(c, executor::host{});
  CHECK(out.statuses[0] == status::ok);
  CHECK(out.emitted[0] == 1000);
  CHECK(out.tokens == std::vector<std::int32_t>{2, -1});  // 0.6 of p, element min(0 + 1, 1)
}

TEST_CASE(
    "flashinfer: seeds of sequences do not depend on the batch, a shared seed is not shared") {
  dice random{5};
  chains c = some_chains(random, 1, 4, 40);
  const chains one = c;
  for (int copy = 1; copy < 5; ++copy) {
    append(c.draft, one.draft);
    append(c.target, one.target);
    append(c.ids, one.ids);
    ++c.batch;
  }
  const std::vector<std::uint64_t> seeds{7, 8, 7, 9, 8};
  const std::vector<std::uint32_t> lengths(5, 21);
  interop::random_keys keys;
  keys.seeds = seeds.data();
  for (const std::uint32_t* const by_length : {lengths.data(), (const std::uint32_t*)nullptr}) {
    keys.lengths = by_length;
    const outputs out = run(c, executor::host{}, &keys);
    const auto of = [&](std::int64_t b) { return row_of(out.tokens, b, 5); };
    CHECK(of(0) == of(2));
    CHECK(of(1) == of(4));
    CHECK(run(c, two_blocks, &keys) == out);
  }
  int differences = 0;
  for (std::uint64_t offset = 0; offset < 40; ++offset) {
    const interop::random_keys shared{3, offset, nullptr, nullptr};
    const outputs out = run(c, executor::host{}, &shared);
    CHECK(run(c, executor::host{}, &shared) == out);
    for (std::int64_t b = 1; b < 5; ++b) {
      differences += row_of(out.tokens, b, 5) != row_of(out.tokens, 0, 5) ? 1 : 0;
    }
  }
  CHECK(differences > 40);
}

TEST_CASE("flashinfer: a bad sequence gets its status, the others are as without it") {
  dice random{6};
  const std::int32_t vocab = 20;
  const chains good = some_chains(random, 3, 3, vocab);
  const outputs expected = run(good, executor::host{});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const auto p_row = [&](chains& c, std::int64_t i) { return c.target.data() + (4 + i) * vocab; };
  const auto q_row = [&](chains& c, std::int64_t i) { return c.draft.data() + (3 + i) * vocab; };
  const auto check_with = [&](bool check_rows, status wanted, auto&& damage,
                              std::int32_t accepted) {
    chains c = good;
    damage(c);
    const outputs out = run(c, executor::host{}, nullptr, check_rows);
    CHECK(run(c, one_block, nullptr, check_rows) == out);
    CHECK(out.statuses[1] == wanted);
    std::vector<std::int32_t> written(4, -1);
    std::copy_n(c.ids.begin() + 3, accepted, written.begin());
    CHECK(row_of(out.tokens, 1, 4) == written);
    CHECK(out.accepted[1] == 100 + accepted);
    CHECK(out.emitted[1] == 1000 + accepted);
    for (const std::int64_t b : {0, 2}) {
      CHECK(row_of(out.tokens, b, 4) == row_of(expected.tokens, b, 4));
      CHECK(out.statuses[static_cast<std::size_t>(b)] == status::ok);
    }
  };
  const auto check = [&](status wanted, auto&& damage, std::int32_t accepted = 0) {
    check_with(false, wanted, damage, accepted);
    check_with(true, wanted, damage, accepted);
  };
  const auto all = [&](float* row, float value) { std::fill(row, row + vocab, value); };
  check(status::invalid_token, [&](chains& c) { c.ids[3] = -1; });
  check(status::invalid_token, [&](chains& c) { c.ids[5] = vocab; });
  check(status::invalid_token, [&](chains& c) { c.ids[4] = std::numeric_limits<int>::min(); });
  check(status::invalid_draft, [&](chains& c) { q_row(c, 0)[c.ids[3]] = 0.0f; });
  check(status::invalid_draft, [&](chains& c) { all(q_row(c, 0), nan); });
  check(status::invalid_logits, [&](chains& c) { all(p_row(c, 0), nan); });
  check(status::invalid_logits, [&](chains& c) { all(p_row(c, 0), 0.0f); });
  check(status::invalid_logits, [&](chains& c) { all(p_row(c, 0), -1.0f); });
  check(status::invalid_logits, [&](chains& c) { all(p_row(c, 0), inf); });
  const auto q_is_no_law = [&](chains& c) {  // rejected for sure
    p_row(c, 0)[c.ids[3]] = 0.0f;
    float rest = 0.0f;
    for (int v = 0; v < vocab; ++v) { rest += p_row(c, 0)[v]; }
    p_row(c, 0)[(c.ids[3] + 1) % vocab] += 1.0f - rest;
    all(q_row(c, 0), 1.0f);
  };
  check_with(true, status::invalid_draft, q_is_no_law, 0);
  // Only the sum of a row tells that it is none.
  const auto p_is_no_law = [&](chains& c) {
    all(p_row(c, 0), 0.4f);
    p_row(c, 0)[c.ids[3]] = 0.0f;
  };
  check_with(true, status::invalid_logits, p_is_no_law, 0);
  for (const auto& damage : {std::function<void(chains&)>(q_is_no_law), {p_is_no_law}}) {
    chains c = good;
    damage(c);
    CHECK(run(c, executor::host{}).statuses[1] == status::ok);
  }
  // What is accepted for sure in front of a bad row stays.
  const auto certain = [&](chains& c) {
    all(p_row(c, 0), 0.0f);
    p_row(c, 0)[c.ids[3]] = 1.0f;
  };
  check(
      status::invalid_logits,
      [&](chains& c) {
        certain(c);
        all(p_row(c, 1), nan);
      },
      1);
  check(
      status::invalid_draft,
      [&](chains& c) {
        certain(c);
        all(q_row(c, 1), nan);
      },
      1);
}

TEST_CASE("flashinfer: whatever the rows hold, a token is in the vocabulary or there is a status") {
  dice random{9};
  const std::int32_t vocab = 130;
  const float odd[] = {
      0.0f,         -1.0f, 1e-40f, 0.3f, 2.0f, 3e38f, std::numeric_limits<float>::infinity(),
      std::nanf("")};
  int with_status = 0;
  for (int round = 0; round < 300; ++round) {
    chains c = some_chains(random, 2, 3, vocab);
    for (std::vector<float>* const rows : {&c.draft, &c.target}) {
      for (int i = 0; i < 1 << random.below(9); ++i) {
        (*rows)[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(rows->size())))] =
            odd[random.below(8)];
      }
    }
    const outputs out = run(c, executor::host{}, nullptr, round % 2 == 0);
    for (std::int64_t b = 0; b < 2; ++b) {
      const text emitted = emitted_of(row_of(out.tokens, b, 4));
      const auto at = static_cast<std::size_t>(b);
      const bool ok = out.statuses[at] == status::ok;
      with_status += ok ? 0 : 1;
      CHECK(std::ssize(emitted) == out.emitted[at] - 1000 + (ok ? 1 : 0));
      for (const token t : emitted) { CHECK((t >= 0 && t < vocab)); }
    }
  }
  CHECK(with_status > 50);
}

TEST_CASE("flashinfer: ids of 64 bits and rows that lie apart change nothing") {
  dice random{10};
  for (const std::int32_t vocab : vocab_sizes) {
    const chains c = some_chains(random, 4, 3, vocab);
    const outputs expected = run(c, executor::host{});
    const auto draft = padded(c.draft, vocab, 5);
    const auto target = padded(c.target, vocab, 3);
    const auto ids = widened(c.ids);
    const auto check = [&](auto executor) {
      outputs out;
      auto args = arguments(c, out);
      std::vector<std::int64_t> tokens(out.tokens.size(), -7);
      args.uniform_samples = c.uniforms.data();
      args.draft_probs = draft.data();
      args.target_probs = target.data();
      args.draft_stride = vocab + 5;
      args.target_stride = vocab + 3;
      args.draft_token_ids = ids.data();
      args.output_token_ids = tokens.data();
      args.check_rows = true;
      adapter::chain_speculative_sampling(executor, args);
      out.tokens.assign(tokens.begin(), tokens.end());
      CHECK(out == expected);
    };
    check(executor::host{});
    check(two_blocks);
  }
}

TEST_CASE("flashinfer: an id of 64 bits that is none is not cut down to one") {
  dice random{11};
  const chains c = some_chains(random, 1, 2, 20);
  for (const std::int64_t id : {(std::int64_t(1) << 32) + c.ids[0], -(std::int64_t(1) << 40)}) {
    outputs out;
    auto args = arguments(c, out);
    const std::vector<std::int64_t> ids{id, c.ids[1]};
    args.draft_token_ids = ids.data();
    args.uniform_samples = c.uniforms.data();
    executor::host host;
    adapter::chain_speculative_sampling(host, args);
    CHECK(out.statuses[0] == status::invalid_token);
  }
}

TEST_CASE("flashinfer: a replay reads seeds, offsets and lengths where they lie") {
  dice random{12};
  const chains c = some_chains(random, 3, 4, 60);
  std::uint64_t seed = 5;
  std::uint64_t offset = 0;
  std::vector<std::uint64_t> seeds{7, 8, 9};
  std::vector<std::uint32_t> lengths{20, 30, 40};
  const interop::random_keys forms[] = {{.seed = &seed, .offset = &offset},
                                        {.offset = &offset, .seeds = seeds.data()},
                                        {.seeds = seeds.data(), .lengths = lengths.data()},
                                        {.seed = 5, .offset = 0}};
  for (const interop::random_keys& keys : forms) {
    outputs out;
    auto args = arguments(c, out);
    args.accepted = args.emitted = nullptr;
    args.keys = keys;
    recorded_launches graph;
    adapter::chain_speculative_sampling(graph, args);
    const outputs unwritten = out;
    std::vector<std::vector<std::int32_t>> texts;
    for (int step = 0; step < 12; ++step) {
      CHECK(unwritten.statuses[0] == status::cache_full);  // nothing ran at the recording
      graph.replay();
      const outputs replayed = out;
      interop::random_keys now = keys;  // the numbers of an eager call
      if (&keys == &forms[0]) { now = {.seed = seed, .offset = offset}; }
      CHECK(run(c, executor::host{}, &now).tokens == replayed.tokens);
      texts.push_back(replayed.tokens);
      offset += 1;
      for (std::uint32_t& n : lengths) { n += 1 + static_cast<std::uint32_t>(step); }
    }
    int changes = 0;
    for (std::size_t i = 1; i < texts.size(); ++i) { changes += texts[i] != texts[i - 1] ? 1 : 0; }
    // The control: numbers are part of what was recorded.
    CHECK((&keys == &forms[3] ? changes == 0 : changes > 6));
    offset = 0;
  }
}

TEST_CASE("uniforms of the caller become the words that have them") {
  for (const double u : {0.0, 0x1.0p-53, 0.1, 0.5, 1.0 - 0x1.0p-53}) {
    CHECK(kernel::uniform(kernel::word_of(u)) == std::floor(u * 0x1.0p53) * 0x1.0p-53);
  }
  CHECK(kernel::uniform(kernel::word_of(1.0)) == 1.0 - 0x1.0p-53);
  CHECK(kernel::uniform(kernel::word_of(std::numeric_limits<double>::infinity())) < 1.0);
  CHECK(kernel::word_of(-0.5) == 0);
  CHECK(kernel::word_of(std::numeric_limits<double>::quiet_NaN()) == 0);
}

}  // namespace
}  // namespace hunch::test::interop_flashinfer
