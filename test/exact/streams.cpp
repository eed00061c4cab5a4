// SPDX-License-Identifier: Apache-2.0

// The exact joint law of drafters that read streams of the target's own pass, and of trees that its
// first layers have pruned, over every kind of shortlist and by every rule that accepts them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/selector/any.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/typical.hpp>
#include "../support/drafter_makers.hpp"
#include "../support/toy_streams.hpp"
#include "../support/tree_drafter.hpp"
#include "exact.hpp"
#include "selectors.hpp"

namespace hunch::test::exact_streams {
namespace {

using any_selector = selector::any<double>;

/// Trees as streams grow them, and as the first layers leave them: streams or Medusa heads.
enum class by { streams, pruned_streams, pruned_heads };

template <by By, class Tree, class V, class S = plain_sampler, class Policy = length::fixed>
enumeration exact_tree(exact_case c, any_selector selector, V verifier, S sampler = {},
                       Policy policy = {}, std::int32_t keep = 3) {
  forking_source source;
  c.options.max_batch = batch_of(c);
  toy_stream_target<> target{c.target};
  toy_stream_head<> head{c.draft, 3, selector.layout()};
  toy_heads<> heads{c.draft, 3, selector.layout()};
  toy_view<toy_stream_target<>> view{
      target, {c.target.vocab, 77, flavour::smooth}, selector.layout()};
  const auto run = [&](auto drafter) {
    decoder d{target, std::move(drafter), selector, sampler, verifier, c.options, source};
    return check_law(d, source, c);
  };
  enumeration found;
  if constexpr (By == by::streams) {
    found = run(drafter::streaming{head, Tree{}, policy});
  } else if constexpr (By == by::pruned_streams) {
    found = run(drafter::pruned{drafter::streaming{head, Tree{}, policy}, view, keep});
  } else {
    found = run(drafter::pruned{drafter::heads{heads, Tree{}, policy}, view, keep});
  }
  target.cache().check();
  return found;
}

template <by By>
std::int64_t over_shapes(const exact_case& c, const any_selector& selector) {
  const verifier::point_mass draws;
  std::int64_t tapes = 0;
  if constexpr (By == by::streams) {
    tapes += exact_tree<By, tree::sampled<2, 1>>(c, selector, verifier::rejection{}).tapes;
  }
  tapes += exact_tree<By, fixed_tree>(c, selector, draws).tapes;
  tapes += exact_tree<By, deep_tree>(c, selector, draws).tapes;
  return tapes;
}

TEST_CASE("trees of streams and pruned trees, over every kind of shortlist") {
  std::int64_t tapes = 0;
  for_each_selector(4, [&](const auto& selector) {
    const exact_case c = case_of(flavour::smooth, flavour::sharp, 4, 3);
    tapes += over_shapes<by::streams>(c, any_selector(selector));
    tapes += over_shapes<by::pruned_streams>(c, any_selector(selector));
    tapes += over_shapes<by::pruned_heads>(c, any_selector(selector));
  });
  MESSAGE(tapes << " tapes");
}

TEST_CASE("trees of streams and pruned trees, for every pair of kinds of law") {
  std::int64_t tapes = 0;
  for (const flavour p : {flavour::smooth, flavour::one_hot, flavour::masked, flavour::tied,
                          flavour::denormal, flavour::odd}) {
    for (const flavour q : {flavour::one_hot, flavour::masked, flavour::uniform, flavour::even}) {
      for (const float temperature : {1.0f, 0.6f, 0.0f}) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(static_cast<int>(q));
        const exact_case c = case_of(p, q, 3, 4, temperature);
        tapes += over_shapes<by::streams>(c, any_selector(selector::full{3}));
        tapes += over_shapes<by::pruned_streams>(c, any_selector(selector::full{3}));
        tapes += over_shapes<by::pruned_heads>(c, any_selector(selector::full{3}));
      }
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("streams in a batch, with stops, in any draft length, with any number of nodes kept") {
  const toy_world world{3, 61, flavour::smooth};
  const toy_world other{3, 62, flavour::smooth};
  std::vector<request> two{{{1}, ask(3)}, {{2, 0}, ask(2, 0.6f), 1}};
  two[0].options.seed = 1;
  two[1].options.seed = 2;
  two[1].options.stop_tokens = {1};
  const any_selector all{selector::full{3}};
  for (std::int32_t length = 0; length <= 3; ++length) {
    exact_case c{world, other, two};
    c.options.draft_length = length;
    exact_tree<by::streams, deep_tree>(c, all, verifier::point_mass{});
    for (const std::int32_t keep : {1, 2, 5}) {
      exact_tree<by::pruned_streams, deep_tree>(c, all, verifier::point_mass{}, plain_sampler{},
                                                length::fixed{}, keep);
    }
  }
  // The first of two ends first: the second is then alone in a step, in another slot.
  std::vector<request> uneven{{{1}, ask(1)}, {{2, 0}, ask(4)}};
  uneven[1].options.seed = 2;
  const exact_case alone{world, other, uneven};
  exact_tree<by::streams, deep_tree>(alone, all, verifier::point_mass{});
  exact_tree<by::pruned_streams, deep_tree>(alone, all, verifier::point_mass{});
  static constexpr double curve[] = {1.0, 1.1, 1.3, 1.6};
  const exact_case c{world, other, {{{1}, ask(4)}}};
  exact_tree<by::streams, deep_tree>(c, all, verifier::point_mass{}, plain_sampler{},
                                     length::cost{.draft = 0.1, .rows = curve});
  exact_tree<by::pruned_streams, deep_tree>(c, all, verifier::point_mass{}, plain_sampler{},
                                            length::cost{.draft = 0.1, .rows = curve});
}

TEST_CASE("greedy text is that of plain decoding, whatever streams say") {
  for (const flavour q : {flavour::smooth, flavour::tied, flavour::masked}) {
    const exact_case c = case_of(flavour::smooth, q, 5, 9, 0.0f);
    const any_selector all{selector::full{5}};
    CHECK(
        exact_tree<by::streams, fixed_tree>(c, all, verifier::greedy{}, sampler::greedy{}).tapes ==
        1);
    CHECK(exact_tree<by::pruned_streams, deep_tree>(c, all, verifier::greedy{}, sampler::greedy{})
              .tapes == 1);
    CHECK(exact_tree<by::pruned_heads, deep_tree>(c, all, verifier::greedy{}, sampler::greedy{})
              .tapes == 1);
  }
}

/// Runs requests over a target with streams, and calls use(before, committed) after every step.
template <class Decoder, class Use>
void follow(Decoder& d, text committed, std::uint64_t seed, float temperature, const Use& use) {
  auto options = ask(24, temperature);
  options.seed = seed;
  d.add(committed, options);
  while (d.running() > 0) {
    const text before = committed;
    for (const emission& e : d.step()) {
      committed.insert(committed.end(), e.tokens.begin(), e.tokens.end());
    }
    use(before, committed);
  }
}

TEST_CASE("the streams that are drafted from are those of the last accepted node, and no others") {
  toy_stream_target<float> target{{5, 43, flavour::sharp}};
  toy_stream_head<float> head{{5, 43, flavour::sharp}, 3, vocab_layout::identity(5)};
  decoder d{target, drafter::streaming{head, deep_tree{}}, selector::full{5}, plain_sampler{},
            verifier::point_mass{}};
  static_assert(decltype(d)::lossless);
  std::size_t steps = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    head.seen.clear();
    follow(d, {1, 2, 3}, seed, 1.0f, [&](const text& before, const text&) {
      CHECK(target.asked() == 3);
      for (std::size_t j = 0; j < head.seen.size(); ++j) {
        const std::uint64_t read = hash_of(std::span(before.data(), before.size() - 1));
        CHECK(head.seen[j].text == as_hidden(extend(read, 200 + static_cast<token>(j))));
        CHECK(head.seen[j].root == before.back());
      }
      steps += head.seen.empty() ? 0 : 1;
      head.seen.clear();
    });
  }
  CHECK(steps > 10);
  CHECK(d.stats().accepted > 0);
  // One pass of the target in each step, and three states of it.
  CHECK(target.passes == static_cast<std::int64_t>(d.stats().target_passes));
  CHECK(target.read <= (3 + 1) * target.passes);  // the size of one is looked at
  // Another size of states is refused, with both numbers.
  target.stream_width = toy_stream_size - 1;
  d.add(text{1, 2}, ask(20));
  CHECK_THROWS_WITH_AS(d.step(),
                       "hunch: the target's states have 4 numbers, and the drafter reads 5",
                       std::invalid_argument);
}

TEST_CASE("in a batch every sequence drafts from its own streams, whatever slot it has") {
  toy_stream_target<float> target{{5, 43, flavour::sharp}};
  toy_stream_head<float> head{{5, 43, flavour::sharp}, 3, vocab_layout::identity(5)};
  decoder_options options;
  options.max_batch = 3;
  options.draft_length = 3;
  decoder d{target,
            drafter::streaming{head, deep_tree{}},
            selector::full{5},
            plain_sampler{},
            verifier::point_mass{},
            options};
  struct sequence {
    text words;
    std::int32_t left;
    bool began = false;
  };
  std::map<request_id, sequence> running;
  dice random{5};
  std::int32_t steps = 0;
  for (std::int32_t begun = 0; begun < 40 || !running.empty();) {
    while (begun < 40 && running.size() < 3) {
      const auto length = static_cast<std::int32_t>(1 + random.below(9));
      const text prompt{static_cast<token>(random.below(5)), static_cast<token>(begun++ % 5)};
      auto request = ask(length);
      request.seed = static_cast<std::uint64_t>(begun);
      running[d.add(prompt, request)] = {prompt, length};
    }
    std::vector<toy_stream_head<float>::input> expected;
    for (const auto& [id, of] : running) {
      if (!of.began) { continue; }
      const std::uint64_t read = hash_of(std::span(of.words.data(), of.words.size() - 1));
      for (token j = 0; j < std::min(3, of.left - 1); ++j) {
        expected.push_back({as_hidden(extend(read, 200 + j)), of.words.back()});
      }
    }
    head.seen.clear();
    for (const emission& e : d.step()) {
      sequence& of = running.at(e.id);
      of.began = true;
      of.words.insert(of.words.end(), e.tokens.begin(), e.tokens.end());
      of.left -= static_cast<std::int32_t>(e.tokens.size());
      if (e.finish != finish_reason::none) { running.erase(e.id); }
    }
    std::ranges::sort(expected);
    std::ranges::sort(head.seen);
    CHECK((head.seen == expected));
    steps += expected.empty() ? 0 : 1;
    // Now and then one is taken out between two steps: the next one in its slot begins anew.
    if (!running.empty() && random.below(4) == 0) {
      const auto gone = running.begin();
      CHECK(d.cancel(gone->first));
      running.erase(gone);
    }
  }
  CHECK(steps > 20);
}

/// The first rows, fewer at every depth.
class narrowing_selector {
 public:
  static constexpr std::int32_t rows_at(std::int32_t depth) { return 7 - 2 * depth; }

  const vocab_layout& layout() const { return layout_; }
  std::int32_t max_ranges() const { return 1; }
  std::int32_t max_rows() const { return rows_at(0); }
  template <class E>
  using memory = selector::no_memory<E>;
  template <class E>
  void select(memory<E>&, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) const {
    const auto chooser = [](token, std::int32_t depth, row_range* ranges) {
      ranges[0] = {0, rows_at(depth)};
      return 1;
    };
    executor.launch(contexts.size, selector::choose_each{chooser, contexts, lists});
  }

 private:
  vocab_layout layout_ = vocab_layout::identity(8);
};

TEST_CASE("nodes that are moved when a tree is pruned take their shortlists with them") {
  const narrowing_selector selector;
  toy_stream_target<> target{{8, 31, flavour::smooth}};
  toy_stream_head<> head{{8, 32, flavour::smooth}, 3, selector.layout()};
  toy_view<toy_stream_target<>> view{target, {8, 77, flavour::smooth}, selector.layout()};
  decoder_options options;
  options.draft_length = 3;
  decoder d{target,
            drafter::pruned{drafter::streaming{head, tree::dynamic<2, 3, 7>{}}, view, 4},
            selector,
            plain_sampler{},
            verifier::point_mass{},
            options};
  d.add(std::vector<token>{1, 2}, ask(400));
  std::int64_t chains = 0;
  while (d.running() > 0) {
    const auto before = d.stats();
    d.step();
    const auto& now = d.stats();
    const std::int64_t lists = now.shortlists - before.shortlists;
    if (lists == 0) { continue; }
    // Three nodes after a root: the levels that they are drafted from follow from how many lists
    // they had and how deep they lie.
    std::int64_t rows = narrowing_selector::rows_at(0);
    const bool deep = now.proposed_at[1] > before.proposed_at[1];
    const bool deepest = now.proposed_at[2] > before.proposed_at[2];
    if (deep) { rows += (deepest ? 1 : lists - 1) * narrowing_selector::rows_at(1); }
    if (deepest) { rows += narrowing_selector::rows_at(2); }
    CHECK(now.shortlist_rows - before.shortlist_rows == rows);
    chains += deepest ? 1 : 0;
  }
  CHECK(chains > 0);
}

TEST_CASE("trees are pruned where only the root is unread, and left alone where a prompt is") {
  const toy_world world{4, 61, flavour::smooth};
  toy_stream_target<> target{world};
  toy_view<toy_stream_target<>> view{target, {4, 77, flavour::smooth}, vocab_layout::identity(4)};
  forking_source source;
  exact_case c{world, {4, 62, flavour::smooth}, {{{0, 3, 1}, ask(3)}}};
  c.options.max_batch = batch_of(c);
  const std::vector<std::int32_t> shape{-1, 0, 0, 1, 1, 2};
  const auto with = [&](auto&& words) {
    return decoder{target,
                   drafter::pruned{tree_drafter<child_law::ranked, 6>{c.draft, shape}, view, 3},
                   selector::full{4},
                   plain_sampler{},
                   verifier::point_mass{},
                   c.options,
                   words};
  };
  {
    auto d = with(source);
    CHECK(check_law(d, source, c).tapes > 1);
    target.cache().check();
  }
  view.passes = 0;
  auto d = with(random_source<>{});
  d.add(text{0, 3, 1}, ask(20));
  d.step();
  CHECK(view.passes == 0);
  CHECK(d.stats().drafted == 5);
  d.step();
  CHECK(view.passes == 1);
  CHECK(d.stats().drafted == 5 + 2);
}

TEST_CASE("nodes that the cache has no room for are not judged") {
  for (std::int32_t capacity = 5; capacity < 12; ++capacity) {
    toy_stream_target<float> target{{5, 43, flavour::smooth}, capacity};
    toy_stream_head<float> head{{5, 44, flavour::smooth}, 3, vocab_layout::identity(5)};
    toy_view<toy_stream_target<float>, float> view{
        target, {5, 77, flavour::smooth}, vocab_layout::identity(5)};
    decoder d{target, drafter::pruned{drafter::streaming{head, deep_tree{}}, view, 3},
              selector::full{5}, plain_sampler{}, verifier::point_mass{}};
    std::int32_t written = 0;
    auto finish = finish_reason::none;
    d.add(text{1, 2}, ask(40));
    while (d.running() > 0) {
      for (const emission& e : d.step()) {
        written += static_cast<std::int32_t>(e.tokens.size());
        finish = e.finish;
      }
    }
    CHECK(finish == finish_reason::cache_full);
    CHECK(written == capacity - 1);
    target.cache().check();
  }
}

TEST_CASE("coupled text is that of plain decoding, with streams and pruned trees") {
  const toy_world world{6, 51, flavour::smooth};
  toy_stream_target<float> target{world};
  toy_stream_head<float> head{{6, 51, flavour::sharp}, 3, vocab_layout::identity(6)};
  toy_view<toy_stream_target<float>, float> view{target, world, vocab_layout::identity(6)};
  const auto written = [&](auto drafter) {
    decoder d{target,
              std::move(drafter),
              selector::full{6},
              plain_sampler{},
              verifier::coupled{},
              decoder_options{.max_batch = 1, .chunk = 4, .token_text = {}}};
    std::vector<text> texts;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      texts.push_back({1, 2, 3, 4, 5, 0, 1});
      follow(d, texts.back(), seed, 0.9f,
             [&](const text&, const text& committed) { texts.back() = committed; });
    }
    target.cache().check();
    return std::pair{texts, d.stats()};
  };
  const auto plain = written(drafter::none{}).first;
  const auto streamed = written(drafter::streaming{head, deep_tree{}});
  const auto pruned = written(drafter::pruned{drafter::streaming{head, deep_tree{}}, view, 4});
  CHECK(streamed.first == plain);
  CHECK(pruned.first == plain);
  CHECK(streamed.second.accepted > 0);
  CHECK(pruned.second.accepted > 0);
  CHECK(pruned.second.drafted <= 3 * pruned.second.steps);
  CHECK(pruned.second.drafted < streamed.second.drafted);
  // A view that knows the target's law keeps what it accepts.
  CHECK(pruned.second.mean_acceptance_length() > 1.1);
  // The lossy rule is available, too.
  decoder lossy{target, drafter::streaming{head, deep_tree{}}, selector::full{6}, plain_sampler{},
                verifier::typical{}};
  static_assert(!decltype(lossy)::lossless);
  follow(lossy, {1, 2}, 1, 1.0f, [](const text&, const text&) {});
  CHECK(lossy.stats().emitted == 24);
}

TEST_CASE("what does not fit is refused at construction") {
  toy_stream_target<float> target{{5, 43, flavour::sharp}};
  toy_stream_head<float> two{{5, 43, flavour::sharp}, 2, vocab_layout::identity(5)};
  toy_stream_head<float> three{{5, 43, flavour::sharp}, 3, vocab_layout::identity(5)};
  toy_view<toy_stream_target<float>, float> other{
      target, {4, 43, flavour::sharp}, vocab_layout::identity(4)};
  const auto with = [&](auto drafter) {
    decoder d{target, std::move(drafter), selector::full{5}, plain_sampler{},
              verifier::point_mass{}};
  };
  CHECK_THROWS_WITH_AS(with(drafter::streaming{two, deep_tree{}}),
                       "hunch::drafter::streaming: 2 heads are too few for a tree of depth 3",
                       std::invalid_argument);
  CHECK_THROWS_AS(with(drafter::pruned{drafter::streaming{three, deep_tree{}}, other, 4}),
                  std::invalid_argument);
  CHECK_THROWS_WITH_AS((drafter::pruned{drafter::streaming{three, deep_tree{}}, other, 0}),
                       "hunch::drafter::pruned: 0 nodes are to be kept, not even the root",
                       std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test::exact_streams
