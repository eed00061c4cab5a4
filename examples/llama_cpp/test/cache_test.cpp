// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include <hunch/hunch.hpp>

#include "../compositions.hpp"
#include "../llama_model.hpp"
#include "shipped.hpp"

// What is in llama.cpp's cache, and what happens where there is no room.

namespace llama_cpp::test {
namespace {

hunch::generation_options greedy(std::int32_t length) {
  return {.max_new_tokens = length, .temperature = 0.0f};
}

std::map<hunch::request_id, text> run_to_end(decoding& by) {
  std::map<hunch::request_id, text> out;
  while (by.running() > 0) {
    for (const hunch::emission& e : by.step()) {
      text& to = out[e.id];
      to.tokens.insert(to.tokens.end(), e.tokens.begin(), e.tokens.end());
      to.finish = e.finish;
      to.status = e.status;
    }
  }
  return out;
}

constexpr shape shapes[] = {shape::none, shape::chain, shape::ranked, shape::sampled};

}  // namespace

TEST_CASE("a sequence without room ends with cache_full, and no other does") {
  const auto all = prompts(24);
  const std::vector<hunch::token> small(all[1].begin(), all[1].begin() + 6);
  constexpr std::int32_t cells = 44;
  for (const shape drafts : shapes) {
    for (const std::int32_t chunk : {5, 64}) {
      CAPTURE(static_cast<int>(drafts));
      const auto by = compose(target(), draft(),
                              {.drafts = drafts, .batch = 2, .chunk = chunk, .cells = cells});
      const auto full = by->add(all[0], greedy(60));
      const auto fits = by->add(small, greedy(32));
      const auto found = run_to_end(*by);
      CHECK(found.at(full).finish == hunch::finish_reason::cache_full);
      // The last token is emitted, and not in the cache.
      CHECK(found.at(full).tokens.size() == cells - all[0].size() + 1);
      CHECK(agrees(found.at(full).tokens, greedy_by_llama(target(), all[0], cells - 24 + 1, 1)));
      CHECK(found.at(fits).finish == hunch::finish_reason::length);
      CHECK(agrees(found.at(fits).tokens, greedy_by_llama(target(), small, 32, 1)));
      for (const std::int32_t slot : {0, 1}) { CHECK(by->last_position(slot) == -1); }
    }
  }
}

TEST_CASE("a prompt that is longer than the cache ends with cache_full") {
  const auto all = prompts(24);
  const auto by = compose(target(), draft(), {.batch = 2, .chunk = 7, .cells = 20});
  const auto id = by->add(all[0], greedy(4));
  const auto found = run_to_end(*by);
  CHECK(found.at(id).finish == hunch::finish_reason::cache_full);
  CHECK(found.at(id).tokens.empty());
}

TEST_CASE("a cancelled request leaves nothing in the cache, and others alone") {
  const auto all = prompts(24);
  for (const shape drafts : shapes) {
    CAPTURE(static_cast<int>(drafts));
    const auto by = compose(target(), draft(), {.drafts = drafts, .batch = 2, .cells = 128});
    const auto stays = by->add(all[2], greedy(40));
    const auto goes = by->add(all[3], greedy(40));
    std::vector<hunch::token> tokens;
    for (int i = 0; i < 4; ++i) {
      for (const hunch::emission& e : by->step()) {
        if (e.id == stays) { tokens.insert(tokens.end(), e.tokens.begin(), e.tokens.end()); }
      }
    }
    CHECK(by->last_position(1) >= 24);
    CHECK(by->cancel(goes));
    CHECK(by->last_position(1) == -1);
    CHECK(by->last_position(0) >= 24);
    // Its cells serve the next request.
    const auto next = by->add(all[4], greedy(40));
    auto found = run_to_end(*by);
    tokens.insert(tokens.end(), found[stays].tokens.begin(), found[stays].tokens.end());
    CHECK(agrees(tokens, greedy_by_llama(target(), all[2], 40, 1)));
    CHECK(agrees(found[next].tokens, greedy_by_llama(target(), all[4], 40, 1)));
    for (const std::int32_t slot : {0, 1}) { CHECK(by->last_position(slot) == -1); }
  }
}

TEST_CASE("where llama.cpp finds no cells the pass is cache_full") {
  model<> of_target(target(), {.max_batch = 2, .cells = 128, .max_rows = 300, .max_wanted = 4});
  // Somebody else has taken all cells but 20, under the id of the other slot.
  const auto room = static_cast<std::int32_t>(llama_n_ctx(of_target.rows().context()));
  std::vector<hunch::token> taken(static_cast<std::size_t>(room - 20), 5);
  std::vector<llama_pos> positions(taken.size());
  for (std::size_t i = 0; i < taken.size(); ++i) { positions[i] = static_cast<llama_pos>(i); }
  std::vector<std::int32_t> one(taken.size(), 1);
  llama_seq_id other = 1;
  std::vector<llama_seq_id*> ids(taken.size(), &other);
  std::vector<std::int8_t> outputs(taken.size());
  REQUIRE(
      llama_decode(of_target.rows().context(), {room - 20, taken.data(), nullptr, positions.data(),
                                                one.data(), ids.data(), outputs.data()}) == 0);
  hunch::decoder by{of_target,
                    hunch::drafter::none{},
                    hunch::selector::full{of_target.vocab_size()},
                    hunch::sampler::greedy{},
                    hunch::verifier::greedy{},
                    hunch::decoder_options{.max_batch = 2, .chunk = 64}};
  const std::vector<hunch::token> prompt = prompts(12)[0];
  std::vector<hunch::token> tokens;
  auto written = by.generate(prompt, {.max_new_tokens = 40});
  for (const hunch::token t : written) { tokens.push_back(t); }
  CHECK(written.finish() == hunch::finish_reason::cache_full);
  CHECK(agrees(tokens, greedy_by_llama(target(), prompt, 9, 1)));
  CHECK(llama_memory_seq_pos_max(llama_get_memory(of_target.rows().context()), 1) == room - 21);
}

}  // namespace llama_cpp::test
