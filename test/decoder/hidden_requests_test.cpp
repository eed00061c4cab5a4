// SPDX-License-Identifier: Apache-2.0

// Grammars, stop strings and log-probabilities where the host does not read what a step makes: all
// that requests are told, and all that their grammars are asked, is what it is where the host does.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/erased_decoders.hpp"
#include "../support/hash_model.hpp"
#include "../support/hidden_host.hpp"
#include "../support/lazy_host.hpp"
#include "../support/padded_grid_models.hpp"
#include "../support/stages.hpp"
#include "../support/varied_requests.hpp"

namespace hunch::test::hidden_requests_test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr std::int32_t chunk = 4;
constexpr std::int32_t request_count = 32;

/// Texts, by their hashes.
using texts = std::set<std::uint64_t>;

/// A grammar that notes after which texts it was asked what may follow. From a length on it allows
/// nothing.
struct noting_grammar {
  toy_grammar rule;
  std::int32_t longest;
  std::shared_ptr<texts> asked;

  struct state {
    toy_grammar::state of_rule;
    std::uint64_t text;
  };
  state start() const { return {toy_grammar::start(), 1}; }
  state advance(const state& s, token t) const noexcept {
    return {toy_grammar::advance(s.of_rule, t), extend(s.text, t)};
  }
  void allowed(const state& s, std::uint32_t* words) const noexcept {
    asked->insert(s.text);
    rule.allowed(s.of_rule, words);
    if (s.of_rule.length >= longest) { std::fill_n(words, allowed_words(vocab), 0u); }
  }
};
static_assert(Grammar<noting_grammar>);

/// The bytes of a token: none, one or two.
std::string_view bytes_of(token t) {
  static constexpr std::string_view all[] = {"a", "b", "", "ab", "ba"};
  return all[t % 5];
}

/// A request, and when it is cancelled.
struct asked_request {
  request of;
  std::int32_t emissions = 0;  ///< after so many; 0: never
  std::shared_ptr<texts> grammar_asked = std::make_shared<texts>();
};

/// Requests with every choice of the three, in an order in which each slot gets some with them
/// after some without.
std::vector<asked_request> requests_of() {
  std::vector<asked_request> all;
  for (std::int32_t n = 0; n < request_count; ++n) {
    asked_request r{varied_request(n, {.tokens = 5, .longest_prompt = 11, .longest_text = 17}),
                    n % 5 == 4 ? 2 : 0};
    generation_options& o = r.of.options;
    o.max_new_tokens += 5;
    o.repetition_penalty = 1.2f;
    o.bias = {{5, 4.0f}, {6, 4.0f}, {9, 4.0f}};  // texts repeat themselves, for what is copied
    o.top_p = 0.95f;
    if (n % 3 == 0) { o.stop_tokens = {6, 20}; }  // which occur
    if ((n & 1) != 0) {
      o.grammar = noting_grammar{{vocab}, n % 8 == 5 ? 4 : 100, r.grammar_asked};
    }
    if ((n & 2) != 0) { o.stop_strings = {"abb", "aaa"}; }
    if ((n & 4) != 0) { o.log_probabilities = n % 4; }
    all.push_back(r);
  }
  return all;
}

/// All that each request was told, emission by emission, and what its grammar was asked about; how
/// many ended for each reason, and at how many stop strings inside of an accepted run.
struct record {
  std::vector<std::vector<std::int64_t>> told;
  std::vector<texts> asked;
  std::map<finish_reason, std::int32_t> ends;
  std::int32_t cuts = 0;
  friend bool operator==(const record&, const record&) = default;
};

/// What requests are told, of which up to `batch` run at the same time.
record record_of(stepped_decoder& d, const std::vector<asked_request>& requests,
                 std::int32_t batch) {
  record out;
  out.told.resize(requests.size());
  std::vector<std::int32_t> emissions(requests.size());
  std::map<request_id, std::size_t> number;
  std::size_t added = 0;
  while (added < requests.size() || d.running() > 0) {
    while (added < requests.size() && d.running() < batch) {
      number[d.add(requests[added].of)] = added;
      ++added;
    }
    std::vector<request_id> unwanted;
    for (const emission& e : d.step()) {
      const std::size_t n = number.at(e.id);
      std::vector<std::int64_t>& told = out.told[n];
      told.insert(told.end(),
                  {static_cast<std::int64_t>(e.finish), static_cast<std::int64_t>(e.status),
                   static_cast<std::int64_t>(e.cut_bytes), e.drafted});
      told.insert(told.end(), e.tokens.begin(), e.tokens.end());
      for (const origin of : e.origins) { told.push_back(static_cast<std::int64_t>(of)); }
      for (const token_log_probability& l : e.log_probabilities) {
        told.push_back(l.t);
        told.push_back(std::bit_cast<std::int32_t>(l.log_probability));
      }
      if (e.finish != finish_reason::none) { ++out.ends[e.finish]; }
      if (e.finish == finish_reason::stop_string) {
        out.cuts += e.origins.back() == origin::accepted ? 1 : 0;
      }
      if (++emissions[n] == requests[n].emissions && e.finish == finish_reason::none) {
        unwanted.push_back(e.id);
      }
    }
    for (const request_id id : unwanted) {
      CHECK(d.cancel(id));
      ++out.ends[finish_reason::cancelled];
    }
  }
  for (const asked_request& r : requests) { out.asked.push_back(*r.grammar_asked); }
  return out;
}

decoder_options options_of(std::int32_t batch) {
  return {.max_batch = batch,
          .chunk = chunk,
          .max_length = 64,
          .max_log_probabilities = 3,
          .times_phases = false,
          .token_text = &bytes_of};
}

/// \param make gives the drafter over `models`.
template <class E, class Models, class Make, class Selector, class V>
record driven(E executor, Models& models, const Make& make, const Selector& selector, V verifier,
              const std::vector<asked_request>& requests, std::int32_t batch) {
  decoder d{models.target, make(models),      Selector(selector), every_stage{},
            V(verifier),   options_of(batch), random_source<>{},  executor};
  stepped_by by(d);
  const record out = record_of(by, requests, batch);
  CHECK(d.stats().accepted > 0);
  CHECK(d.stats().accepted < d.stats().drafted);
  return out;
}

/// Target and draft have the same laws, so that runs are accepted in which texts end.
exact_case worlds() { return {{vocab, 91, flavour::smooth}, {vocab, 91, flavour::smooth}, {}}; }

/// What is told where the host reads what a step makes.
template <class Make, class Selector, class V>
record seen(const Make& make, const Selector& selector, V verifier,
            const std::vector<asked_request>& requests = requests_of()) {
  grid_and_eagle models(worlds(), selector.layout());
  return driven(executor::host{}, models, make, selector, verifier, requests, request_count);
}

template <class Make, class Selector, class V>
void same_as_seen(const char* drafter, const Make& make, const Selector& selector, V verifier) {
  INFO(std::string(drafter));
  const record expected = seen(make, selector, verifier);
  for (const finish_reason end : {finish_reason::stop_token, finish_reason::stop_string,
                                  finish_reason::length, finish_reason::error}) {
    CAPTURE(static_cast<int>(end));
    CHECK(expected.ends.contains(end));
  }
  CHECK(expected.cuts > 0);
  for (const std::int32_t batch : {1, 3}) {
    CAPTURE(batch);
    grid_and_eagle toys(worlds(), selector.layout());
    constexpr std::int32_t nodes = decltype(make(toys))::max_nodes;
    padded_grid_models models(toys, batch, batch * (nodes + chunk));
    const record hidden =
        driven(hidden_host{}, models, make, selector, verifier, requests_of(), batch);
    CHECK(hidden.ends == expected.ends);
    for (std::size_t n = 0; n < request_count; ++n) {
      CAPTURE(n);
      CHECK(hidden.told[n] == expected.told[n]);
      CHECK(hidden.asked[n] == expected.asked[n]);
    }
    toys.target.cache().check();
    toys.draft.cache().check();
    toys.eagle.cache().check();
  }
}

constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}, {0, 2, 0}};
const auto chain = [](auto& m) { return drafter::autoregressive{m.draft, tree::chain<3>{}}; };

selector::frequency<> frequent() { return {shuffled_layout(vocab, 36), 30}; }

TEST_CASE("requests that ask the host within a step are told the same where it sees nothing") {
  same_as_seen("a chain of a model", chain, frequent(), verifier::rejection{});
  same_as_seen(
      "drawn trees of a model",
      [](auto& m) {
        return drafter::autoregressive{m.draft, tree::sampled<2, 1>{}};
      },
      selector::full{vocab}, verifier::rejection{});
  same_as_seen(
      "routed trees of a model that reads accepted tokens again",
      [](auto& m) {
        return drafter::autoregressive{m.eagle, tree::dynamic<2, 3, 7>{}};
      },
      toy_clustered(shuffled_layout(vocab, 8), 1, budget::fixed{3}), verifier::point_mass{});
  same_as_seen(
      "trees of heads",
      [](auto& m) {
        return drafter::heads{m.heads, tree::fixed<some>{}};
      },
      selector::full{vocab}, verifier::coupled{});
  same_as_seen(
      "pruned trees of heads",
      [](auto& m) {
        return drafter::pruned{drafter::heads{m.heads, tree::dynamic<2, 3, 7>{}}, m.view, 3};
      },
      frequent(), verifier::point_mass{});
  same_as_seen(
      "what is looked up", [](auto&) { return drafter::lookup<3>{1}; }, frequent(),
      verifier::point_mass{});
  same_as_seen(
      "what is looked up, in one tree with that of a model",
      [](auto& m) {
        return drafter::ensemble{drafter::lookup<3>{1},
                                 drafter::autoregressive{m.eagle, tree::dynamic<2, 3, 7>{}}};
      },
      frequent(), verifier::point_mass{});
  same_as_seen(
      "what is looked up, or a chain of a model",
      [](auto& m) {
        return drafter::cascade{drafter::lookup<3>{2},
                                drafter::autoregressive{m.draft, tree::chain<3>{}}};
      },
      frequent(), verifier::rejection{});
}

TEST_CASE("the comparison sees each of what is told") {
  const record expected = seen(chain, frequent(), verifier::rejection{});
  CHECK(seen(chain, frequent(), verifier::rejection{}) == expected);
  const auto changed = [&](std::size_t n, const auto& change) {
    std::vector<asked_request> requests = requests_of();
    change(requests[n].of.options);
    const record other = seen(chain, frequent(), verifier::rejection{}, requests);
    for (std::size_t i = 0; i < request_count; ++i) {
      CAPTURE(i);
      CHECK((other.told[i] != expected.told[i]) == (i == n));
    }
  };
  changed(0, [](generation_options& o) { o.seed += 1; });
  changed(1, [](generation_options& o) { o.grammar = {}; });
  changed(2, [](generation_options& o) { o.stop_strings = {}; });
  changed(4, [](generation_options& o) { o.log_probabilities = 2; });
}

/// Hash models and a drafter over one of them, on any executor.
template <class E>
struct hash_models {
  hash_models(E& executor, std::int32_t batch, std::int32_t rows)
      : target(executor, vocab, 1, batch, rows), draft(executor, vocab, 2, batch, rows) {}

  hash_model<E> target;
  hash_model<E> draft;
};

TEST_CASE("the host waits before it reads or writes what such requests need") {
  const auto check = [](const auto& make, auto verifier) {
    const auto on = [&](auto executor, std::int32_t batch) {
      hash_models<decltype(executor)> models(executor, batch, batch * (7 + chunk));
      return driven(executor, models, make, selector::full{vocab}, verifier, requests_of(), batch);
    };
    const record expected = on(executor::host{}, request_count);
    CHECK(expected.ends.contains(finish_reason::stop_string));
    CHECK(on(lazy_host{}, 1) == expected);
    CHECK(on(lazy_host{}, 3) == expected);
  };
  check(chain, verifier::rejection{});
  check(
      [](auto& m) {
        return drafter::autoregressive{m.draft, tree::dynamic<2, 3, 7>{}};
      },
      verifier::coupled{});
}

}  // namespace
}  // namespace hunch::test::hidden_requests_test
