// SPDX-License-Identifier: Apache-2.0

// Models whose caches are written in place, a branch a sequence id, write what models write that
// stage rows as the contract says.

#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/model/branch_plan.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/hash.hpp"
#include "../support/tagged_cache.hpp"
#include "../support/toy_model.hpp"

namespace hunch::test::in_place_cache_test {
namespace {

constexpr std::int32_t vocab = 23;
constexpr std::int32_t batch = 3;
constexpr std::int32_t chunk = 4;
constexpr std::int32_t most_staged = 64;

/// The part of an adapter that is the same for both models.
template <std::int32_t Branches>
struct in_place {
  branch_plan<Branches> plan{batch, batch* most_staged, most_staged};
  tagged_cache cache;
  std::vector<std::uint64_t> texts;  ///< hashes of what the rows of the last pass attend to
  std::set<std::int32_t> sequences;  ///< that were ever written
  std::int64_t copies = 0;

  void read(const rows& r) {
    plan.stage(r);
    for (const cache_edit& e : plan.edits()) {
      cache.apply(e);
      copies += e.removes() ? 0 : 1;
    }
    plan.edited();
    for (std::int32_t i = 0; i < r.size; ++i) {
      const auto ids = plan.sequences(i);
      cache.cells.push_back({r.tokens[i], r.position[i], {ids.begin(), ids.end()}});
      sequences.insert(ids.begin(), ids.end());
    }
    texts.clear();
    for (std::int32_t i = 0; i < r.size; ++i) {
      const std::vector<token> attended = cache.of(plan.sequences(i)[0]);
      const auto size = static_cast<std::size_t>(r.position[i]) + 1;
      REQUIRE(attended.size() >= size);
      texts.push_back(hash_of(std::span(attended).first(size)));
    }
  }
  std::uint64_t text(std::int32_t i) const { return texts[static_cast<std::size_t>(i)]; }
};

template <std::int32_t Branches>
struct target : in_place<Branches> {
  toy_world world;
  std::vector<float> values;

  struct evaluation {
    target* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {of->values.data() + std::ptrdiff_t{i} * vocab, vocab};
    }
  };
  std::int32_t vocab_size() const { return vocab; }
  evaluation evaluate(const rows& r) {
    this->read(r);
    values.resize(static_cast<std::size_t>(r.size * vocab));
    for (std::int32_t i = 0; i < r.size; ++i) {
      world.logits(this->text(i), values.data() + std::ptrdiff_t{i} * vocab);
    }
    return {this};
  }
  void commit(const kept_rows& kept) noexcept { this->plan.keep(kept); }
};

template <std::int32_t Branches>
struct draft : in_place<Branches> {
  toy_world world;

  struct hidden_states {
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
  };
  std::int32_t vocab_size() const { return vocab; }
  std::uint64_t head_order() const { return vocab_layout::identity(vocab).order(); }
  hidden_states forward(const rows& r) {
    this->read(r);
    return {};
  }
  void head(const hidden_states&, const head_rows<float>& h) {
    std::vector<float> row(vocab);
    for (std::int32_t i = 0; i < h.size; ++i) {
      world.logits(this->text(h.row[i]), row.data());
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = row[static_cast<std::size_t>(h.lists[i].token_at(at))];
      }
    }
  }
  void commit(const kept_rows& kept) noexcept { this->plan.keep(kept); }
};

constexpr toy_world target_world{vocab, 5, flavour::smooth};
constexpr toy_world draft_world{vocab, 6, flavour::smooth};

/// What six requests emit, of which three run at a time, and one is cancelled.
template <class Tree, class Verifier, class Target, class Draft>
std::vector<std::vector<token>> texts(Target& target, Draft& draft, float temperature) {
  decoder d{target,
            drafter::autoregressive{draft, Tree{}},
            selector::full{vocab},
            sampler::pipeline<sampler::temperature>{},
            Verifier{},
            decoder_options{.max_batch = batch, .chunk = chunk, .token_text = {}}};
  std::vector<std::vector<token>> out(7);
  request_id cancelled = 0;
  for (int request = 0, steps = 0; request < 6 || d.running() > 0; ++steps) {
    if (request < 6 && d.running() < batch) {
      generation_options options;
      options.max_new_tokens = 11 + 7 * request;
      options.temperature = temperature;
      options.seed = static_cast<std::uint64_t>(request);
      std::vector<token> prompt;
      for (token t = 0; t <= 3 * request; ++t) { prompt.push_back(t % vocab); }
      const request_id id = d.add(prompt, options);
      if (++request == 2) { cancelled = id; }
    }
    for (const emission& e : d.step()) {
      auto& text = out[static_cast<std::size_t>(e.id)];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
    if (steps == 4) { d.cancel(cancelled); }
  }
  return out;
}

template <class Tree, class Verifier>
void check(float temperature) {
  toy_target<float> staged{target_world};
  toy_draft<float> staged_draft{draft_world, vocab_layout::identity(vocab)};
  target<max_branches<Tree>> own{{}, target_world, {}};
  draft<max_branches<Tree>> own_draft{{}, draft_world};
  const auto expected = texts<Tree, Verifier>(staged, staged_draft, temperature);
  CHECK(texts<Tree, Verifier>(own, own_draft, temperature) == expected);
  CHECK(expected[1].size() == 11);
  for (const auto* used : {&own.sequences, &own_draft.sequences}) {
    CHECK(*used->rbegin() < batch * max_branches<Tree>);
  }
  // A chain copies nothing, nor does a tree of different draws from laws of one token.
  const bool branches =
      !Tree::is_chain && (Tree::children == child_law::ranked || temperature > 0.0f);
  CHECK((own.copies > 0) == branches);
  // What has ended leaves no cell behind.
  for (const cache_edit& e : own.plan.edits()) { own.cache.apply(e); }
  CHECK(own.cache.cells.empty());
}

constexpr tree::choices few{{0}, {1}, {0, 0}, {0, 1}, {1, 0}, {0, 0, 0}};

}  // namespace

TEST_CASE("caches that are written in place, branch by branch, write the same texts") {
  for (const float temperature : {0.0f, 1.0f}) {
    CAPTURE(temperature);
    check<tree::chain<4>, verifier::rejection>(temperature);
    check<tree::sampled<2, 2>, verifier::rejection>(temperature);
    check<tree::sampled<3, 1, 2>, verifier::rejection>(temperature);
    check<tree::dynamic<3, 3, 8>, verifier::point_mass>(temperature);
    check<tree::dynamic<2, 4, 5>, verifier::point_mass>(temperature);
    check<tree::fixed<few>, verifier::point_mass>(temperature);
  }
}

}  // namespace hunch::test::in_place_cache_test
