// SPDX-License-Identifier: Apache-2.0

// What becomes of a step when a rank fails, is silent, or does something else.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/model/full_logits.hpp>
#include <hunch/model/sharded_target.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/hash_model.hpp"
#include "on_ranks.hpp"

namespace hunch::test::shard_failures_test {
namespace {

constexpr std::int32_t vocab = 9000;

/// A hash model that has the logits of one shard, and fails when it is told to.
class shard_of_hash {
 public:
  shard_of_hash(executor::host& host, std::int32_t first, std::int32_t end)
      : whole_(host, vocab, 1, 1, 64, 4), first_(first), end_(end) {}

  struct evaluation {
    hash_model<executor::host>::pass of;
    std::int32_t first;
    std::int32_t end;
    hunch::status status(std::int32_t i) const { return of.status(i); }
    row_view<float> logits(std::int32_t i) const {
      return {of.logits(i).data + first, end - first};
    }
  };

  std::int32_t vocab_size() const { return vocab; }
  evaluation evaluate(const rows& r) {
    if (fails_at == passes++) { throw std::runtime_error("no memory left"); }
    evaluation out{whole_.evaluate(r), first_, end_};
    for (std::int32_t i = 0; i < r.size; ++i) {
      for (std::int32_t v = 0; v < vocab; ++v) {
        if (v < first_ || v >= end_) { out.of.logits(i)[v] = std::nanf(""); }
      }
    }
    return out;
  }
  void commit(const kept_rows& kept) noexcept { whole_.commit(kept); }

  std::int64_t passes = 0;
  std::int64_t fails_at = -1;

 private:
  hash_model<executor::host> whole_;
  std::int32_t first_;
  std::int32_t end_;
};

struct written {
  std::vector<token> text;
  std::vector<std::string> errors;
};

/// What a rank writes; steps that throw are repeated.
template <class C>
written write(C& c, const shard_bounds& bounds, std::int32_t failing, std::int64_t fails_at) {
  const vocab_shards shards = shards_of(c, bounds);
  executor::sharded executor(c, shards);
  executor::host host;
  shard_of_hash mine(host, shards.first(c.rank()), shards.end(c.rank()));
  if (c.rank() == failing) { mine.fails_at = fails_at; }
  sharded_target target(mine, c, shards);
  hash_model<executor::host> draft_rows(host, vocab, 2, 1, 64, 4);
  decoder d{target,
            drafter::autoregressive{full_logits{draft_rows}, tree::chain<3>{}},
            selector::full{vocab},
            sampler::pipeline<sampler::temperature>{},
            verifier::rejection{},
            decoder_options{.max_batch = 1, .token_text = {}},
            random_source<>{},
            executor};
  generation_options o;
  o.max_new_tokens = 24;
  o.seed = 3;
  const std::vector<token> prompt{1, 2, 3};
  d.add(prompt, o);
  written out;
  while (d.running() > 0) {
    try {
      for (const emission& e : d.step()) {
        out.text.insert(out.text.end(), e.tokens.begin(), e.tokens.end());
      }
    } catch (const std::runtime_error& e) {
      out.errors.push_back(e.what());
      REQUIRE(out.errors.size() < 4);
    }
  }
  return out;
}

TEST_CASE("a rank that fails ends the step on all, and the step is repeated") {
  collective::none alone;
  const written whole = write(alone, {0, vocab}, -1, -1);
  REQUIRE(whole.text.size() == 24);
  for (const shard_bounds& bounds : {shard_bounds{0, 4096, vocab}, shard_bounds{0, 3000, vocab},
                                     shard_bounds{0, 10, 20, vocab}}) {
    const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
    for (std::int32_t failing = -1; failing < ranks; ++failing) {
      CAPTURE(bounds.size());
      CAPTURE(failing);
      std::vector<written> of(static_cast<std::size_t>(ranks));
      const rank_ends ends = on_ranks(ranks, [&](auto& c) {
        of[static_cast<std::size_t>(c.rank())] = write(c, bounds, failing, 2);
      });
      for (const std::string& what : ends.what) { CHECK(what == ""); }
      for (std::int32_t r = 0; r < ranks; ++r) {
        const written& mine = of[static_cast<std::size_t>(r)];
        CHECK(mine.text == whole.text);
        REQUIRE(mine.errors.size() == (failing >= 0 ? 1 : 0));
        if (failing < 0) { continue; }
        const std::string expected =
            r == failing ? "no memory left" : "rank " + std::to_string(failing) + " has failed";
        CHECK(mine.errors[0].find(expected) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a rank that is silent is named after the time-out") {
  const rank_ends ends = on_ranks(
      2,
      [&](auto& c) {
        const vocab_shards shards = shards_of(c, {0, 4096, vocab});
        if (c.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(600));
          return;
        }
        std::vector<float> row(vocab, 0.0f);
        executor::sharded executor(c, shards);
        executor.launch(1, [&]<class T>(T&, std::int32_t) {});  // no spanning body: no exchange
        std::int32_t mine = 0;
        all_reduce(c, &mine, 1, [](std::int32_t a, std::int32_t b) { return a + b; });
      },
      std::chrono::milliseconds(100));
  CHECK(ends.what[0].find("rank 1 is silent") != std::string::npos);
  CHECK(ends.what[1] == "");
}

TEST_CASE("shards that do not meet are refused on all ranks") {
  const auto refused = [](std::vector<std::pair<std::int32_t, std::int32_t>> of,
                          std::vector<std::int32_t> vocabs) {
    return on_ranks(static_cast<std::int32_t>(of.size()), [&](auto& c) {
      const auto r = static_cast<std::size_t>(c.rank());
      const vocab_shards shards(c, of[r].first, of[r].second, vocabs[r]);
    });
  };
  for (const std::string& what : refused({{0, 4000}, {4001, 9000}}, {9000, 9000}).what) {
    CHECK(what ==
          "hunch::vocab_shards: rank 1 has the tokens from 4001 to 9000, and those of the ranks "
          "before it end at 4000");
  }
  for (const std::string& what : refused({{0, 4000}, {4000, 8000}}, {9000, 9000}).what) {
    CHECK(what == "hunch::vocab_shards: the shards end at token 8000 of 9000");
  }
  for (const std::string& what : refused({{0, 4000}, {4000, 9001}}, {9000, 9001}).what) {
    CHECK(what == "hunch::vocab_shards: rank 1 has rows of 9001 tokens, and rank 0 of 9000");
  }
  CHECK(refused({{0, 0}, {0, 9000}, {9000, 9000}}, {9000, 9000, 9000}).all_went_well());
}

/// A body that exchanges `times` sums.
struct sums_of_row {
  static constexpr bool spans_ranks = true;
  const float* row;
  std::int32_t times;
  double* to;

  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    for (std::int32_t k = 0; k < times; ++k) {
      to[index] = team.sum(vocab, [&](std::int64_t i) { return row[i]; });
    }
  }
};

struct one_of_two : sums_of_row {
  std::int32_t which;

  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    if (index == which) { sums_of_row::operator()(team, index); }
  }
};
struct throws : sums_of_row {
  bool here;

  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    sums_of_row::operator()(team, index);
    if (here && index == 1) { throw std::runtime_error("a body has failed"); }
    sums_of_row::operator()(team, index);
  }
};

TEST_CASE("ranks in different steps are seen") {
  const std::vector<float> row(vocab, 1.0f);
  const rank_ends ends = on_ranks(2, [&](auto& c) {
    const vocab_shards shards = shards_of(c, {0, 4096, vocab});
    executor::sharded executor(c, shards);
    double sums[2] = {};
    // As many words, of other bodies.
    executor.launch(2, sums_of_row{row.data(), 1, sums});
    CHECK(sums[0] == vocab);
    executor.launch(2, one_of_two{{row.data(), 1, sums}, c.rank()});
  });
  for (const std::string& what : ends.what) {
    CHECK(what.find("in another round") != std::string::npos);
  }
}

TEST_CASE("what a body throws ends the launch on all ranks") {
  const std::vector<float> row(vocab, 1.0f);
  double again[2][3] = {};
  const rank_ends ends = on_ranks(2, [&](auto& c) {
    const vocab_shards shards = shards_of(c, {0, 4096, vocab});
    executor::sharded executor(c, shards);
    double* const sums = again[c.rank()];
    std::string what;
    try {
      executor.launch(3, throws{{row.data(), 1, sums}, c.rank() == 1});
    } catch (const std::runtime_error& e) { what = e.what(); }
    CHECK(what.find(c.rank() == 1 ? "a body has failed" : "rank 1 has failed") !=
          std::string::npos);
    executor.launch(3, throws{{row.data(), 1, sums}, false});
  });
  for (const std::string& what : ends.what) { CHECK(what == ""); }
  for (const auto& of : again) {
    for (const double sum : of) { CHECK(sum == vocab); }
  }
}

/// A collective that hears only itself: what it takes for the others' is its own.
struct deaf {
  std::int32_t ranks;
  std::int32_t own;
  std::int32_t size() const { return ranks; }
  std::int32_t rank() const { return own; }
  void all_gather(const void* mine, std::size_t bytes, void* all) const {
    for (std::int32_t r = 0; r < ranks; ++r) {
      std::memcpy(static_cast<char*>(all) + static_cast<std::size_t>(r) * bytes, mine, bytes);
    }
  }
  void fail() const noexcept {}
};

TEST_CASE("a rank that hears only itself comes to another sum") {
  std::vector<float> row(vocab);
  for (std::size_t i = 0; i < row.size(); ++i) { row[i] = static_cast<float>(i); }
  std::vector<double> found(2);
  on_ranks(2, [&](auto& c) {
    const vocab_shards shards = shards_of(c, {0, 4096, vocab});
    deaf alone{2, c.rank()};
    executor::sharded executor(alone, shards);
    executor.launch(1, sums_of_row{row.data(), 1, &found[static_cast<std::size_t>(c.rank())]});
  });
  team::serial whole;
  const double expected =
      whole.sum(vocab, [&](std::int64_t i) { return row[static_cast<std::size_t>(i)]; });
  CHECK(found[0] != expected);
  CHECK(found[1] != expected);
}

}  // namespace
}  // namespace hunch::test::shard_failures_test
