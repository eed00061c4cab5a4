// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <engine/device/eagle.hpp>
#include <engine/device/early_exit.hpp>
#include <engine/device/medusa.hpp>
#include <engine/device/model.hpp>
#include <engine/device/streams.hpp>
#include <engine/early_contexts.hpp>
#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>

#include "../support/hidden_host.hpp"
#include "tiny_heads.hpp"
#include "tiny_model.hpp"

/// A loop that lives on the executor writes with these models what a loop on the host writes,
/// whether the host reads what a step makes or passes have padding. Sampled texts depend on how
/// much is drafted in which step: so the loop on the host reads its prompts in one piece, to draft
/// from the first step on as the other does.

namespace device_decoder_test {
namespace {

using sampler = hunch::sampler::pipeline<hunch::sampler::temperature>;
using texts = std::vector<std::vector<hunch::token>>;

constexpr std::int32_t requests = 5;
constexpr std::int32_t batch = 3;
constexpr std::int32_t whole = 20;  // of a prompt, at least
constexpr std::int32_t chunk = 4;
constexpr std::int32_t nodes = 12;  // of a tree, at most
constexpr int heads = 3;

constexpr hunch::tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}, {0, 2, 0}};
using chain = hunch::tree::chain<3>;
using deep_tree = hunch::tree::dynamic<2, 3, 7>;

engine::config shape_of(int layers) {
  engine::config c = test::tiny_config();
  c.layers = layers;
  return c;
}

/// A target, and all that drafts for it.
template <class E>
struct models {
  E executor;
  engine::config shape = shape_of(3);
  engine::device_options sizes{.max_batch = batch,
                               .max_length = 64,
                               .max_rows = batch * (whole + nodes),
                               .max_staged = whole + nodes,
                               .keep_features = true,
                               .max_streams = heads};
  engine::device_model<E> target{shape, test::random_checkpoint(shape), sizes, executor};
  engine::device_model<E> draft{shape, test::random_checkpoint(shape, engine::dtype::i8), sizes,
                                executor};
  engine::device_eagle<E> eagle{
      shape_of(1), test::in_memory(test::eagle_tensors(shape_of(1), engine::dtype::f32)), target,
      sizes};
  engine::early_contexts<engine::device_eagle<E>> early{eagle};
  engine::device_medusa<E> medusa{
      {heads, shape.hidden, shape.vocab_size},
      test::in_memory(test::medusa_tensors(shape, engine::dtype::f32, heads)),
      target};
  engine::device_early_exit<E> exit{
      {2}, test::in_memory(test::exit_tensors(shape, engine::dtype::f32)), target};
  engine::device_streams<E> streams{
      {heads, 1, shape.hidden, shape.vocab_size},
      test::in_memory(test::stream_tensors(shape, 1, engine::dtype::f32)),
      target};

  explicit models(const hunch::vocab_layout& layout) {
    target.set_head_layout(layout);
    draft.set_head_layout(layout);
    eagle.set_head_layout(layout);
  }

  void check_empty() {
    for (std::int32_t slot = 0; slot < batch; ++slot) {
      CHECK(target.length(slot) == 0);
      CHECK(draft.length(slot) == 0);
      CHECK(eagle.length(slot) == 0);
    }
  }
};

/// What drafts, of any of these models.
template <class Tree>
auto by_model(Tree tree) {
  return [=](auto& m) { return hunch::drafter::autoregressive{m.draft, tree}; };
}
template <class Tree>
auto by_eagle(Tree tree) {
  return [=](auto& m) { return hunch::drafter::autoregressive{m.eagle, tree}; };
}
template <class Tree>
auto by_early_eagle(Tree tree) {
  return [=](auto& m) { return hunch::drafter::autoregressive{m.early, tree}; };
}
template <class Tree>
auto by_exit(Tree tree) {
  return [=](auto& m) { return hunch::drafter::autoregressive{m.exit, tree}; };
}
template <class Tree>
auto by_medusa(Tree tree) {
  return [=](auto& m) { return hunch::drafter::heads{m.medusa, tree}; };
}

template <class Tree>
auto by_streams(Tree tree) {
  return [=](auto& m) { return hunch::drafter::streaming{m.streams, tree}; };
}

/// Pruned where streams begin.
template <class Tree>
auto by_pruned_streams(Tree tree) {
  return [=](auto& m) {
    return hunch::drafter::pruned{hunch::drafter::streaming{m.streams, tree}, m.exit, 4};
  };
}

hunch::vocab_layout layout() {
  const int vocab_size = test::tiny_config().vocab_size;
  std::vector<hunch::token> order;
  for (int i = 0; i < vocab_size; ++i) { order.push_back(i * 7 % vocab_size); }
  return hunch::vocab_layout::permuted(order, vocab_size);
}

hunch::selector::frequency<> by_frequency() { return {layout(), 50}; }

/// Clusters that a router of random weights chooses by the states in front of the head, or by other
/// contexts.
struct routed {
  hunch::router::weights weights = test::random_router(test::tiny_config().hidden);

  auto selector() const { return test::random_clusters(layout(), weights.view()); }
};

std::vector<hunch::token> prompt(std::int32_t n) {
  return test::some_tokens(1 + 4 * n, test::tiny_config().vocab_size, static_cast<unsigned>(n));
}
hunch::generation_options options(std::int32_t n, float temperature) {
  return {.max_new_tokens = 12 + 5 * n,
          .temperature = temperature,
          .seed = static_cast<std::uint64_t>(40 + n),
          .stop_tokens = {7}};
}

struct written {
  texts text;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  friend bool operator==(const written&, const written&) = default;
};

template <class Make, class Selector, class Verifier>
written stepped(const Make& make, const Selector& selector, float temperature, Verifier verifier) {
  models<hunch::executor::host> with(selector.layout());
  hunch::decoder d{with.target,
                   make(with),
                   Selector(selector),
                   sampler{},
                   verifier,
                   hunch::decoder_options{.max_batch = batch, .chunk = whole, .token_text = {}}};
  written out{texts(requests)};
  std::map<hunch::request_id, std::size_t> of;
  std::int32_t added = 0;
  while (added < requests || d.running() > 0) {
    while (added < requests && d.running() < batch) {
      of[d.add(prompt(added), options(added, temperature))] = static_cast<std::size_t>(added);
      ++added;
    }
    for (const hunch::emission& e : d.step()) {
      CHECK(e.status == hunch::status::ok);
      auto& text = out.text[of.at(e.id)];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  with.check_empty();
  out.drafted = d.stats().drafted;
  out.accepted = d.stats().accepted;
  return out;
}

template <class E, class Make, class Selector, class Verifier>
written resident(const Make& make, const Selector& selector, float temperature, Verifier verifier) {
  models<E> with(selector.layout());
  written out{texts(requests)};
  {
    hunch::resident_decoder d{
        with.target,
        make(with),
        Selector(selector),
        sampler{},
        verifier,
        hunch::resident_options{.max_batch = batch, .max_length = 64, .chunk = chunk, .ring = 16},
        hunch::random_source<>{},
        with.executor};
    std::map<hunch::request_id, std::size_t> of;
    std::int32_t added = 0;
    while (added < requests || d.running() > 0) {
      while (added < requests && d.running() < batch) {
        of[d.add(prompt(added), options(added, temperature))] = static_cast<std::size_t>(added);
        ++added;
      }
      d.run(2);
      d.poll([&](const hunch::ring_entry& e) {
        CHECK(e.status == hunch::status::ok);
        if (e.t != hunch::no_token) { out.text[of.at(e.id)].push_back(e.t); }
      });
    }
    out.drafted = d.stats().drafted;
    out.accepted = d.stats().accepted;
  }
  with.check_empty();
  return out;
}

template <class Make, class Selector, class Verifier>
texts everywhere(const Make& make, const Selector& selector, float temperature, Verifier verifier) {
  const written expected = stepped(make, selector, temperature, verifier);
  CHECK(expected.drafted > 0);
  CHECK(expected.accepted < expected.drafted);
  CHECK(resident<hunch::executor::host>(make, selector, temperature, verifier) == expected);
  CHECK(resident<hunch::test::hidden_host>(make, selector, temperature, verifier) == expected);
  return expected.text;
}

}  // namespace

TEST_CASE("device model: the texts of a loop on the executor") {
  for (const float temperature : {0.0f, 1.0f}) {
    CAPTURE(temperature);
    const auto of = [&](auto verifier) {
      return everywhere(by_model(chain{}), by_frequency(), temperature, verifier);
    };
    const texts sampled = of(hunch::verifier::rejection{});
    const texts coupled = of(hunch::verifier::coupled{});
    CHECK((coupled == sampled) == (temperature == 0.0f));
  }
}

TEST_CASE("device model: texts from clusters that a router chooses by its states") {
  const routed router;
  everywhere(by_model(chain{}), router.selector(), 1.0f, hunch::verifier::rejection{});
  everywhere(by_model(deep_tree{}), router.selector(), 1.0f, hunch::verifier::point_mass{});
}

TEST_CASE("device heads: texts with Medusa's") {
  const routed router;
  everywhere(by_medusa(hunch::tree::fixed<some>{}), by_frequency(), 1.0f,
             hunch::verifier::point_mass{});
  everywhere(by_medusa(chain{}), router.selector(), 1.0f, hunch::verifier::rejection{});
}

TEST_CASE("device heads: texts with streams") {
  const routed router;
  everywhere(by_streams(chain{}), router.selector(), 1.0f, hunch::verifier::rejection{});
  everywhere(by_streams(deep_tree{}), by_frequency(), 0.0f, hunch::verifier::point_mass{});
  everywhere(by_pruned_streams(deep_tree{}), by_frequency(), 1.0f, hunch::verifier::point_mass{});
}

TEST_CASE("device heads: texts with an early exit") {
  const routed router;
  everywhere(by_exit(chain{}), router.selector(), 1.0f, hunch::verifier::rejection{});
  everywhere(by_exit(hunch::tree::sampled<2, 1>{}), by_frequency(), 1.0f,
             hunch::verifier::rejection{});
  everywhere(by_exit(deep_tree{}), by_frequency(), 0.0f, hunch::verifier::point_mass{});
}

TEST_CASE("device heads: texts with an EAGLE head, routed by what is known before its pass") {
  const routed router{test::random_router(2 * test::tiny_config().hidden)};
  const texts plain = stepped([](auto&) { return hunch::drafter::none{}; }, by_frequency(), 0.0f,
                              hunch::verifier::rejection{})
                          .text;
  CHECK(everywhere(by_early_eagle(chain{}), router.selector(), 0.0f,
                   hunch::verifier::rejection{}) == plain);
  CHECK(everywhere(by_early_eagle(deep_tree{}), router.selector(), 0.0f,
                   hunch::verifier::point_mass{}) == plain);
  everywhere(by_early_eagle(chain{}), router.selector(), 1.0f, hunch::verifier::rejection{});
}

TEST_CASE("device heads: texts with an EAGLE head") {
  const routed router;
  everywhere(by_eagle(chain{}), router.selector(), 1.0f, hunch::verifier::rejection{});
  everywhere(by_eagle(deep_tree{}), router.selector(), 1.0f, hunch::verifier::point_mass{});
}

}  // namespace device_decoder_test
