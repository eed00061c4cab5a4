// SPDX-License-Identifier: Apache-2.0

// An engine that owns its graph: the step is recorded into it once, and replayed; its cache lies in
// pages that nobody but the engine writes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/decoding_step.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/replaying_host.hpp"
#include "../support/resident_models.hpp"
#include "../support/stages.hpp"
#include "../support/varied_requests.hpp"

namespace hunch::test::own_loop_test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr std::int32_t slots = 3;
constexpr std::int32_t chunk = 4;
constexpr toy_world target_world{vocab, 91, flavour::smooth};
constexpr toy_world draft_world{vocab, 92, flavour::smooth};

/// A toy target whose passes are calls in a graph. It has no cache of its own: a row's text is what
/// lies in the pages of its slot, and its ancestors in the pass.
class paged_target {
 public:
  static constexpr std::int32_t page = 5;  ///< positions

  paged_target(replaying_host& executor, std::int32_t max_rows)
      : executor_(executor),
        logits_(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(vocab)),
        pages_(slots) {}

  struct evaluation {
    paged_target* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {of->logits_.data() + static_cast<std::ptrdiff_t>(i) * vocab, vocab};
    }
  };

  std::int32_t vocab_size() const { return vocab; }

  evaluation evaluate(const rows& r) {
    executor_.call([this, r] { pass(r); });
    return {this};
  }
  void commit(const kept_rows&) noexcept {}

  /// What a decoding step says of the pages. \param lengths tokens of a slot, as its pages know.
  void write(const cache_move* moves, const std::int32_t* counts, const std::int32_t* released) {
    executor_.call([=, this] {
      for (std::int32_t i = 0; i < counts[0]; ++i) {
        const cache_move m = moves[i];
        auto& of = pages_[static_cast<std::size_t>(m.slot)];
        const auto at = static_cast<std::size_t>(m.position);
        CHECK(at == length(of));  // no hole, and nothing twice
        if (at % page == 0) { of.emplace_back(); }
        of.back().push_back(tokens_[static_cast<std::size_t>(m.row)]);
        moved_ += 1;
      }
      for (std::int32_t i = 0; i < counts[1]; ++i) {
        pages_[static_cast<std::size_t>(released[i])].clear();
      }
    });
  }
  std::int64_t moved() const { return moved_; }
  /// Tokens of a slot that were read in passes of which no logits were wanted, since it was taken:
  /// of a prompt, before the pass that reads its end.
  std::int64_t read_ahead(std::int32_t slot) const {
    return read_ahead_[static_cast<std::size_t>(slot)];
  }
  void take(std::int32_t slot) { read_ahead_[static_cast<std::size_t>(slot)] = 0; }
  bool empty(std::int32_t slot) const { return pages_[static_cast<std::size_t>(slot)].empty(); }

 private:
  using pages = std::vector<std::vector<token>>;

  static std::size_t length(const pages& of) {
    return of.empty() ? 0 : (of.size() - 1) * page + of.back().size();
  }

  void pass(const rows& r) {
    tokens_.assign(r.tokens, r.tokens + r.size);
    std::int64_t size[slots] = {};
    std::int64_t wanted[slots] = {};
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.slot[i] == no_slot) { continue; }
      ++size[r.slot[i]];
      wanted[r.slot[i]] += r.wanted[i];
    }
    for (std::size_t slot = 0; slot < slots; ++slot) {
      read_ahead_[slot] += wanted[slot] == 0 ? size[slot] : 0;
    }
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.slot[i] == no_slot || r.wanted[i] == 0) { continue; }
      std::vector<token> text;
      for (const auto& of : pages_[static_cast<std::size_t>(r.slot[i])]) {
        text.insert(text.end(), of.begin(), of.end());
      }
      std::vector<token> path;
      for (std::int32_t id = r.id[i], at = i; id != end_of_cache; --at) {
        if (r.id[at] != id) { continue; }
        path.push_back(r.tokens[at]);
        id = r.parent[at];
      }
      text.insert(text.end(), path.rbegin(), path.rend());
      CHECK(r.position[i] + 1 == static_cast<std::int32_t>(text.size()));
      target_world.logits(hash_of(std::span<const token>(text)), evaluation{this}.logits(i).data);
    }
  }

  replaying_host executor_;
  std::vector<float> logits_;
  std::vector<token> tokens_;  ///< of the last pass
  std::vector<pages> pages_;
  std::vector<std::int64_t> read_ahead_ = std::vector<std::int64_t>(slots);
  std::int64_t moved_ = 0;
};

/// A draft model whose passes are calls in a graph.
class recorded_draft {
 public:
  recorded_draft(replaying_host& executor, toy_draft<float>& toy)
      : executor_(executor), model_(toy) {}

  struct hidden_states {
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
  };

  std::int32_t vocab_size() const { return vocab; }
  std::uint64_t head_order() const { return model_.head_order(); }
  hidden_states forward(const rows& r) {
    executor_.call([this, r] { model_.forward(r); });
    return {};
  }
  void head(const hidden_states&, const head_rows<float>& h) {
    executor_.call([this, h] { model_.head({&model_}, h); });
  }
  void commit(const kept_rows& kept) noexcept {
    executor_.call([this, kept] { model_.commit(kept); });
  }

 private:
  replaying_host executor_;
  resident_draft<float> model_;
};

std::vector<request> requests_of() {
  std::vector<request> requests;
  for (std::int32_t n = 0; n < 9; ++n) {
    request r = varied_request(n, {.tokens = vocab});
    r.options.repetition_penalty = 1.3f;
    if (n % 2 == 1) { r.options.bias = {{5, 1.5f}, {6, -2.0f}}; }
    requests.push_back(r);
  }
  return requests;
}

std::vector<text> driven(auto shape, auto verifier, const auto& selector,
                         const std::vector<request>& requests) {
  std::vector<text> out;
  toy_target<float> target{target_world};
  decoder d{
      target,   drafter::autoregressive{toy_draft<float>{draft_world, selector.layout()}, shape},
      selector, every_stage{},
      verifier, decoder_options{.token_text = {}}};
  for (const request& r : requests) {
    out.emplace_back();
    for (const token t : d.generate(r.prompt, r.options)) { out.back().push_back(t); }
  }
  return out;
}

template <class Tree, class V>
void same_texts(Tree shape, V verifier) {
  const selector::frequency<> selector{shuffled_layout(vocab, 30), 20};
  const std::vector<request> requests = requests_of();
  const std::vector<text> expected = driven(shape, verifier, selector, requests);

  replaying_host executor;
  paged_target target{executor, slots * Tree::max_nodes + chunk};
  toy_draft<float> toy{draft_world, selector.layout()};
  recorded_draft draft{executor, toy};
  using drafter_type = drafter::autoregressive<recorded_draft&, Tree>;
  decoding_step<paged_target, drafter_type, selector::frequency<>, every_stage, V, random_source<>,
                replaying_host>
      step{executor,
           drafter_type{draft, shape},
           selector::frequency<>{selector},
           every_stage{},
           verifier,
           random_source<>{},
           {.max_batch = slots,
            .chunk = chunk,
            .chunks = chunk,
            .max_length = 64,
            .vocab_size = vocab,
            .ring = 64,
            .eager_rows = 100,
            .moves = true}};
  for (std::int32_t slot = 0; slot < slots; ++slot) {
    step.requests().reserve(step.where(), slot, {.tokens = 64, .bias = 2, .stops = 3});
  }

  const step_bounds bounds{
      .slots = slots, .prompt_rows = chunk, .tree_rows = slots * Tree::max_nodes};
  executor.record([&] {
    step.propose(bounds);
    const rows pass = step.rows(bounds);
    auto evaluation = target.evaluate(pass);
    step.verify(bounds, pass, evaluation, true);
    step.commit(bounds, pass, evaluation);
    target.write(step.moves(), step.moved(), step.kept(bounds).released);
  });
  const std::size_t size = executor.recorded();

  std::vector<text> texts(requests.size());
  std::map<request_id, std::size_t> of;
  std::int32_t in[slots] = {};  // 1 + the request in a slot; 0: none
  std::size_t added = 0;
  std::size_t ended = 0;
  std::int64_t kept = 0;
  while (ended < requests.size()) {
    for (std::int32_t slot = 0; slot < slots && added < requests.size(); ++slot) {
      if (in[slot] != 0) { continue; }
      in[slot] = static_cast<std::int32_t>(++added);
      const request& r = requests[added - 1];
      step.requests().put(slot, added, r.prompt, r.options);
      step.take(slot);
      target.take(slot);
    }
    executor.replay();
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      // In the step in which a request ends nothing of it is kept. All before it was but its last
      // token, the root of that step; or, if there was none before, what was read of the prompt.
      const std::size_t request = in[slot] == 0 ? 0 : static_cast<std::size_t>(in[slot] - 1);
      const std::size_t before = texts[request].size();
      const std::size_t cached = requests[request].prompt.size() + before - 1;
      step.ring().take(slot, [&](const ring_entry& e) {
        CHECK(static_cast<std::int32_t>(e.id) == in[slot]);
        if (e.t != no_token) { texts[e.id - 1].push_back(e.t); }
        if (e.finish == finish_reason::none) { return; }
        kept += before > 0 ? static_cast<std::int64_t>(cached) : target.read_ahead(slot);
        in[slot] = 0;
        ++ended;
      });
    }
  }
  CHECK(texts == expected);
  CHECK(executor.recorded() == size);
  CHECK(target.moved() == kept);
  for (std::int32_t slot = 0; slot < slots; ++slot) {
    CHECK(target.empty(slot));
    CHECK(toy.cache().tokens(slot).empty());
  }
  CHECK(step.stats().accepted > 0);
}

TEST_CASE("a step that an engine records, with a cache in pages") {
  same_texts(tree::chain<4>{}, verifier::rejection{});
  same_texts(tree::sampled<2, 1>{}, verifier::rejection{});
  same_texts(tree::dynamic<2, 3, 7>{}, verifier::point_mass{});
}

}  // namespace
}  // namespace hunch::test::own_loop_test
