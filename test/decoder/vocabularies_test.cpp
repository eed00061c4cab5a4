// SPDX-License-Identifier: Apache-2.0

// Vocabularies of one tile and of many, odd ones and large ones, by both drivers of a step, and by
// teams of several threads: the same texts.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/hash_model.hpp"
#include "../support/hidden_host.hpp"
#include "../support/stages.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test::vocabularies_test {
namespace {

constexpr std::int32_t batch = 2;
constexpr std::int32_t chunk = 3;
constexpr std::int32_t max_nodes = 6;

/// Bodies by two threads each.
struct pairs_of_threads : hidden_threads {
  pairs_of_threads() : hidden_threads{{{}, 1, 2}} {}
};

/// Most of a head, in another order than the vocabulary.
selector::frequency<> shortlist_of(std::int32_t vocab) {
  std::vector<token> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + vocab / 3, order.end());
  return {vocab_layout::permuted(std::move(order), vocab), vocab - vocab / 5};
}

struct request_of {
  std::vector<token> prompt;
  generation_options options;
};

std::vector<request_of> requests(std::int32_t vocab) {
  std::vector<request_of> all;
  for (std::int32_t n = 0; n < 3; ++n) {
    request_of r{{n % vocab, vocab - 1, vocab / 2, 0, 1 % vocab}, {}};
    r.prompt.resize(static_cast<std::size_t>(1 + 2 * n));
    r.options.max_new_tokens = 5;
    r.options.temperature = n == 1 ? 0.0f : 0.9f;
    r.options.seed = static_cast<std::uint64_t>(40 + n);
    r.options.top_k = n == 2 ? 30 : 0;
    r.options.top_p = 0.95f;
    r.options.repetition_penalty = 1.2f;
    all.push_back(r);
  }
  return all;
}

using texts = std::vector<std::vector<token>>;

template <class E>
struct models {
  explicit models(std::int32_t vocab)
      : selector(shortlist_of(vocab)),
        target(executor, vocab, 1, batch, batch * max_nodes + batch * chunk),
        draft(executor, vocab, 2, batch, batch * max_nodes + batch * chunk) {
    draft.head_layout(selector.layout());
  }

  E executor;
  selector::frequency<> selector;
  hash_model<E> target;
  hash_model<E> draft;
};

template <class E, class Tree, class V>
texts driven(std::int32_t vocab, Tree shape, V verifier) {
  models<E> m(vocab);
  decoder d{
      m.target,
      drafter::autoregressive{m.draft, shape},
      m.selector,
      every_stage{},
      verifier,
      decoder_options{.max_batch = batch, .chunk = chunk, .max_length = 256, .token_text = {}},
      random_source<>{},
      m.executor};
  texts out;
  for (const request_of& r : requests(vocab)) {
    out.emplace_back();
    for (const token t : d.generate(r.prompt, r.options)) { out.back().push_back(t); }
  }
  CHECK(d.stats().accepted > 0);
  CHECK(d.stats().accepted < d.stats().drafted);
  return out;
}

template <class E, class Tree, class V>
texts repeated(std::int32_t vocab, Tree shape, V verifier) {
  models<E> m(vocab);
  resident_decoder d{
      m.target,          drafter::autoregressive{m.draft, shape},
      m.selector,        every_stage{},
      verifier,          resident_options{.max_batch = batch, .max_length = 32, .chunk = chunk},
      random_source<>{}, m.executor};
  texts out;
  for (const request_of& r : requests(vocab)) {
    out.push_back(d.generate(r.prompt, r.options).tokens);
  }
  return out;
}

template <class Tree, class V>
void same_texts(Tree shape, V verifier) {
  static_assert(Tree::max_nodes <= max_nodes);
  for (const std::int32_t vocab : {5, 1500, 4096, 4097, 32003, 128256, 262145}) {
    CAPTURE(vocab);
    const texts expected = driven<executor::host>(vocab, shape, verifier);
    CHECK(repeated<executor::host>(vocab, shape, verifier) == expected);
    CHECK(repeated<hidden_host>(vocab, shape, verifier) == expected);
    CHECK(driven<hidden_host>(vocab, shape, verifier) == expected);
    if (vocab <= 32003) { CHECK(repeated<pairs_of_threads>(vocab, shape, verifier) == expected); }
  }
}

TEST_CASE("vocabularies: a drawn chain") { same_texts(tree::chain<3>{}, verifier::rejection{}); }
TEST_CASE("vocabularies: a ranked tree") {
  same_texts(tree::dynamic<2, 2, 6>{}, verifier::point_mass{});
}
TEST_CASE("vocabularies: they are of one tile and of many, whole and not") {
  CHECK(team::tiles_of(5) == 1);
  CHECK(team::tiles_of(4096) == 1);
  CHECK(team::tiles_of(4097) == 2);
  CHECK(team::tiles_of(262145) == 65);
}

}  // namespace
}  // namespace hunch::test::vocabularies_test
