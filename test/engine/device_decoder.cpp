// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <vector>

#include <engine/device/model.hpp>
#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/rejection.hpp>

#include "tiny_model.hpp"

/// A loop that lives on the executor writes with these models what a loop on the host writes.
/// Sampled texts depend on how much is drafted in which step: so the loop on the host reads its
/// prompts in one piece, to draft from the first step on as the other does.

namespace {

using model = engine::device_model<hunch::executor::host>;
using sampler = hunch::sampler::pipeline<hunch::sampler::temperature>;
using texts = std::vector<std::vector<hunch::token>>;

constexpr std::int32_t draft_length = 3;
constexpr std::int32_t requests = 5;
constexpr std::int32_t batch = 3;
constexpr std::int32_t whole = 20;  // of a prompt, at least
constexpr std::int32_t chunk = 4;

struct fixture {
  engine::config shape = test::tiny_config();
  engine::device_options sizes{.max_batch = batch,
                               .max_length = 64,
                               .max_rows = batch * (whole + draft_length + 1),
                               .max_staged = whole + draft_length + 1};
  model target{shape, test::random_checkpoint(shape), sizes};
  model draft{shape, test::random_checkpoint(shape, engine::dtype::i8), sizes};
  hunch::selector::frequency<> selector;

  fixture() : selector(layout(shape.vocab_size), 50) { draft.set_head_layout(selector.layout()); }

  static hunch::vocab_layout layout(int vocab_size) {
    std::vector<hunch::token> order;
    for (int i = 0; i < vocab_size; ++i) { order.push_back(i * 7 % vocab_size); }
    return hunch::vocab_layout::permuted(order, vocab_size);
  }
  auto drafter() {
    return hunch::drafter::autoregressive{draft, hunch::tree::chain<draft_length>{}};
  }
  static std::vector<hunch::token> prompt(std::int32_t n) {
    return test::some_tokens(1 + 4 * n, test::tiny_config().vocab_size, static_cast<unsigned>(n));
  }
  static hunch::generation_options options(std::int32_t n, float temperature) {
    return {.max_new_tokens = 12 + 5 * n,
            .temperature = temperature,
            .seed = static_cast<std::uint64_t>(40 + n),
            .stop_tokens = {7}};
  }
};

template <class Verifier>
texts stepped(float temperature, Verifier verifier) {
  fixture with;
  hunch::decoder d{
      with.target,   with.drafter(),
      with.selector, sampler{},
      verifier,      hunch::decoder_options{.max_batch = batch, .chunk = whole, .token_text = {}}};
  texts out(requests);
  std::map<hunch::request_id, std::size_t> of;
  std::int32_t added = 0;
  while (added < requests || d.running() > 0) {
    while (added < requests && d.running() < batch) {
      of[d.add(fixture::prompt(added), fixture::options(added, temperature))] =
          static_cast<std::size_t>(added);
      ++added;
    }
    for (const hunch::emission& e : d.step()) {
      CHECK(e.status == hunch::status::ok);
      out[of.at(e.id)].insert(out[of.at(e.id)].end(), e.tokens.begin(), e.tokens.end());
    }
  }
  CHECK(d.stats().accepted > 0);
  CHECK(d.stats().accepted < d.stats().drafted);
  return out;
}

template <class Verifier>
texts resident(float temperature, Verifier verifier) {
  fixture with;
  hunch::resident_decoder d{
      with.target,
      with.drafter(),
      with.selector,
      sampler{},
      verifier,
      hunch::resident_options{.max_batch = batch, .max_length = 64, .chunk = chunk, .ring = 8}};
  texts out(requests);
  std::map<hunch::request_id, std::size_t> of;
  std::int32_t added = 0;
  while (added < requests || d.running() > 0) {
    while (added < requests && d.running() < batch) {
      of[d.add(fixture::prompt(added), fixture::options(added, temperature))] =
          static_cast<std::size_t>(added);
      ++added;
    }
    d.run(2);
    d.poll([&](const hunch::ring_entry& e) {
      CHECK(e.status == hunch::status::ok);
      if (e.t != hunch::no_token) { out[of.at(e.id)].push_back(e.t); }
    });
  }
  for (std::int32_t slot = 0; slot < batch; ++slot) {
    CHECK(with.target.length(slot) == 0);
    CHECK(with.draft.length(slot) == 0);
  }
  return out;
}

}  // namespace

TEST_CASE("device model: the texts of a loop on the executor") {
  for (const float temperature : {0.0f, 1.0f}) {
    CAPTURE(temperature);
    const texts sampled = stepped(temperature, hunch::verifier::rejection{});
    CHECK(resident(temperature, hunch::verifier::rejection{}) == sampled);
    const texts coupled = stepped(temperature, hunch::verifier::coupled{});
    CHECK(resident(temperature, hunch::verifier::coupled{}) == coupled);
    CHECK((coupled == sampled) == (temperature == 0.0f));
  }
}
