// SPDX-License-Identifier: Apache-2.0

// Random operations on a decoder, and on one whose steps its executor repeats, against a model that
// is a plain vector of tokens per request.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/full.hpp"
#include "../support/stages.hpp"
#include "../support/stepping.hpp"
#include "../support/toy_heads.hpp"
#include "../support/toy_streams.hpp"
#include "../support/tree_drafter.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 6;
constexpr std::int32_t max_batch = 4;
constexpr std::int32_t chunk = 3;
constexpr std::int32_t max_gamma = 4;
constexpr std::int32_t max_reported = 3;
constexpr toy_world target_world{vocab, 71, flavour::sharp};
constexpr toy_world draft_world{vocab, 72, flavour::smooth};

/// What the decoder must hold of one running request.
struct model {
  text committed;
  std::size_t prompt = 0;
  std::size_t cached = 0;  ///< of the target
  std::size_t reads = 0;   ///< of its prompt, in the step that comes
  generation_options options;

  std::size_t unread() const { return committed.size() - 1 - cached; }
};

/// Which checks apply: greedy text is known in advance; `staged` requests use some of the stages,
/// and some of them ask for log-probabilities.
enum class mode { sampled, greedy, staged };

template <class Decoder>
class fuzzer {
 public:
  /// \param draft nullptr for a drafter without a model of its own cache.
  /// \param others places where other models look for their failures.
  /// \param repeats whether the executor repeats the steps: without log-probabilities and grammars,
  ///        and `chunk` is that of all requests.
  fuzzer(Decoder& decoder, toy_target<float>& target, toy_draft<float>* draft,
         const std::vector<failure_plan**>& others, mode m, std::uint64_t seed,
         bool repeats = false)
      : decoder_(decoder),
        target_(target),
        draft_(draft),
        mode_(m),
        random_{seed},
        repeats_(repeats) {
    target_.failures = &failures_;
    if (draft_ != nullptr) { draft_->failures = &failures_; }
    for (failure_plan** const other : others) { *other = &failures_; }
  }

  void operate() {
    const std::int32_t dice = random_.below(100);
    if (dice < 20) {
      add();
    } else if (dice < 24) {
      cancel();
    } else if (dice < 29) {
      decoder_.draft_length(random_.below(max_gamma + 3) - 1);
    } else {
      // One step in eight is made to throw somewhere in a model, if it gets that far.
      failures_.calls = 0;
      failures_.fail_at = dice < 38 ? random_.below(2 * max_gamma + 2) : -1;
      step();
    }
    if (decoder_.running() != std::ssize(ids_)) { fail("a wrong number of running requests"); }
  }

  std::int64_t emitted = 0;
  std::int64_t thrown = 0;
  std::int64_t finished = 0;
  std::int64_t reported = 0;  ///< tokens with log-probabilities

 private:
  static void fail(const char* what) { throw broken_contract(what); }
  static void expect(bool condition, const char* what) { require(condition, what); }

  void add() {
    model m;
    for (std::int32_t i = random_.below(9); i >= 0; --i) {
      m.committed.push_back(random_.below(vocab));
    }
    m.prompt = m.committed.size();
    m.options = ask(1 + random_.below(12), mode_ == mode::greedy ? 0.0f : 0.9f);
    m.options.seed = random_.next();
    if (random_.below(2) == 0) { m.options.stop_tokens = {random_.below(vocab)}; }
    if (mode_ == mode::staged) {
      m.options = with_some_stages(m.options, vocab, random_);
      if (random_.below(2) == 0) { m.options.log_probabilities = random_.below(max_reported + 1); }
      if (repeats_) {
        m.options.log_probabilities = {};
        m.options.grammar = {};
      }
    }
    bool refused = false;
    request_id id = 0;
    try {
      id = decoder_.add(m.committed, m.options);
    } catch (const std::length_error&) { refused = true; }
    const auto free = std::ranges::find(slots_, request_id{0});
    expect(refused == (free == slots_.end()),
           "a request must be refused if and only if it is full");
    if (refused) { return; }
    *free = id;
    expect(ids_.emplace(id, std::move(m)).second, "an id was given twice");
  }

  void cancel() {
    if (ids_.empty() || random_.below(4) == 0) {
      expect(!decoder_.cancel(random_.next() | (std::uint64_t(1) << 63)),
             "an unknown id was cancelled");
      return;
    }
    auto victim = ids_.begin();
    std::advance(victim, random_.below(static_cast<std::int32_t>(ids_.size())));
    expect(decoder_.cancel(victim->first), "a running request was not cancelled");
    expect(!decoder_.cancel(victim->first), "a request was cancelled twice");
    forget(victim->first);
    check_caches();
  }

  void step() {
    std::vector<request_id> pending;
    for (const auto& [id, m] : ids_) { pending.push_back(id); }
    plan_reading();
    std::span<const emission> emissions;
    try {
      emissions = decoder_.step();
    } catch (const planned_failure&) {
      ++thrown;
      check_caches();  // as before the step
      return;
    }
    for (const emission& e : emissions) {
      const auto found = ids_.find(e.id);
      expect(found != ids_.end(), "an emission of a request that does not run");
      std::erase(pending, e.id);
      take(e, found->second);
      if (e.finish != finish_reason::none) {
        ++finished;
        forget(e.id);
      }
    }
    for (const request_id id : pending) {  // what emitted nothing has read a piece of its prompt
      model& m = ids_.at(id);
      expect(m.reads < m.unread(), "a step without progress");
      m.cached += m.reads;
    }
    check_caches();
  }

  /// What each request reads of its prompt in the next step, in the order of the slots.
  void plan_reading() {
    std::size_t left = chunk;
    for (const request_id id : slots_) {
      if (id == 0) { continue; }
      model& m = ids_.at(id);
      m.reads = std::min(m.unread(), repeats_ ? left : std::size_t{chunk});
      left -= std::min(left, m.reads);
    }
  }

  void take(const emission& e, model& m) {
    expect(e.status == status::ok, "an error out of nowhere");
    expect(m.reads == m.unread(), "a token before the prompt was read");
    const auto count = std::ssize(e.tokens);
    expect(count >= 1 && count <= decoder_.draft_length() + 1,
           "a wrong number of tokens in a step");
    expect(std::ssize(e.origins) == count, "a token without an origin");
    check_reports(e, m);
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const token t = e.tokens[static_cast<std::size_t>(i)];
      if (mode_ == mode::greedy) {
        float row[vocab];
        target_world.logits(hash_of(m.committed), row);
        expect(t == std::max_element(row, row + vocab) - row, "not the greedy token");
      }
      check_constraints(t, m);
      const bool last = i + 1 == count;
      expect((e.origins[static_cast<std::size_t>(i)] == origin::accepted) || last,
             "a token after the verified run");
      m.committed.push_back(t);
      const bool stops = std::ranges::find(m.options.stop_tokens, t) != m.options.stop_tokens.end();
      const bool full =
          m.committed.size() == m.prompt + static_cast<std::size_t>(m.options.max_new_tokens);
      const finish_reason why = stops  ? finish_reason::stop_token
                                : full ? finish_reason::length
                                       : finish_reason::none;
      expect(last || why == finish_reason::none, "a token after the end of the text");
      if (last) { expect(e.finish == why, "a wrong finish reason"); }
    }
    m.cached = m.committed.size() - 1;
    emitted += count;
  }

  /// What a request has banned is never emitted, nor what its grammar does not allow.
  static void check_constraints(token t, const model& m) {
    for (const logit_bias& b : m.options.bias) {
      expect(b.t != t || b.value >= 0.0f, "a banned token");
    }
    if (!m.options.grammar) { return; }
    toy_grammar::state place;
    for (const token before : std::span(m.committed).subspan(m.prompt)) {
      place = toy_grammar::advance(place, before);
    }
    expect(toy_grammar::fits(place, t), "a token that the grammar does not allow");
  }

  void check_reports(const emission& e, const model& m) {
    const std::int32_t top = m.options.log_probabilities.value_or(-1);
    const std::size_t stride = static_cast<std::size_t>(top + 1);
    expect(e.log_probabilities.size() == e.tokens.size() * stride, "a wrong number of reports");
    for (std::size_t i = 0; i < e.log_probabilities.size(); i += stride) {
      const auto report = e.log_probabilities.subspan(i, stride);
      expect(report[0].t == e.tokens[i / stride], "a report about another token");
      expect(report[0].log_probability > -700.0f && report[0].log_probability < 1e-5f,
             "an emitted token without a probability");
      for (std::size_t r = 2; r < stride; ++r) {
        expect(report[r].log_probability <= report[r - 1].log_probability, "ranks out of order");
      }
      ++reported;
    }
  }

  void forget(request_id id) {
    *std::ranges::find(slots_, id) = 0;
    ids_.erase(id);
  }

  /// The target has cached all but the last token, the draft model a prefix of that, and both
  /// nothing of slots that are free.
  void check_caches() {
    target_.cache().check();
    if (draft_ != nullptr) { draft_->cache().check(); }
    const text nothing;
    for (std::int32_t slot = 0; slot < max_batch; ++slot) {
      const text& cached = target_.cache().tokens(slot);
      const text& drafted = draft_ != nullptr ? draft_->cache().tokens(slot) : nothing;
      const request_id id = slots_[static_cast<std::size_t>(slot)];
      if (id == 0) {
        expect(cached.empty() && drafted.empty(), "a free slot holds tokens");
        continue;
      }
      const model& m = ids_.at(id);
      expect(cached.size() == m.cached, "a wrong cache length");
      expect(std::ranges::equal(cached, std::span(m.committed).first(cached.size())),
             "the target cached other tokens");
      expect(drafted.size() <= m.committed.size() - 1, "the draft model is ahead of the text");
      expect(std::ranges::equal(drafted, std::span(m.committed).first(drafted.size())),
             "the draft model cached other tokens");
    }
  }

  Decoder& decoder_;
  toy_target<float>& target_;
  toy_draft<float>* draft_;
  mode mode_;
  dice random_;
  bool repeats_;
  failure_plan failures_;
  std::map<request_id, model> ids_;
  std::array<request_id, max_batch> slots_{};  ///< 0: free
};

using some_target = toy_stream_target<float>;

void check_outcome(const auto& f, const auto& s) {
  CHECK(f.emitted > 10'000);
  CHECK(f.thrown > 500);
  CHECK(f.finished > 1'000);
  CHECK(s.emitted == f.emitted);
  CHECK(s.accepted <= s.drafted);
  CHECK(s.accepted > 0);
}

/// \param make(target) is a drafter.
template <class Make, class Selector, class S, class V>
void fuzz_with(const Make& make, toy_draft<float>* draft, Selector selector, S, V, mode m,
               std::uint64_t seed, const std::vector<failure_plan**>& others = {}) {
  some_target target{target_world};
  decoder d{target,
            make(target),
            std::move(selector),
            S{},
            V{},
            decoder_options{.max_batch = max_batch,
                            .chunk = chunk,
                            .draft_length = 99,
                            .max_log_probabilities = max_reported,
                            .token_text = {}}};
  fuzzer f{d, target, draft, others, m, seed};
  for (std::int64_t i = full_run() ? 1'000'000 : 100'000; i > 0; --i) { f.operate(); }
  CHECK((f.reported > 10'000) == (m == mode::staged));
  check_outcome(f, d.stats());
}

/// A loop of steps, as a fuzzer drives it.
template <class D>
struct fuzzed_loop : stepping<D> {
  explicit fuzzed_loop(D& d) : stepping<D>{&d, {}, {}, {}} {}
  bool cancel(request_id id) { return this->d->cancel(id); }
  std::int32_t running() const { return this->d->running(); }
  void draft_length(std::int32_t) {}  // stays as it was made
  static std::int32_t draft_length() { return D::max_nodes - 1; }
};

/// The same in steps that their executor repeats.
template <class Make, class Selector, class S, class V>
void fuzz_repeated(const Make& make, toy_draft<float>* draft, Selector selector, S, V, mode m,
                   std::uint64_t seed, const std::vector<failure_plan**>& others = {}) {
  some_target target{target_world};
  resident_decoder d{
      target,
      make(target),
      std::move(selector),
      S{},
      V{},
      resident_options{.max_batch = max_batch, .max_length = 32, .chunk = chunk, .ring = 32}};
  fuzzed_loop loop(d);
  fuzzer f{loop, target, draft, others, m, seed, true};
  for (std::int64_t i = full_run() ? 300'000 : 30'000; i > 0; --i) { f.operate(); }
  check_outcome(f, d.stats());
}

template <class Selector, class S, class V>
void fuzz(Selector selector, S sampler, V rule, mode m, std::uint64_t seed) {
  toy_draft<float> draft{draft_world, selector.layout()};
  fuzz_with(
      [&](some_target&) {
        return drafter::autoregressive{draft, tree::chain<max_gamma>{}};
      },
      &draft, std::move(selector), sampler, rule, m, seed);
}

template <child_law Children, class S, class V>
void fuzz_tree(S sampler, V rule, mode m, std::uint64_t seed) {
  const auto make = [](some_target&) {
    return tree_drafter<Children, 6>{draft_world, {-1, 0, 0, 1, 0, 3}};
  };
  fuzz_with(make, nullptr, toy_selector{shuffled_layout(vocab, vocab)}, sampler, rule, m, seed);
}

TEST_CASE("random operations, sampled text") {
  fuzz(selector::full{vocab}, plain_sampler{}, verifier::rejection{}, mode::sampled, 1);
}

TEST_CASE("random operations, greedy text, by both verifiers") {
  fuzz(selector::full{vocab}, sampler::greedy{}, verifier::greedy{}, mode::greedy, 2);
  fuzz(toy_selector{shuffled_layout(vocab, vocab)}, plain_sampler{}, verifier::rejection{},
       mode::greedy, 3);
}

TEST_CASE("random operations, requests with stages and log-probabilities") {
  fuzz(selector::full{vocab}, every_stage{}, verifier::rejection{}, mode::staged, 4);
  fuzz(toy_selector{shuffled_layout(vocab, vocab)}, every_stage{}, verifier::block{}, mode::staged,
       5);
  fuzz(selector::full{vocab}, every_stage{}, verifier::coupled{}, mode::staged, 6);
}

TEST_CASE("random operations over trees") {
  using enum child_law;
  fuzz_tree<independent>(plain_sampler{}, verifier::rejection{}, mode::sampled, 7);
  fuzz_tree<without_replacement>(every_stage{}, verifier::rejection{}, mode::staged, 8);
  fuzz_tree<ranked>(every_stage{}, verifier::point_mass{}, mode::staged, 9);
  fuzz_tree<ranked>(plain_sampler{}, verifier::point_mass{}, mode::greedy, 10);
}

constexpr tree::choices some{{0}, {1}, {0, 0}, {1, 1}, {0, 0, 0}};

template <class Tree, class S, class V, class Policy = length::fixed>
void fuzz_model(Tree tree, S sampler, V rule, mode m, std::uint64_t seed, Policy policy = {}) {
  const toy_selector selector{shuffled_layout(vocab, vocab)};
  toy_draft<float> draft{draft_world, selector.layout()};
  fuzz_with(
      [&](some_target&) {
        return drafter::autoregressive{draft, tree, policy};
      },
      &draft, selector, sampler, rule, m, seed);
}

TEST_CASE("random operations over trees of a draft model") {
  static constexpr double curve[] = {1.0, 1.1, 1.2, 1.4, 1.6};
  fuzz_model(tree::sampled<2, 2, 1>{}, every_stage{}, verifier::rejection{}, mode::staged, 11);
  fuzz_model(tree::dynamic<2, 3, 6>{}, every_stage{}, verifier::point_mass{}, mode::staged, 12);
  fuzz_model(tree::fixed<some>{}, plain_sampler{}, verifier::point_mass{}, mode::greedy, 13);
  fuzz_model(tree::chain<max_gamma>{}, plain_sampler{}, verifier::block{}, mode::sampled, 14,
             length::cost{.draft = 0.1, .rows = curve});
}

template <class Tree, class S, class V>
void fuzz_heads(Tree tree, S sampler, V rule, mode m, std::uint64_t seed) {
  const toy_selector selector{shuffled_layout(vocab, vocab)};
  toy_heads<float> heads{draft_world, 3, selector.layout()};
  fuzz_with(
      [&](some_target&) {
        return drafter::heads{heads, tree};
      },
      nullptr, selector, sampler, rule, m, seed, {&heads.failures});
}

TEST_CASE("random operations over trees of heads") {
  fuzz_heads(tree::sampled<2, 2>{}, every_stage{}, verifier::rejection{}, mode::staged, 15);
  fuzz_heads(tree::dynamic<2, 3, 6>{}, plain_sampler{}, verifier::point_mass{}, mode::greedy, 16);
}

/// Streams, and trees of them that the target's first layers prune.
template <bool Pruned, class Tree, class S, class V>
void fuzz_streams(Tree tree, S sampler, V rule, mode m, std::uint64_t seed) {
  const toy_selector selector{shuffled_layout(vocab, vocab)};
  toy_stream_head<float> head{draft_world, 3, selector.layout()};
  toy_view<some_target, float> view{draft_world, selector.layout()};
  const auto make = [&](some_target& target) {
    if constexpr (Pruned) {
      view.attach(target);
      return drafter::pruned{drafter::streaming{head, tree}, view, 4};
    } else {
      return drafter::streaming{head, tree};
    }
  };
  fuzz_with(make, nullptr, selector, sampler, rule, m, seed, {&head.failures, &view.failures});
}

TEST_CASE("random operations over streams, and over pruned trees of them") {
  fuzz_streams<false>(tree::sampled<2, 2>{}, every_stage{}, verifier::rejection{}, mode::staged,
                      17);
  fuzz_streams<false>(tree::dynamic<2, 3, 6>{}, plain_sampler{}, verifier::point_mass{},
                      mode::sampled, 18);
  fuzz_streams<true>(tree::dynamic<2, 3, 6>{}, every_stage{}, verifier::point_mass{}, mode::staged,
                     19);
  fuzz_streams<true>(tree::fixed<some>{}, plain_sampler{}, verifier::point_mass{}, mode::greedy,
                     20);
}

TEST_CASE("random operations over merged trees") {
  const toy_selector selector{shuffled_layout(vocab, vocab)};
  toy_draft<float> draft{draft_world, selector.layout()};
  fuzz_with(
      [&](some_target&) {
        return drafter::ensemble{drafter::nodes<8>{}, drafter::lookup<4>{},
                                 drafter::autoregressive{draft, tree::dynamic<2, 3, 6>{}}};
      },
      &draft, selector, every_stage{}, verifier::point_mass{}, mode::staged, 24);
}

TEST_CASE("random operations over drafters in turn") {
  const toy_selector selector{shuffled_layout(vocab, vocab)};
  toy_draft<float> draft{draft_world, selector.layout()};
  fuzz_with(
      [&](some_target&) {
        return drafter::cascade{drafter::lookup<4>{},
                                drafter::autoregressive{draft, tree::chain<max_gamma>{}}};
      },
      &draft, selector, every_stage{}, verifier::rejection{}, mode::staged, 25);
}

TEST_CASE("random operations on steps that are repeated") {
  const toy_selector selector{shuffled_layout(vocab, vocab)};
  toy_draft<float> draft{draft_world, selector.layout()};
  fuzz_repeated(
      [&](some_target&) {
        return drafter::autoregressive{draft, tree::chain<max_gamma>{}};
      },
      &draft, selector, every_stage{}, verifier::rejection{}, mode::staged, 21);
  toy_draft<float> trees{draft_world, selector.layout()};
  fuzz_repeated(
      [&](some_target&) {
        return drafter::autoregressive{trees, tree::dynamic<2, 3, 6>{}};
      },
      &trees, selector, plain_sampler{}, verifier::point_mass{}, mode::greedy, 22);
  toy_stream_head<float> head{draft_world, 3, selector.layout()};
  fuzz_repeated(
      [&](some_target&) {
        return drafter::streaming{head, tree::sampled<2, 2>{}};
      },
      nullptr, selector, plain_sampler{}, verifier::coupled{}, mode::sampled, 23, {&head.failures});
}

}  // namespace
}  // namespace hunch::test
