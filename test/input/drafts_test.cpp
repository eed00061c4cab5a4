// SPDX-License-Identifier: Apache-2.0

// What is no token in a draft that is pruned or merged, and states that a target cannot give.

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/verifier/point_mass.hpp>

namespace hunch::test::drafts_test {
namespace {

constexpr std::int32_t vocab = 4;
using plain = sampler::pipeline<sampler::temperature>;

/// Goes on with the token after the position, as good as surely.
class counting_target {
 public:
  /// Which call of `hidden` in a pass throws, counted from 0.
  std::int32_t throws_at = -1;

  class evaluation {
   public:
    explicit evaluation(counting_target& of) : of_(&of) {}
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {of_->logits_.data() + i * vocab, vocab};
    }
    row_view<float> hidden(std::int32_t i) const {
      if (of_->asked_++ == of_->throws_at) { throw std::bad_alloc(); }
      return {of_->hidden_.data() + i * 2, 2};
    }

   private:
    counting_target* of_;
  };

  static std::int32_t vocab_size() { return vocab; }
  evaluation evaluate(const rows& r) {
    asked_ = 0;
    logits_.assign(static_cast<std::size_t>(r.size * vocab), -20.0f);
    hidden_.assign(static_cast<std::size_t>(r.size * 2), 1.0f);
    for (std::int32_t i = 0; i < r.size; ++i) {
      logits_[static_cast<std::size_t>(i * vocab + r.position[i] % 3)] = 20.0f;
    }
    return evaluation(*this);
  }
  void commit(const kept_rows&) noexcept {}

 private:
  std::vector<float> logits_;
  std::vector<float> hidden_;
  std::int32_t asked_ = 0;
};

/// First layers that take token 2 for the least probable one.
struct preferring_view {
  static constexpr bool shares_target_cache = true;
  struct states {
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
  };
  static std::int32_t vocab_size() { return vocab; }
  static std::uint64_t head_order() { return vocab_layout::identity(vocab).order(); }
  states forward(const rows&) { return {}; }
  void head(const states&, const head_rows<float>& h) {
    constexpr float preferred[] = {3.0f, 2.0f, -9.0f, 0.0f};
    for (std::int32_t i = 0; i < h.size; ++i) {
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = preferred[h.lists[i].token_at(at)];
      }
    }
  }
  void commit(const kept_rows&) noexcept {}
};

/// The root's children, and what is no token below one of them.
struct three_children {
  static constexpr std::int32_t max_nodes = 6;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = false;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;

  std::int32_t invalid_below = 0;  ///< 0: nothing is invalid
  std::array<token, 3> tokens = {2, 0, 1};

  template <class Real, class Executor>
  struct state {
    state(const three_children&, Executor&, const drafter_setup& setup) : layout(setup.layout) {}
    const vocab_layout* layout;
  };
  void check(const drafter_setup&) const {}
  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting&, const S&, const Draw&, Executor&) {
    for (std::int32_t k = 0; k < slots; ++k) {
      if (contexts[k].length == 0 || contexts[k].max_depth < 2) { continue; }
      const auto tree = drafts.tree(k);
      for (const std::int32_t node : {0, invalid_below}) {
        drafts.ranges(k, node)[0] = {0, vocab};
        tree.lists[node] = s.layout->list(drafts.ranges(k, node), 1, nullptr);
      }
      std::int32_t node = 1;
      for (const token t : tokens) {
        tree.tokens[node] = t;
        drafts.grow(k, node++, 0);
      }
      if (invalid_below == 0) { continue; }
      tree.tokens[node] = no_token;
      drafts.grow(k, node, invalid_below);
    }
  }
  template <class State, class Evaluation, class Executor>
  void observe(State&, const draft_outcomes&, Evaluation&, Executor&) noexcept {}
  template <class State, class Executor>
  void release(State&, std::int32_t, Executor&) noexcept {}
};

TEST_CASE("what is no token stays below its parent when a tree is pruned") {
  // The text is 0, 1, 2, 0...: it takes node 2 first, the child 0, which is node 1 of the pruned
  // tree, since the child 2 is taken out.
  const auto finish_of = [](std::int32_t invalid_below) {
    counting_target target;
    preferring_view view;
    decoder d{target,
              drafter::pruned{three_children{invalid_below}, view, 3},
              selector::full{vocab},
              plain{},
              verifier::point_mass{},
              decoder_options{}};
    generation_options options;
    options.max_new_tokens = 8;
    d.add(std::vector<token>{1}, options);
    emission last{};
    while (d.running() > 0) {
      for (const emission& e : d.step()) {
        last.finish = e.finish;
        last.status = e.status;
      }
    }
    return last;
  };
  CHECK(finish_of(0).finish == finish_reason::length);
  CHECK(finish_of(1).finish == finish_reason::length);  // its parent is gone
  CHECK(finish_of(2).status == status::invalid_token);
}

TEST_CASE("what is no token stays below its parent when trees are merged") {
  // The text is 0, 1, 2, 0...: its steps take the child 0 first, then the child 2, then 1.
  const auto tokens_before = [](std::int32_t first, std::int32_t second) {
    counting_target target;
    decoder d{target,
              drafter::ensemble{three_children{first, {1, 2, 0}}, three_children{second}},
              selector::full{vocab},
              plain{},
              verifier::point_mass{},
              decoder_options{}};
    generation_options options;
    options.max_new_tokens = 8;
    d.add(std::vector<token>{1}, options);
    std::size_t tokens = 0;
    status last = status::ok;
    while (d.running() > 0) {
      for (const emission& e : d.step()) {
        tokens += e.tokens.size();
        last = e.status;
      }
    }
    CHECK((last == status::invalid_token) == (first + second > 0));
    return tokens;
  };
  CHECK(tokens_before(0, 0) == 8);
  CHECK(tokens_before(3, 0) == 1);
  CHECK(tokens_before(2, 0) == 3);
  CHECK(tokens_before(1, 0) == 5);
  CHECK(tokens_before(0, 2) == 1);
  CHECK(tokens_before(0, 1) == 3);
  CHECK(tokens_before(0, 3) == 5);
  CHECK(tokens_before(2, 1) == tokens_before(2, 0));  // the first one's counts
}

struct two_heads {
  std::int64_t inputs = 0;

  struct states {};
  static std::int32_t vocab_size() { return vocab; }
  static std::int32_t hidden_size() { return 2; }
  static std::int32_t heads() { return 1; }
  static std::uint64_t head_order() { return vocab_layout::identity(vocab).order(); }
  states forward(const head_inputs& in) {
    inputs += in.size;
    for (std::int32_t i = 0; i < in.size; ++i) { CHECK(in.hidden[i][0] == 1.0f); }
    return {};
  }
  void head(const states&, const head_rows<float>& h) {
    for (std::int32_t i = 0; i < h.size; ++i) {
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = static_cast<float>(at);
      }
    }
  }
};

TEST_CASE("a target that cannot give a state has the next step draft nothing") {
  static constexpr tree::choices both{{0}, {1}};
  for (const std::int32_t throws_at : {-1, 1, 2}) {
    CAPTURE(throws_at);
    counting_target target;
    target.throws_at = throws_at;
    two_heads heads;
    decoder d{target,
              drafter::heads{heads, tree::fixed<both>{}},
              selector::full{vocab},
              plain{},
              verifier::point_mass{},
              decoder_options{.max_batch = 2}};
    generation_options options;
    options.max_new_tokens = 8;
    for (std::int32_t request = 0; request < 2; ++request) {
      d.add(std::vector<token>{1}, options);
    }
    std::size_t written = 0;
    while (d.running() > 0) {
      for (const emission& e : d.step()) { written += e.tokens.size(); }
    }
    CHECK(written == 16);
    CHECK((heads.inputs > 0) == (throws_at < 0));
  }
}

}  // namespace
}  // namespace hunch::test::drafts_test
