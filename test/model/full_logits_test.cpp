// SPDX-License-Identifier: Apache-2.0

// A draft model made of anything that returns whole rows of logits writes what a draft model with a
// head of its own writes, under every selector, and is read in place where it may be.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/full_logits.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/selector/trimmed.hpp>
#include <hunch/team/put_away.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/hash_model.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test::full_logits_test {
namespace {

constexpr std::int32_t vocab = 70;
constexpr std::int32_t batch = 2;
constexpr std::int32_t most_rows = 64;

/// What a model says of how long its logits stay, and how long they do.
enum class rows_stay { a_pass, a_step, a_pass_and_says_a_step };

/// A target that keeps the logits of all passes between two commits, or drops them with the next.
/// \tparam Logit what they are stored as. \tparam Rounded what they are rounded to before.
template <class E, rows_stay Stay, class Logit = float, class Rounded = Logit>
class row_model {
 public:
  static constexpr bool keeps_logits = Stay != rows_stay::a_pass;

  row_model(E& executor, std::uint64_t salt) : model_(executor, vocab, salt, batch, most_rows) {}

  struct numbers {
    std::vector<Logit> logits;
    std::vector<float> contexts;
  };
  struct pass {
    numbers* all;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<Logit> logits(std::int32_t i) const {
      return {all->logits.data() + std::ptrdiff_t{i} * vocab, vocab};
    }
    context_rows contexts() const { return {all->contexts.data(), hash_context_size}; }
  };

  std::int32_t vocab_size() const { return vocab; }
  static std::int32_t context_width() { return hash_context_size; }
  pass evaluate(const rows& r) {
    const auto made = model_.evaluate(r);
    if (passes_.empty() || Stay == rows_stay::a_step) { passes_.emplace_back(); }
    numbers& all = passes_.back();
    all.logits.resize(most_rows * vocab);
    all.contexts.resize(most_rows * hash_context_size);
    const std::ptrdiff_t rows = r.size;
    std::transform(made.all, made.all + rows * vocab, all.logits.begin(),
                   [](float x) { return to_logit<Logit>(to_real(to_logit<Rounded>(x))); });
    std::copy_n(made.contexts, rows * hash_context_size, all.contexts.begin());
    return {&all};
  }
  void commit(const kept_rows& kept) noexcept {
    model_.commit(kept);
    passes_.clear();
  }

 private:
  hash_model<E> model_;
  std::deque<numbers> passes_;
};

/// What requests emit, two at a time, the sampler editing rows.
template <class Tree, class Verifier, class Draft, class Selector, class E>
std::vector<std::vector<token>> texts(Draft& draft, const Selector& selector, E& executor) {
  hash_model<E> target(executor, vocab, 1, batch, most_rows);
  decoder d{target,
            drafter::autoregressive{draft, Tree{}},
            selector,
            sampler::pipeline<sampler::temperature>{},
            Verifier{},
            decoder_options{.max_batch = batch, .max_length = 64, .token_text = {}},
            random_source<>{},
            executor};
  std::vector<std::vector<token>> out(9);
  for (std::uint64_t seed = 0; seed < 8 || d.running() > 0;) {
    if (seed < 8 && d.running() < batch) {
      d.add(std::vector<token>{1, static_cast<token>(seed)},
            {.max_new_tokens = 24, .temperature = 0.8f, .seed = seed});
      ++seed;
      continue;
    }
    for (const emission& e : d.step()) {
      auto& text = out[static_cast<std::size_t>(e.id)];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  return out;
}

template <class Tree, class Verifier, rows_stay Stay = rows_stay::a_pass, class Logit = float,
          class Rounded = Logit, class Selector, class E>
auto with_rows(const Selector& selector, const vocab_layout& layout, E executor,
               std::int32_t max_rows = most_rows) {
  row_model<E, Stay, Logit, Rounded> rows(executor, 2);
  full_logits draft{rows, layout, executor, max_rows};
  return texts<Tree, Verifier>(draft, selector, executor);
}

template <class Tree, class Verifier, class Selector>
void check(const Selector& selector, const vocab_layout& layout) {
  executor::host host;
  hash_model<executor::host> own(host, vocab, 2, batch, most_rows);
  own.head_layout(layout);
  const auto expected = texts<Tree, Verifier>(own, selector, host);
  CHECK(expected[8].size() == 24);
  CHECK(with_rows<Tree, Verifier>(selector, layout, host) == expected);
  CHECK(with_rows<Tree, Verifier, rows_stay::a_step>(selector, layout, host) == expected);
  CHECK(with_rows<Tree, Verifier>(selector, layout, threads{{}, 1, 3}) == expected);
  CHECK(with_rows<Tree, Verifier>(selector, layout, threads{{}, 2, 2}) == expected);
  CHECK(with_rows<Tree, Verifier, rows_stay::a_step>(selector, layout, threads{{}, 1, 2}) ==
        expected);
  CHECK(with_rows<Tree, Verifier>(selector, layout, hidden_threads{{{}, 1, 2}}) == expected);
  CHECK(with_rows<Tree, Verifier, rows_stay::a_step>(selector, layout, hidden_threads{}) ==
        expected);
}

template <class Selector>
void check_trees(const Selector& selector, const vocab_layout& layout) {
  check<tree::chain<4>, verifier::rejection>(selector, layout);
  check<tree::sampled<2, 2>, verifier::rejection>(selector, layout);
  check<tree::dynamic<3, 3, 9>, verifier::point_mass>(selector, layout);
}

vocab_layout shuffled() {
  std::vector<token> order;
  for (token t = 0; t < vocab; ++t) { order.push_back(t * 37 % vocab); }
  return vocab_layout::permuted(order, vocab);
}

}  // namespace

TEST_CASE("whole rows of logits draft what a head of its own drafts, under every selector") {
  const vocab_layout identity = vocab_layout::identity(vocab);
  const vocab_layout layout = shuffled();
  check_trees(selector::full{vocab}, identity);
  check_trees(selector::frequency<>{layout, 30}, layout);
  check_trees(selector::frequency<>{identity, vocab}, identity);
  const vocab_layout clusters = layout.clustered({4, 9, 21, 40, 55, vocab});
  check_trees(selector::clustered{clusters, hash_router{clusters.clusters()}, budget::fixed{2}},
              clusters);
}

TEST_CASE("logits of another type, and passes of more rows than were said, are drafted from") {
  executor::host host;
  const selector::full all{vocab};
  const vocab_layout identity = vocab_layout::identity(vocab);
  const auto drafted = [&]<class Logit, class Rounded>(std::int32_t max_rows) {
    return with_rows<tree::chain<4>, verifier::rejection, rows_stay::a_pass, Logit, Rounded>(
        all, identity, host, max_rows);
  };
  const auto rounded = drafted.template operator()<float, bfloat16>(most_rows);
  CHECK(drafted.template operator()<bfloat16, bfloat16>(most_rows) == rounded);
  const auto expected = drafted.template operator()<float, float>(most_rows);
  CHECK(rounded != expected);
  CHECK(drafted.template operator()<float, float>(1) == expected);
}

TEST_CASE("where the host does not read rows, too many and scattered ones are refused") {
  const std::vector<std::int32_t> zero(3, 0), ids{0, 1, 2}, parents{end_of_cache, 0, 1};
  const std::vector<token> t(3, 1);
  const std::vector<std::uint8_t> wanted(3, 1);
  const rows three{.size = 3,
                   .slot = zero.data(),
                   .id = ids.data(),
                   .parent = parents.data(),
                   .position = ids.data(),
                   .tokens = t.data(),
                   .wanted = wanted.data()};
  const vocab_layout identity = vocab_layout::identity(vocab);
  hidden_threads executor;
  row_model<hidden_threads, rows_stay::a_pass> even(executor, 2);
  full_logits narrow{even, identity, executor, 2};
  CHECK_THROWS_AS(narrow.forward(three), std::length_error);
  full_logits wide{even, identity, executor, 3};
  CHECK_NOTHROW(wide.forward(three));

  struct scattered : row_model<hidden_threads, rows_stay::a_pass> {
    using base = row_model<hidden_threads, rows_stay::a_pass>;
    using base::base;
    struct pass : base::pass {
      row_view<float> logits(std::int32_t i) const { return base::pass::logits(i * i); }
    };
    pass evaluate(const rows& r) { return {base::evaluate(r)}; }
  };
  scattered uneven(executor, 2);
  full_logits apart{uneven, identity, executor, 3};
  CHECK_THROWS_AS(apart.forward(three), std::logic_error);
}

TEST_CASE("a row that is asked for as a whole is read where it is") {
  const vocab_layout identity = vocab_layout::identity(vocab);
  const auto lends = [&](auto stay, std::int32_t size) {
    executor::host host;
    row_model<executor::host, decltype(stay)::value> rows(host, 2);
    full_logits draft{rows};
    CHECK(lends_for_a_pass<decltype(draft)> == (decltype(stay)::value == rows_stay::a_pass));
    const std::int32_t zero = 0, end = end_of_cache;
    const token t = 3;
    const std::uint8_t wanted = 1;
    const auto pass = draft.forward({.size = 1,
                                     .slot = &zero,
                                     .id = &zero,
                                     .parent = &end,
                                     .position = &zero,
                                     .tokens = &t,
                                     .wanted = &wanted});
    const row_range range{0, size};
    const shortlist list = identity.list(&range, 1);
    std::vector<float> room(vocab, -1.0f);
    row_view<float> logits{room.data(), size};
    draft.head(pass, head_rows<float>{1, &zero, &list, &logits});
    const std::vector<float> expected(pass.logits(0).data, pass.logits(0).data + size);
    CHECK(std::vector<float>(logits.data, logits.data + logits.size) == expected);
    return logits.data == pass.logits(0).data;
  };
  using a_pass = std::integral_constant<rows_stay, rows_stay::a_pass>;
  using a_step = std::integral_constant<rows_stay, rows_stay::a_step>;
  CHECK(lends(a_step{}, vocab));
  CHECK(lends(a_pass{}, vocab));
  CHECK_FALSE(lends(a_step{}, vocab - 1));
  CHECK_FALSE(lends(a_pass{}, vocab - 1));
}

TEST_CASE("a row is copied whatever its length and wherever it begins") {
  team::serial team;
  constexpr std::int32_t most = 70;
  std::vector<float> from(most);
  std::iota(from.begin(), from.end(), 1.0f);
  for (std::int32_t size = 0; size <= most; ++size) {
    for (std::int32_t at = 0; at < 5; ++at) {
      std::vector<float> to(most + 8, -1.0f);
      team::put_away(team, to.data() + at, from.data() + size % 3, size - size % 3);
      std::vector<float> expected(most + 8, -1.0f);
      std::copy_n(from.data() + size % 3, size - size % 3, expected.data() + at);
      CHECK(to == expected);
    }
  }
}

TEST_CASE("a row that goes with the next pass, of a model that says it stays, is found out") {
  // Negative control: laws are read after the drafter's last pass, and such rows are not copied.
  executor::host host;
  const selector::full all{vocab};
  const vocab_layout identity = vocab_layout::identity(vocab);
  const auto right = with_rows<tree::chain<4>, verifier::rejection>(all, identity, host);
  CHECK(with_rows<tree::chain<4>, verifier::rejection, rows_stay::a_pass_and_says_a_step>(
            all, identity, host) != right);
}

}  // namespace hunch::test::full_logits_test
