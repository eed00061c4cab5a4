// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/early_contexts.hpp>
#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/quantised_target.hpp>
#include <engine/streams.hpp>
#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "tiny_heads.hpp"
#include "tiny_model.hpp"

/// Decoders over the engine's draft models: the greedy text of each is that of plain decoding, and
/// what a view of the target reads is not read twice.

namespace drafters_test {
namespace {

using texts = std::vector<std::vector<hunch::token>>;

constexpr int layers = 5;
constexpr int exit_layer = 2;
constexpr int stream_layers = 2;
constexpr std::int32_t batch = 3;
constexpr std::int32_t requests = 7;

engine::config deep_config() {
  engine::config c = test::tiny_config();
  c.layers = layers;
  return c;
}

/// Counts the rows that pass through another model.
template <class Model>
struct counted {
  Model& model;
  std::uint64_t rows = 0;

  static constexpr bool shares_target_cache = hunch::shares_target_cache<Model>;

  std::int32_t vocab_size() const { return model.vocab_size(); }
  auto evaluate(const hunch::rows& r) {
    rows += static_cast<std::uint64_t>(r.size);
    return model.evaluate(r);
  }
  auto forward(const hunch::rows& r) {
    rows += static_cast<std::uint64_t>(r.size);
    return model.forward(r);
  }
  std::uint64_t head_order() const { return model.head_order(); }
  void head(const engine::hidden_states& states, const hunch::head_rows<float>& r) {
    model.head(states, r);
  }
  void commit(const hunch::kept_rows& kept) noexcept { model.commit(kept); }
};

/// The rows of a target whose trees a view of it prunes.
struct pruned_rows {
  std::set<std::int32_t> viewed;  ///< slots whose trees the view has read in this step
  std::uint64_t trees = 0;        ///< that it read
  std::uint64_t left = 0;         ///< of these in the target's passes
  std::uint64_t others = 0;       ///< there, too
  std::uint64_t streams = 0;      ///< beside all of these
};

struct noted_view {
  engine::early_exit& model;
  pruned_rows& rows;

  static constexpr bool shares_target_cache = true;

  std::int32_t vocab_size() const { return model.vocab_size(); }
  auto forward(const hunch::rows& r) {
    rows.trees += static_cast<std::uint64_t>(r.size);
    rows.viewed.insert(r.slot, r.slot + r.size);
    return model.forward(r);
  }
  std::uint64_t head_order() const { return model.head_order(); }
  void head(const engine::hidden_states& states, const hunch::head_rows<float>& r) {
    model.head(states, r);
  }
  void commit(const hunch::kept_rows& kept) noexcept { model.commit(kept); }
};

struct noted_target {
  engine::model& model;
  pruned_rows& rows;

  std::int32_t vocab_size() const { return model.vocab_size(); }
  auto evaluate(const hunch::rows& r) {
    for (std::int32_t i = 0; i < r.size; ++i) {
      ++(rows.viewed.contains(r.slot[i]) ? rows.left : rows.others);
      rows.streams += static_cast<std::uint64_t>(r.wanted[i] != 0 ? r.streams : 0);
    }
    rows.viewed.clear();
    return model.evaluate(r);
  }
  void commit(const hunch::kept_rows& kept) noexcept { model.commit(kept); }
};

struct written {
  texts text;
  std::int64_t steps = 0;
};

/// Texts of several requests, of which a few run at a time.
template <class Target, class Drafter, class Selector>
written write(Target& target, Drafter drafter, Selector selector) {
  hunch::decoder d{target,
                   std::move(drafter),
                   std::move(selector),
                   hunch::sampler::greedy{},
                   hunch::verifier::greedy{},
                   hunch::decoder_options{.max_batch = batch, .chunk = 4, .token_text = {}}};
  written out{texts(requests), 0};
  std::map<hunch::request_id, std::size_t> of;
  std::int32_t added = 0;
  while (added < requests || d.running() > 0) {
    while (added < requests && d.running() < batch) {
      of[d.add(test::some_tokens(1 + 3 * added, target.vocab_size(), 5u + unsigned(added)),
               {.max_new_tokens = 20 + 3 * added})] = static_cast<std::size_t>(added);
      ++added;
    }
    for (const hunch::emission& e : d.step()) {
      auto& text = out.text[of.at(e.id)];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
    ++out.steps;
  }
  return out;
}

template <class Target, class Drafter>
written write(Target& target, Drafter drafter) {
  return write(target, std::move(drafter),
               hunch::selector::full{static_cast<std::int32_t>(target.vocab_size())});
}

struct fixture {
  engine::config shape = deep_config();
  engine::checkpoint weights = test::random_checkpoint(shape, engine::dtype::i8);
  engine::model target;

  explicit fixture(int threads, engine::arithmetic kind = engine::preferred_bf16())
      : target(shape, weights,
               {.kind = kind, .threads = threads, .max_batch = batch, .keep_features = true}) {}

  static void add(engine::checkpoint& to, const std::string& name, const std::vector<float>& values,
                  std::vector<std::int64_t> tensor_shape) {
    const auto stored = test::encode(name, values, std::move(tensor_shape), engine::dtype::f32);
    to.add(name, stored[0].type, stored[0].shape, stored[0].bytes);
  }

  /// An exit that changes little but the norm.
  engine::early_exit view(int layer = exit_layer) {
    const auto d = static_cast<std::size_t>(shape.hidden);
    engine::checkpoint exit;
    add(exit, "exit.norm.weight", std::vector<float>(d, 1.0f), {shape.hidden});
    add(exit, "exit.down.weight", std::vector<float>(4 * d, 0.1f), {4, shape.hidden});
    add(exit, "exit.up.weight", std::vector<float>(4 * d, 0.1f), {shape.hidden, 4});
    return {{layer}, exit, target};
  }

  engine::eagle_model eagle() {
    engine::config one = shape;
    one.layers = 1;
    return {one, test::in_memory(test::eagle_tensors(one, engine::dtype::i8)), target,
            engine::model_options{.max_batch = batch}};
  }

  engine::speculative_streams streams() {
    return {{test::tiny_streams, stream_layers, shape.hidden, shape.vocab_size},
            test::in_memory(test::stream_tensors(shape, stream_layers, engine::dtype::i8)),
            target};
  }

  engine::medusa_heads heads() {
    engine::checkpoint own;
    for (int j = 0; j < 3; ++j) {
      std::vector<float> values(static_cast<std::size_t>(shape.hidden * shape.hidden));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(j)) % 17) * 0.01f;
      }
      add(own, "medusa." + std::to_string(j) + ".weight", values, {shape.hidden, shape.hidden});
    }
    return {{3, shape.hidden, shape.vocab_size}, own, target};
  }
};

texts plain(int threads) {
  fixture with(threads);
  return write(with.target, hunch::drafter::none{}).text;
}

}  // namespace

TEST_CASE("greedy texts with an early exit: a chain, whose rows the target all takes over") {
  for (const int threads : {1, 2}) {
    fixture with(threads);
    engine::early_exit exit = with.view();
    counted<engine::model> target{with.target};
    counted<engine::early_exit> view{exit};
    const written got =
        write(target, hunch::drafter::autoregressive{view, hunch::tree::chain<3>{}});
    CHECK(got.text == plain(threads));
    CHECK(view.rows > 100);
    CHECK(with.target.layer_rows() == layers * target.rows);
  }
}

TEST_CASE("greedy texts with an early exit: a dynamic tree, which is cut and numbered anew") {
  fixture with(2);
  engine::early_exit exit = with.view();
  counted<engine::model> target{with.target};
  counted<engine::early_exit> view{exit};
  const written got =
      write(target, hunch::drafter::autoregressive{view, hunch::tree::dynamic<3, 4, 8>{}});
  CHECK(got.text == plain(1));
  // Inner nodes that were cut are the only ones that were read in vain.
  CHECK(with.target.layer_rows() >= layers * target.rows);
  CHECK(with.target.layer_rows() < layers * target.rows + exit_layer * view.rows / 2);
}

TEST_CASE(
    "greedy texts with a view and copies in one tree: the target takes over what it numbers anew") {
  for (const int threads : {1, 2}) {
    fixture with(threads);
    engine::early_exit exit = with.view();
    counted<engine::model> target{with.target};
    counted<engine::early_exit> view{exit};
    const written got = write(target, hunch::drafter::ensemble{hunch::drafter::lookup<3>{1},
                                                               hunch::drafter::autoregressive{
                                                                   view, hunch::tree::chain<3>{}}});
    CHECK(got.text == plain(threads));
    CHECK(view.rows > 100);
    // A leaf of the view's chain is not read by it, nor is what was copied.
    CHECK(with.target.layer_rows() == layers * target.rows);
  }
}

TEST_CASE("greedy texts with copies, and a view where nothing is copied") {
  for (const int threads : {1, 2}) {
    fixture with(threads);
    engine::early_exit exit = with.view();
    counted<engine::model> target{with.target};
    counted<engine::early_exit> view{exit};
    const written got = write(target, hunch::drafter::cascade{hunch::drafter::lookup<3>{2},
                                                              hunch::drafter::autoregressive{
                                                                  view, hunch::tree::chain<3>{}}});
    CHECK(got.text == plain(threads));
    CHECK(view.rows > 0);
    CHECK(with.target.layer_rows() == layers * target.rows);
  }
}

TEST_CASE("greedy texts with draft heads") {
  for (const int threads : {1, 2}) {
    fixture with(threads);
    engine::medusa_heads medusa = with.heads();
    CHECK(write(with.target, hunch::drafter::heads{medusa, hunch::tree::chain<3>{}}).text ==
          plain(threads));
    fixture other(threads);
    engine::medusa_heads again = other.heads();
    CHECK(write(other.target, hunch::drafter::heads{again, hunch::tree::dynamic<3, 3, 8>{}}).text ==
          plain(threads));
  }
}

TEST_CASE("a tree that is pruned where streams begin goes no further, and has no streams") {
  constexpr int below = layers - stream_layers;
  for (const int exit_after : {below, exit_layer}) {
    CAPTURE(exit_after);
    fixture with(2);
    engine::early_exit exit = with.view(exit_after);
    engine::speculative_streams streams = with.streams();
    pruned_rows rows;
    noted_view view{exit, rows};
    noted_target target{with.target, rows};
    const written got = write(
        target, hunch::drafter::pruned{
                    hunch::drafter::streaming{streams, hunch::tree::dynamic<3, 3, 8>{}}, view, 4});
    CHECK(got.text == plain(1));
    CHECK(rows.left > 100);
    CHECK(rows.trees > rows.left + 100);
    // As published: the whole tree below, what is left of it above, with its streams.
    const auto through = [&](int first) { return static_cast<std::uint64_t>(layers - first); };
    CHECK(with.target.layer_rows() == rows.trees * static_cast<std::uint64_t>(exit_after) +
                                          rows.left * through(exit_after) +
                                          rows.others * through(0) + rows.streams * through(below));
  }
}

TEST_CASE(
    "greedy texts with an EAGLE head and a router, which reads states or what is before them") {
  const auto vocabulary = hunch::vocab_layout::identity(deep_config().vocab_size);
  const auto routed = [&](std::int32_t width, auto tree, auto&& view) {
    const hunch::router::weights router = test::random_router(width);
    const auto selector = test::random_clusters(vocabulary, router.view());
    fixture with(2);
    engine::eagle_model eagle = with.eagle();
    eagle.set_head_layout(selector.layout());
    auto&& drafts = view(eagle);
    return write(with.target, hunch::drafter::autoregressive{drafts, tree}, selector).text;
  };
  const auto late = [](auto& eagle) -> auto& { return eagle; };
  const auto early = [](auto& eagle) { return engine::early_contexts(eagle); };
  const int hidden = deep_config().hidden;
  const texts expected = plain(1);
  CHECK(routed(hidden, hunch::tree::chain<3>{}, late) == expected);
  CHECK(routed(2 * hidden, hunch::tree::chain<3>{}, early) == expected);
  CHECK(routed(2 * hidden, hunch::tree::dynamic<3, 4, 8>{}, early) == expected);
  CHECK_THROWS_AS(routed(hidden, hunch::tree::chain<3>{}, early), std::invalid_argument);
  CHECK_THROWS_AS(routed(2 * hidden, hunch::tree::chain<3>{}, late), std::invalid_argument);
}

TEST_CASE("greedy texts with the target in four bits, in fewer steps") {
  for (const int threads : {1, 2}) {
    fixture with(threads);
    engine::quantised_target copy(with.weights, with.target, engine::arithmetic::int4, threads);
    const written got =
        write(with.target, hunch::drafter::autoregressive{copy, hunch::tree::chain<3>{}});
    fixture other(1);
    const written alone = write(other.target, hunch::drafter::none{});
    CHECK(got.text == alone.text);
    CHECK(got.steps < alone.steps * 3 / 4);
  }
}

TEST_CASE("a copy of the target that is as exact as the target drafts what it decides") {
  // So it reads the keys and values that the target has cached, and its own of this step.
  for (const engine::arithmetic kind : {engine::preferred_bf16(), engine::arithmetic::f32}) {
    fixture other(1, kind);
    const written alone = write(other.target, hunch::drafter::none{});
    const auto with_tree = [&](auto tree) {
      fixture with(1, kind);
      engine::quantised_target copy(with.weights, with.target, kind);
      return write(with.target, hunch::drafter::autoregressive{copy, tree});
    };
    for (const written& got :
         {with_tree(hunch::tree::chain<3>{}), with_tree(hunch::tree::dynamic<3, 4, 8>{}),
          with_tree(hunch::tree::sampled<2, 1, 1>{})}) {
      CHECK(got.text == alone.text);
      // Four tokens a step, but in the last ones of each request and in those that read prompts.
      CHECK(got.steps < alone.steps * 2 / 5);
    }
  }
}

TEST_CASE("a copy of another model is refused, and one of a head") {
  fixture with(1);
  const auto other = test::random_checkpoint(with.shape, engine::dtype::i8, 2);
  CHECK_THROWS_AS(engine::quantised_target(other, with.target), std::runtime_error);
  engine::eagle_model head = with.eagle();
  CHECK_THROWS_AS(engine::quantised_target(with.weights, head), std::invalid_argument);
}

}  // namespace drafters_test
