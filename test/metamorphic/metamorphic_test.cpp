// SPDX-License-Identifier: Apache-2.0

// What must not change a text changes no bit of it. In float, with the production random source.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/drafter/streaming.hpp>
#include <hunch/length/length.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/poisoned_host.hpp"
#include "../support/toy_streams.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 150;  // more than a row of lanes
constexpr toy_world target_world{vocab, 61, flavour::sharp};
constexpr toy_world draft_world{vocab, 62, flavour::sharp};

decoder_options options_of(std::int32_t max_batch, std::int32_t chunk = 256,
                           std::int32_t draft_length = 99) {
  return {.max_batch = max_batch, .chunk = chunk, .draft_length = draft_length, .token_text = {}};
}

std::vector<request> sampled_requests(std::size_t count) {
  std::vector<request> requests(count);
  dice random{63};
  for (std::size_t r = 0; r < count; ++r) {
    for (std::int32_t i = random.below(12); i >= 0; --i) {
      requests[r].prompt.push_back(random.below(vocab));
    }
    requests[r].options = ask(20 + random.below(20), 0.5f + 0.25f * static_cast<float>(r % 4),
                              r % 3 == 0 ? 40 : 0, r % 2 == 0 ? 0.95f : 1.0f);
    requests[r].options.seed = 1000 + r;
    requests[r].options.stop_tokens = {7};
  }
  return requests;
}

/// The text of each request, served in the given order as far as there is room.
template <class Decoder>
std::vector<text> serve(Decoder& d, const std::vector<request>& requests,
                        const std::vector<std::size_t>& order, std::int32_t room,
                        std::uint64_t hesitation) {
  std::vector<text> texts(requests.size());
  std::vector<request_id> ids(requests.size(), 0);
  dice random{hesitation};
  std::size_t next = 0;
  while (next < order.size() || d.running() > 0) {
    while (next < order.size() && d.running() < room && random.below(3) > 0) {
      const request& r = requests[order[next]];
      ids[order[next++]] = d.add(r.prompt, r.options);
    }
    for (const emission& e : d.step()) {
      auto& text = texts[static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin())];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  return texts;
}

template <class Decoder>
std::vector<text> alone(Decoder& d, const std::vector<request>& requests) {
  std::vector<text> texts;
  for (const request& r : requests) {
    text emitted;
    for (const token t : d.generate(r.prompt, r.options)) { emitted.push_back(t); }
    texts.push_back(emitted);
  }
  return texts;
}

TEST_CASE("batch, slot and arrival order do not change a text") {
  const std::vector<request> requests = sampled_requests(9);
  toy_target<float> target{target_world};
  toy_draft<float> draft{draft_world};
  const auto with = [&](std::int32_t batch, auto&& run) {
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<4>{}},
              selector::full{vocab},
              full_sampler{},
              verifier::rejection{},
              options_of(batch)};
    return run(d);
  };
  const auto expected = with(1, [&](auto& d) { return alone(d, requests); });
  CHECK(with(9, [&](auto& d) { return alone(d, requests); }) == expected);
  std::vector<std::size_t> order{0, 1, 2, 3, 4, 5, 6, 7, 8};
  dice random{64};
  for (std::uint64_t round = 0; round < 6; ++round) {
    for (const std::int32_t room : {1, 2, 3, 9}) {
      CHECK(with(room, [&](auto& d) { return serve(d, requests, order, room, round); }) ==
            expected);
    }
    for (std::size_t i = 8; i > 0; --i) {
      std::swap(order[i], order[static_cast<std::size_t>(random.below(int(i) + 1))]);
    }
  }
  // The comparison can fail: another seed is another text.
  std::vector<request> others = requests;
  for (request& r : others) { r.options.seed += 1; }
  CHECK(with(1, [&](auto& d) { return alone(d, others); }) != expected);
}

TEST_CASE("a chain cut to n drafts is the chain of n drafts; cut to none it is plain decoding") {
  const std::vector<request> requests = sampled_requests(6);
  toy_target<float> target{target_world};
  toy_draft<float> draft{draft_world};
  const auto chain = [&](auto tree, std::int32_t length) {
    decoder d{target,
              drafter::autoregressive{draft, tree},
              selector::full{vocab},
              full_sampler{},
              verifier::rejection{},
              options_of(1, 256, length)};
    return alone(d, requests);
  };
  CHECK(chain(tree::chain<4>{}, 2) == chain(tree::chain<2>{}, 2));
  decoder plain{target, drafter::none{}, selector::full{vocab}, full_sampler{},
                verifier::rejection{}};
  const auto expected = alone(plain, requests);
  CHECK(chain(tree::chain<4>{}, 0) == expected);
  CHECK(chain(tree::chain<2>{}, 0) == expected);
}

TEST_CASE("a text is written again by the lengths of its drafts, whatever chose them") {
  const std::vector<request> requests = sampled_requests(5);
  toy_target<float> target{target_world};
  toy_draft<float> draft{draft_world};
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<4>{}},
            selector::full{vocab},
            full_sampler{},
            verifier::rejection{},
            options_of(5)};
  // In a batch, by the clock, as it were: other lengths in every step.
  dice clock{65};
  std::vector<text> texts(requests.size());
  std::vector<std::vector<std::int32_t>> lengths(requests.size());
  std::vector<request_id> ids;
  for (const request& r : requests) { ids.push_back(d.add(r.prompt, r.options)); }
  while (d.running() > 0) {
    d.draft_length(clock.below(5));
    for (const request_id id : ids) { d.draft_length(id, clock.below(5)); }
    for (const emission& e : d.step()) {
      const auto at = static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin());
      texts[at].insert(texts[at].end(), e.tokens.begin(), e.tokens.end());
      lengths[at].push_back(e.drafted);
    }
  }
  CHECK_FALSE(d.draft_length(ids[0], 1));  // it runs no more
  d.draft_length(99);
  const auto again = [&](std::size_t at, std::int32_t more) {
    text written;
    const request_id id = d.add(requests[at].prompt, requests[at].options);
    for (std::size_t step = 0; d.running() > 0; ++step) {
      d.draft_length(id, step < lengths[at].size() ? lengths[at][step] + more : 0);
      const emission& e = d.step().front();
      if (more == 0) { CHECK(e.drafted == lengths[at][step]); }
      written.insert(written.end(), e.tokens.begin(), e.tokens.end());
    }
    return written;
  };
  std::size_t other = 0;
  for (std::size_t at = 0; at < requests.size(); ++at) {
    CHECK(again(at, 0) == texts[at]);
    other += again(at, 1) != texts[at] ? 1 : 0;
  }
  CHECK(other > 0);  // with other lengths it is another text
}

/// Drafts as deep as it may in some steps and nothing in as many others, by their number.
struct moody {
  static constexpr bool needs_entropy = false;
  using memory = std::int32_t;

  std::int32_t begin(memory& step, std::int32_t max_depth) const {
    return step / 7 % 2 == 0 ? 0 : max_depth;
  }
  bool continues(memory&, const length_evidence&) const { return true; }
  void observe(memory& step, std::int32_t, std::int32_t) const noexcept { ++step; }
};

TEST_CASE("a text is written again by the lengths of its drafts, whatever was read before them") {
  toy_target<float> target{target_world};
  toy_draft<float> draft{draft_world};
  std::vector<request> requests = sampled_requests(4);
  for (request& r : requests) { r.prompt.insert(r.prompt.end(), 20, r.prompt.front()); }
  const auto with = [&](auto tree, auto policy, std::int32_t chunk, const auto& use) {
    decoder d{target,
              drafter::autoregressive{draft, tree, policy},
              selector::full{vocab},
              full_sampler{},
              verifier::rejection{},
              options_of(1, chunk)};
    return use(d);
  };
  const auto check = [&](auto tree, std::int32_t chunk) {
    CAPTURE(chunk);
    for (const request& r : requests) {
      std::vector<std::int32_t> lengths;
      const auto step = [](auto& d, text& written) {
        const auto emissions = d.step();
        if (emissions.empty()) { return -1; }  // a piece of the prompt
        const emission& e = emissions.front();
        written.insert(written.end(), e.tokens.begin(), e.tokens.end());
        return e.drafted;
      };
      const text expected = with(tree, moody{}, chunk, [&](auto& d) {
        text written;
        d.add(r.prompt, r.options);
        while (d.running() > 0) {
          const std::int32_t levels = step(d, written);
          if (levels >= 0) { lengths.push_back(levels); }
        }
        return written;
      });
      const text again = with(tree, length::fixed{}, chunk, [&](auto& d) {
        text written;
        const request_id id = d.add(r.prompt, r.options);
        for (const std::int32_t length : lengths) {
          d.draft_length(id, length);
          std::int32_t levels = -1;
          while (levels < 0) { levels = step(d, written); }
          CHECK(levels == length);
        }
        CHECK(d.running() == 0);
        return written;
      });
      CHECK(again == expected);
    }
  };
  for (const std::int32_t chunk : {2, 4, 256}) {
    check(tree::chain<4>{}, chunk);
    check(tree::sampled<2, 2, 1>{}, chunk);
  }
}

TEST_CASE("a step drafts what it is asked for, whatever has not been read yet") {
  toy_target<float> target{target_world};
  /// \param fail_at the call of the draft model that throws; its step is repeated.
  const auto write = [&](std::int64_t fail_at, std::int32_t capacity, failure_plan& calls) {
    toy_draft<float> draft{draft_world, capacity};
    calls = {0, fail_at};
    draft.failures = &calls;
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<4>{}},
              selector::full{vocab},
              full_sampler{},
              verifier::rejection{},
              options_of(1, 4)};
    const request_id id = d.add(text(20, 3), ask(30));
    text written;
    for (const std::int32_t length : {0, 0, 2, 0, 0, 0, 0, 0, 0, 3}) {
      d.draft_length(id, length);
      std::span<const emission> emitted;
      while (emitted.empty()) {  // the prompt, and what is repeated
        try {
          emitted = d.step();
        } catch (const planned_failure&) {}
      }
      written.insert(written.end(), emitted[0].tokens.begin(), emitted[0].tokens.end());
      CHECK(emitted[0].drafted == (capacity == no_limit ? length : 0));
      CHECK((calls.calls > 0) == (written.size() > 2));
    }
    draft.cache().check();
    return written;
  };
  failure_plan calls;
  const text expected = write(-1, no_limit, calls);
  const std::int64_t made = calls.calls;
  CHECK(made > 10);
  for (std::int64_t at = 0; at < made; ++at) { CHECK(write(at, no_limit, calls) == expected); }
  // A cache that is full before the root is read.
  for (const std::int32_t capacity : {0, 3, 4, 9, 20}) { write(-1, capacity, calls); }
}

TEST_CASE("while nothing is drafted a drafter has nothing to do, and later it drafts as before") {
  const toy_world world{vocab, 61, flavour::sharp};
  const text prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  failure_plan calls;
  toy_draft<float> draft{world};
  draft.failures = &calls;
  toy_stream_target<float> target{world};
  toy_stream_head<float> head{world, 3, vocab_layout::identity(vocab)};
  const auto run = [&](auto drafter, const auto& check_idle) {
    // A drafter that kept up would read some of these chunks.
    decoder d{target,
              std::move(drafter),
              selector::full{vocab},
              sampler::greedy{},
              verifier::greedy{},
              options_of(1, 8)};
    d.draft_length(0);
    text written;
    d.add(prompt, ask(40, 0.0f));
    while (d.running() > 0) {
      if (written.size() < 20) {
        check_idle();
        CHECK(d.last_step().draft_length == 0);
        CHECK(d.last_step().levels == 0);
      } else {
        d.draft_length(3);
      }
      for (const emission& e : d.step()) {
        written.insert(written.end(), e.tokens.begin(), e.tokens.end());
      }
    }
    CHECK(d.stats().drafted > 10);
    CHECK(d.last_step().draft_length == 3);
    return written;
  };
  const text expected =
      run(drafter::autoregressive{draft, tree::chain<3>{}}, [&] { CHECK(calls.calls == 0); });
  CHECK(calls.calls > 0);
  CHECK(run(drafter::streaming{head, tree::chain<3>{}}, [&] { CHECK(target.asked() == 0); }) ==
        expected);
  CHECK(target.asked() == 3);
}

TEST_CASE("plain sampling does not depend on how the prompt is cut") {
  const std::vector<request> requests = sampled_requests(6);
  toy_target<float> target{target_world};
  const auto with = [&](std::int32_t chunk) {
    decoder d{target,         drafter::none{},       selector::full{vocab},
              full_sampler{}, verifier::rejection{}, options_of(1, chunk)};
    return alone(d, requests);
  };
  const auto expected = with(256);
  for (const std::int32_t chunk : {2, 3, 5, 8}) { CHECK(with(chunk) == expected); }
}

TEST_CASE("greedy text is the same for every draft, draft length, chunk and verifier") {
  std::vector<request> requests = sampled_requests(5);
  for (request& r : requests) { r.options = ask(30, 0.0f); }
  toy_target<float> target{target_world};
  decoder plain{target, drafter::none{}, selector::full{vocab}, sampler::greedy{},
                verifier::greedy{}};
  const auto expected = alone(plain, requests);
  for (std::size_t r = 0; r < requests.size(); ++r) {  // and it is the greedy text
    std::uint64_t hash = hash_of(requests[r].prompt);
    for (const token t : expected[r]) {
      std::vector<float> row(vocab);
      target_world.logits(hash, row.data());
      CHECK(t == std::ranges::max_element(row) - row.begin());
      hash = extend(hash, t);
    }
  }
  const auto check = [&](auto sampler, auto verifier, const toy_world& draft_of, std::int32_t chunk,
                         std::int32_t length) {
    toy_draft<float> draft{draft_of};
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<4>{}},
              selector::full{vocab},
              decltype(sampler){},
              decltype(verifier){},
              options_of(2, chunk, length)};
    CHECK(alone(d, requests) == expected);
    return d.stats().steps;
  };
  std::int64_t fast = 0;
  std::int64_t slow = 0;
  for (const std::int32_t chunk : {2, 3, 256}) {
    for (std::int32_t length = 0; length <= 4; ++length) {
      for (const flavour kind : {flavour::sharp, flavour::odd, flavour::uniform}) {
        const toy_world garbage{vocab, 65, kind};
        slow = check(sampler::greedy{}, verifier::greedy{}, garbage, chunk, length);
        check(sampler::greedy{}, verifier::rejection{}, garbage, chunk, length);
        check(plain_sampler{}, verifier::rejection{}, garbage, chunk, length);
      }
      fast = check(sampler::greedy{}, verifier::greedy{}, target_world, chunk, length);
      check(sampler::greedy{}, verifier::rejection{}, target_world, chunk, length);
    }
  }
  CHECK(slow > 5 * 28);  // garbage is right now and then
  CHECK(fast == 5 * 6);
}

TEST_CASE("p = q accepts everything") {
  const std::vector<request> requests = sampled_requests(8);
  toy_target<float> target{target_world};
  toy_draft<float> draft{target_world};
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<4>{}},
            selector::full{vocab},
            full_sampler{},
            verifier::rejection{},
            options_of(8)};
  std::vector<std::size_t> order{0, 1, 2, 3, 4, 5, 6, 7};
  serve(d, requests, order, 8, 1);
  CHECK(d.stats().drafted > 100);
  CHECK(d.stats().accepted == d.stats().drafted);
  CHECK(d.stats().draft_acceptance_rate() == 1.0);
}

TEST_CASE("padding of the vocabulary with -inf changes nothing") {
  const std::vector<request> requests = sampled_requests(6);
  toy_target<float> target{target_world};
  toy_draft<float> draft{draft_world};
  const auto with = [&](std::int32_t padded) {
    toy_target<float> wide{{padded, 61, flavour::sharp, vocab}};
    toy_draft<float> wide_draft{{padded, 62, flavour::sharp, vocab}};
    decoder d{wide, drafter::autoregressive{wide_draft, tree::chain<4>{}}, selector::full{padded},
              full_sampler{}, verifier::rejection{}};
    return alone(d, requests);
  };
  const auto expected = with(vocab);
  for (const std::int32_t padded : {vocab + 1, 256, 4096}) { CHECK(with(padded) == expected); }
}

TEST_CASE("memory that begins as 0xFF is never read before it is written") {
  const std::vector<request> requests = sampled_requests(9);
  const std::vector<std::size_t> order{8, 7, 6, 5, 4, 3, 2, 1, 0};
  toy_target<float> target{target_world};
  const auto layout = shuffled_layout(vocab, vocab);
  toy_draft<float> draft{draft_world, layout};
  const auto with = [&](auto executor) {
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<4>{}},
              selector::frequency{layout, 60},
              full_sampler{},
              verifier::rejection{},
              options_of(3, 4),
              random_source<philox>{},
              decltype(executor){}};
    return serve(d, requests, order, 3, 5);
  };
  CHECK(with(poisoned_host{}) == with(executor::host{}));
}

std::uint64_t hash_bytes(const void* data, std::size_t size) {
  std::uint64_t h = size;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) { h = mix(h ^ bytes[i]); }
  return h;
}

TEST_CASE("verification changes none of its inputs") {
  constexpr std::int32_t nodes = 4;
  const auto size = static_cast<std::size_t>(vocab);
  std::vector<float> logits(2 * nodes * size);
  for (std::size_t node = 0; node < nodes; ++node) {
    target_world.logits(node, logits.data() + node * size);
    draft_world.logits(node, logits.data() + (nodes + node) * size);
  }
  const full_sampler sampler;
  const sampling_parameters with{0.8f, 50, 0.9f};
  std::vector<law<float>> p(nodes);
  std::vector<law<float>> q(nodes);
  team::serial team;
  for (std::int32_t i = 0; i < nodes; ++i) {
    p[std::size_t(i)] = sampler(team, row_view<float>{logits.data() + i * vocab, vocab}, with, {});
    q[std::size_t(i)] =
        sampler(team, row_view<float>{logits.data() + (nodes + i) * vocab, vocab}, with, {});
  }
  const row_range whole{0, vocab};
  const auto layout = vocab_layout::identity(vocab);
  std::vector<shortlist> lists(nodes, layout.list(&whole, 1));
  std::vector<std::int32_t> parent{-1, 0, 1, 2};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<token> tokens(nodes, 3);
    std::vector<std::int32_t> drawn_at(nodes, 0);
    for (std::int32_t i = 1; i < nodes; ++i) {
      const law<float> from = q[static_cast<std::size_t>(i - 1)];
      tokens[std::size_t(i)] = drawn_at[std::size_t(i)] =
          static_cast<token>(random_source<>{}.categorical(
              team, {seed, 1, static_cast<std::uint32_t>(i - 1), 0, purpose::draft}, vocab,
              [=](std::int64_t v) { return from.weight(v); }));
    }
    const logits_view<float> view{{nodes, tokens.data(), parent.data(), drawn_at.data()},
                                  child_law::independent,
                                  {p.data()},
                                  {q.data(), lists.data()},
                                  seed,
                                  1};
    const auto everything = [&] {
      return std::vector<std::uint64_t>{hash_bytes(logits.data(), logits.size() * sizeof(float)),
                                        hash_bytes(tokens.data(), tokens.size() * sizeof(token)),
                                        hash_bytes(parent.data(), parent.size() * 4),
                                        hash_bytes(drawn_at.data(), drawn_at.size() * 4)};
    };
    const auto before = everything();
    std::vector<std::int32_t> path(nodes);
    verdict first;
    first.path = path.data();
    verifier::rejection{}(team, view, random_source<>{}, first);
    CHECK(everything() == before);
    CHECK(first.status == status::ok);
    verdict again;
    again.path = path.data();
    verifier::rejection{}(team, view, random_source<>{}, again);
    CHECK(again.next == first.next);
    CHECK(again.accepted == first.accepted);
  }
}

}  // namespace
}  // namespace hunch::test
