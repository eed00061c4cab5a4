// SPDX-License-Identifier: Apache-2.0

// Models whose caches are written in place, a branch a sequence id, write what models write that
// stage rows as the contract says.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/model/branch_plan.hpp>
#include <hunch/model/fitted_pass.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
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
  std::size_t capacity = 1u << 20;  ///< cells; a pass that does not fit is not read at all
  std::int64_t refused = 0;
  fitted_pass fitted{batch * most_staged};

  void read(const rows& all) {
    texts.clear();
    fitted.read(all, [this](const rows& r) { return fits(r); });
  }
  bool fits(const rows& r) {
    plan.stage(r);
    for (const cache_edit& e : plan.edits()) {
      cache.apply(e);
      copies += e.removes() ? 0 : 1;
    }
    plan.edited();
    if (cache.cells.size() + static_cast<std::size_t>(r.size) > capacity) {
      ++refused;
      return false;
    }
    for (std::int32_t i = 0; i < r.size; ++i) {
      const auto ids = plan.sequences(i);
      cache.cells.push_back({r.tokens[i], r.position[i], {ids.begin(), ids.end()}});
      sequences.insert(ids.begin(), ids.end());
    }
    for (std::int32_t i = 0; i < r.size; ++i) {
      const std::vector<token> attended = cache.of(plan.sequences(i)[0]);
      const auto size = static_cast<std::size_t>(r.position[i]) + 1;
      REQUIRE(attended.size() >= size);
      texts.push_back(hash_of(std::span(attended).first(size)));
    }
    return true;
  }
  /// Of row i of the pass that was asked for.
  std::uint64_t text(std::int32_t i) const {
    return texts[static_cast<std::size_t>(fitted.place(i))];
  }
};

template <std::int32_t Branches>
struct target : in_place<Branches> {
  toy_world world;
  std::vector<float> values;

  struct evaluation {
    target* of;
    hunch::status status(std::int32_t i) const { return of->fitted.status(i); }
    row_view<float> logits(std::int32_t i) const {
      return {of->values.data() + std::ptrdiff_t{i} * vocab, vocab};
    }
  };
  std::int32_t vocab_size() const { return vocab; }
  evaluation evaluate(const rows& r) {
    this->read(r);
    values.resize(static_cast<std::size_t>(r.size * vocab));
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (this->fitted.status(i) != status::ok) { continue; }
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
    draft* of;
    hunch::status status(std::int32_t i) const { return of->fitted.status(i); }
  };
  std::int32_t vocab_size() const { return vocab; }
  std::uint64_t head_order() const { return vocab_layout::identity(vocab).order(); }
  hidden_states forward(const rows& r) {
    this->read(r);
    return {this};
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

namespace {

/// Of three requests at a time whose texts depend on no draft.
template <class Tree>
struct short_of_room {
  std::vector<std::vector<token>> texts{4};
  std::vector<finish_reason> ends{4, finish_reason::none};
  std::int64_t drafted = 0;

  template <class Target, class Draft>
  short_of_room(Target& target, Draft& draft) {
    decoder d{target,
              drafter::autoregressive{draft, Tree{}},
              selector::full{vocab},
              sampler::pipeline<sampler::temperature>{},
              verifier::coupled{},
              decoder_options{.max_batch = batch, .chunk = chunk, .token_text = {}}};
    for (token t = 0; t < batch; ++t) {
      d.add(std::vector<token>{t, 1, 2}, {.max_new_tokens = 12 + 10 * t, .seed = 3});
    }
    while (d.running() > 0) {
      for (const emission& e : d.step()) {
        const auto at = static_cast<std::size_t>(e.id);
        texts[at].insert(texts[at].end(), e.tokens.begin(), e.tokens.end());
        ends[at] = e.finish;
      }
    }
    drafted = d.stats().drafted;
  }
};

template <class Tree>
void check_room(std::size_t target_room, std::size_t draft_room, bool ends_early) {
  CAPTURE(target_room);
  CAPTURE(draft_room);
  CAPTURE(Tree::is_chain);
  target<max_branches<Tree>> ample{{}, target_world, {}};
  draft<max_branches<Tree>> ample_draft{{}, draft_world};
  const short_of_room<Tree> expected(ample, ample_draft);
  target<max_branches<Tree>> own{{}, target_world, {}};
  draft<max_branches<Tree>> own_draft{{}, draft_world};
  own.capacity = target_room;
  own_draft.capacity = draft_room;
  const short_of_room<Tree> got(own, own_draft);
  CHECK((target_room < 1000 ? own.refused : own_draft.refused) > 0);
  int ended = 0;
  for (std::size_t id = 1; id <= batch; ++id) {
    CAPTURE(id);
    const std::vector<token>& text = got.texts[id];
    const std::vector<token>& whole = expected.texts[id];
    CHECK(expected.ends[id] == finish_reason::length);
    if (got.ends[id] == finish_reason::cache_full) {
      ++ended;
      REQUIRE(text.size() < whole.size());
      CHECK(std::equal(text.begin(), text.end(), whole.begin()));
    } else {
      CHECK(text == whole);
    }
  }
  CHECK((ended > 0) == ends_early);
  CHECK(ended < batch);
  CHECK(got.drafted > 0);
}

}  // namespace

TEST_CASE("an engine that reads all of a pass or nothing: drafts get shorter, then requests end") {
  // The texts have 15, 25 and 35 tokens at their ends: three of 15, or two of 25, need up to 48
  // cells with their roots, and drafts more.
  check_room<tree::chain<4>>(46, 1000, true);
  check_room<tree::chain<4>>(1000, 30, false);
  check_room<tree::dynamic<3, 3, 8>>(50, 1000, false);
  check_room<tree::dynamic<3, 3, 8>>(46, 1000, true);
  check_room<tree::dynamic<3, 3, 8>>(1000, 30, false);
}

}  // namespace hunch::test::in_place_cache_test
