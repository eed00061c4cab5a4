// SPDX-License-Identifier: Apache-2.0

// What the lookup drafter finds and proposes, against a search that is as simple as its definition.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/verifier/greedy.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"
#include "../support/toy_model.hpp"

namespace hunch::test {
namespace {

using text = std::vector<token>;

/// The definition: of all earlier ends, the one after the longest common tail, then the last one.
kernel::text_match reference(const text& of, std::int32_t longest) {
  const auto n = static_cast<std::int32_t>(of.size());
  kernel::text_match best;
  for (std::int32_t next = 1; next < n; ++next) {
    std::int32_t length = 0;
    while (length < std::min(longest, next) && of[static_cast<std::size_t>(next - 1 - length)] ==
                                                   of[static_cast<std::size_t>(n - 1 - length)]) {
      ++length;
    }
    if (length > 0 && length >= best.length) { best = {length, next}; }
  }
  return best;
}

/// The text with what is proposed appended, token by token.
text proposal(const text& of, std::int32_t longest, std::int32_t shortest, std::int32_t wanted) {
  const kernel::text_match match = reference(of, longest);
  text whole = of;
  if (match.length < shortest) { wanted = 0; }
  for (std::int32_t i = 0; i < wanted; ++i) {
    whole.push_back(whole[static_cast<std::size_t>(match.next + i)]);
  }
  return {whole.begin() + static_cast<std::ptrdiff_t>(of.size()), whole.end()};
}

constexpr token untouched = -7;

template <std::int32_t Longest, class E>
text proposed_by(E executor, const text& of, std::int32_t shortest, std::int32_t wanted) {
  text out(static_cast<std::size_t>(wanted) + 1, untouched);
  std::int32_t matched = -1;
  const auto n = static_cast<std::int32_t>(of.size());
  const kernel::match_task task{{of.data(), n, shortest, wanted, out.data()}, &matched};
  executor.launch(1, kernel::find_match<Longest>{&task});
  const std::int32_t length = wanted > 0 ? reference(of, Longest).length : 0;
  CHECK(matched == (length >= shortest ? length : 0));
  const std::int32_t count = matched > 0 ? wanted : 0;
  CHECK(std::all_of(out.begin() + count, out.end(), [](token t) { return t == untouched; }));
  out.resize(static_cast<std::size_t>(count));
  return out;
}

text random_text(dice& random, std::int32_t n, std::int32_t tokens) {
  text out;
  for (std::int32_t i = 0; i < n; ++i) { out.push_back(random.below(tokens)); }
  return out;
}

/// Long texts: no repetition but one, of `length` tokens, that ends in front of `next`.
text planted(std::int32_t n, std::int32_t next, std::int32_t length) {
  text out;
  for (std::int32_t i = 0; i < n; ++i) { out.push_back(1000 + i); }
  for (std::int32_t j = 1; j <= length; ++j) {
    out[static_cast<std::size_t>(n - j)] = out[static_cast<std::size_t>(next - j)];
  }
  return out;
}

template <std::int32_t Longest>
void check_text(const text& of) {
  for (const std::int32_t shortest : {1, Longest}) {
    for (const std::int32_t wanted : {0, 1, 7}) {
      const text expected = proposal(of, Longest, shortest, wanted);
      CHECK(proposed_by<Longest>(executor::host{}, of, shortest, wanted) == expected);
      if (wanted == 7) {
        CHECK(proposed_by<Longest>(threads{{}, 1, 3}, of, shortest, wanted) == expected);
        CHECK(proposed_by<Longest>(threads{{}, 2, 2}, of, shortest, wanted) == expected);
      }
    }
  }
}

TEST_CASE("the longest tail, and its last occurrence") {
  dice random{1};
#if defined(__SANITIZE_THREAD__)
  constexpr std::int32_t rounds = 20;
#else
  constexpr std::int32_t rounds = 300;
#endif
  for (std::int32_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const text of = random_text(random, 1 + random.below(60), 1 + random.below(5));
    check_text<1>(of);
    check_text<2>(of);
    check_text<4>(of);
    check_text<7>(of);
  }
}

TEST_CASE("texts that are longer than what is searched at a time") {
  for (const std::int32_t n : {8191, 8192, 8193, 8196, 20000}) {
    for (const std::int32_t next : {1, 3, 4, 5, n - 8193, n - 8192, n - 8191, n - 1}) {
      for (const std::int32_t length : {1, 3, 4}) {
        if (next < length || next >= n - length) { continue; }
        CAPTURE(n);
        CAPTURE(next);
        const text of = planted(n, next, length);
        team::serial team;
        const kernel::text_match found = kernel::longest_match<4>(team, of.data(), n);
        CHECK(found.length == length);
        CHECK(found.next == next);
        if (n == 20000) { check_text<4>(of); }
      }
    }
  }
  // A tail of four that is far away goes before shorter ones that are near.
  text far = planted(30000, 100, 4);
  far[29000] = far[29999];
  team::serial team;
  CHECK(kernel::longest_match<4>(team, far.data(), 30000).next == 100);
}

TEST_CASE("a periodic text goes on periodically") {
  for (std::int32_t period = 1; period <= 5; ++period) {
    text of;
    for (std::int32_t i = 0; i < 23; ++i) { of.push_back(i % period); }
    const text more = proposed_by<4>(executor::host{}, of, 1, 20);
    for (std::int32_t i = 0; i < 20; ++i) {
      CHECK(more[static_cast<std::size_t>(i)] == (23 + i) % period);
    }
  }
  CHECK(proposed_by<4>(executor::host{}, {5}, 1, 3).empty());
  CHECK(proposed_by<4>(executor::host{}, {5, 6, 7}, 1, 3).empty());
  CHECK(proposed_by<4>(executor::host{}, {5, 5}, 1, 3) == text{5, 5, 5});
  CHECK(proposed_by<4>(executor::host{}, {5, 6, 5}, 2, 3).empty());
}

/// The texts of a decoder, and how deep it drafted.
template <class D>
text greedy_text(D drafter, const toy_world& world, const text& prompt, std::int32_t tokens,
                 std::int32_t draft_length, std::int64_t& accepted, std::int32_t& deepest) {
  decoder d{toy_target<>{world},         drafter,
            selector::full{world.vocab}, sampler::greedy{},
            verifier::greedy{},          decoder_options{.draft_length = draft_length}};
  text out;
  generation_options asked;
  asked.max_new_tokens = tokens;
  d.add(prompt, asked);
  while (d.running() > 0) {
    for (const emission& e : d.step()) { out.insert(out.end(), e.tokens.begin(), e.tokens.end()); }
  }
  accepted = d.stats().accepted;
  deepest = 0;
  for (const std::int64_t steps : d.stats().proposed_at) { deepest += steps > 0 ? 1 : 0; }
  return out;
}

TEST_CASE("the drafter proposes no deeper than it may, and greedy texts stay what they are") {
  const toy_world world{5, 3, flavour::smooth};
  dice random{4};
  for (std::int32_t round = 0; round < 20; ++round) {
    const text prompt = random_text(random, 1 + random.below(9), 5);
    for (const std::int32_t length : {0, 1, 3, 6, 100}) {
      std::int64_t accepted = 0;
      std::int32_t deepest = 0;
      const text plain = greedy_text(drafter::none{}, world, prompt, 30, length, accepted, deepest);
      CHECK(greedy_text(drafter::lookup<6>{}, world, prompt, 30, length, accepted, deepest) ==
            plain);
      CHECK(deepest <= std::min(length, 6));
      CHECK((deepest > 0 || length == 0));  // thirty tokens of five repeat themselves
    }
  }
}

/// Drafts one level more than the last one that was accepted, and notes what it is told.
struct one_more {
  static constexpr bool needs_entropy = false;
  struct memory {
    std::int32_t wanted = 1;
    std::int32_t told = -1;
    bool operator==(const memory&) const = default;
  };
  std::int32_t begin(memory& m, std::int32_t max_depth) const {
    m.told = -1;
    return std::min(m.wanted, max_depth);
  }
  bool continues(memory& m, const length_evidence& e) const {
    CHECK(e.ahead);  // the first token, too, is known before it is drafted
    CHECK(e.depth == ++m.told);
    CHECK(e.rows == e.depth + 1);
    CHECK(e.probability == 1.0);  // a text of one token repeats its whole tail
    return true;
  }
  void observe(memory& m, std::int32_t drafted, std::int32_t accepted) const noexcept {
    CHECK(drafted == m.told + 1);
    m.wanted = accepted + 1;
  }
};

TEST_CASE("a policy decides how long a draft is, and learns what became of it") {
  decoder d{toy_target<>{{1, 3, flavour::smooth}}, drafter::lookup<9, 2, one_more>{},
            selector::full{1}, sampler::greedy{}, verifier::greedy{}};
  const text prompt{0, 0, 0};
  generation_options asked;
  asked.max_new_tokens = 40;
  d.add(prompt, asked);
  for (std::int32_t step = 1; step <= 7; ++step) {
    CHECK(std::ssize(d.step().front().tokens) == step + 1);  // one level more in each step
  }
}

/// Writes a given text, whatever was drafted: what counts is how fast.
struct scripted_target {
  std::vector<token> script;
  std::vector<std::int32_t> positions;
  std::vector<float> row = std::vector<float>(1000, 0.0f);

  struct evaluation {
    scripted_target* of;
    hunch::status status(std::int32_t) const { return status::ok; }
    row_view<float> logits(std::int32_t i) const {
      const auto at = static_cast<std::size_t>(of->positions[static_cast<std::size_t>(i)]);
      float* const out = of->rows_of[static_cast<std::size_t>(i)].data();
      out[of->script[at + 1]] = 1.0f;
      return {out, 1000};
    }
  };
  std::int32_t vocab_size() const { return 1000; }
  evaluation evaluate(const rows& r) {
    positions.assign(r.position, r.position + r.size);
    rows_of.assign(static_cast<std::size_t>(r.size), row);
    return {this};
  }
  void commit(const kept_rows&) noexcept {}

  std::vector<std::vector<float>> rows_of;
};

TEST_CASE("drafts that have failed for long are tried again where a whole tail is found") {
  // Texts of few tokens have matches that mean nothing; then one of period 17 begins.
  constexpr std::int32_t before = 600;
  constexpr std::int32_t period = 17;
  constexpr std::int32_t length = 1000;
  dice random{5};
  scripted_target target;
  for (std::int32_t i = 0; i < length + 10; ++i) {
    const bool repeats = i >= before + period;
    target.script.push_back(repeats      ? target.script[static_cast<std::size_t>(i - period)]
                            : i < before ? random.below(60)
                                         : 900 + i - before);
  }
  const std::vector<double> rows{1.0, 1.3, 1.6, 1.9, 2.2, 2.5, 2.8, 3.1, 3.4};
  decoder d{target, drafter::lookup<8, 4, length::cost>{.policy = {.rows = rows}},
            selector::full{1000}, sampler::greedy{}, verifier::greedy{}};
  generation_options asked;
  asked.max_new_tokens = length - 1;
  d.add(text{target.script[0]}, asked);
  std::int32_t written = 1;
  std::int32_t drafted = 0;
  std::int32_t late_steps = 0;
  while (d.running() > 0) {
    const emission& e = d.step().front();
    written += static_cast<std::int32_t>(e.tokens.size());
    if (written < before) { drafted += e.drafted; }
    const std::int32_t repeated = written - before - period;
    if (repeated > 6 && repeated <= 96) { ++late_steps; }
  }
  CHECK(drafted < before / 5);     // what fails is not drafted
  CHECK(late_steps < 90 / 9 + 4);  // at once, not after a few tries
}

TEST_CASE("a shortest tail that is none, or longer than the longest, is refused") {
  for (const std::int32_t shortest : {0, 5, -1}) {
    std::string why;
    try {
      drafter::lookup<3>{shortest}.check({});
    } catch (const std::invalid_argument& error) { why = error.what(); }
    CHECK(why.find("shortest tail") != std::string::npos);
  }
  drafter::lookup<3>{4}.check({});
}

}  // namespace
}  // namespace hunch::test
