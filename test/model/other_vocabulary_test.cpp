// SPDX-License-Identifier: Apache-2.0

// What a draft model of another vocabulary reads, on every executor; that its drafts are exact is
// in exact/vocabularies.cpp.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/types.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/other_vocabulary.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/shared_vocabulary.hpp>
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

/// A model that tells what it has read.
struct listener {
  struct states {
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
  };

  std::int32_t vocab_size() const { return 3; }
  std::uint64_t head_order() const { return order; }
  states forward(const rows& asked) {
    read.assign(asked.tokens, asked.tokens + asked.size);
    return {};
  }
  void head(const states&, const head_rows<float>&) {}
  void commit(const kept_rows&) noexcept {}

  std::uint64_t order = 0;
  std::vector<token> read;
};

const shared_vocabulary& shared() {
  static const shared_vocabulary of{
      {2, 0, 1, 1}, vocab_layout::permuted({1, 0}, 4), vocab_layout::permuted({0, 2}, 3)};
  return of;
}

/// What is read of these tokens, in a pass after a smaller one.
template <class E>
std::vector<token> read_on(E executor, const std::vector<token>& tokens) {
  listener model{shared().draft.order(), {}};
  other_vocabulary seen(model, shared(), executor, 1);
  CHECK(seen.vocab_size() == 4);
  CHECK(seen.head_order() == shared().target.order());
  const std::vector<std::int32_t> some(tokens.size());
  const auto pass = [&](std::size_t size) {
    seen.forward({.size = static_cast<std::int32_t>(size),
                  .slot = some.data(),
                  .id = some.data(),
                  .parent = some.data(),
                  .position = some.data(),
                  .tokens = tokens.data()});
  };
  pass(1);
  CHECK(model.read == std::vector<token>{shared().reads[static_cast<std::size_t>(tokens[0])]});
  pass(tokens.size());
  return model.read;
}

}  // namespace

TEST_CASE("tokens are read in the draft model's numbers, by teams of every size") {
  std::vector<token> tokens, expected;
  for (std::int32_t i = 0; i < 70; ++i) {
    tokens.push_back(i * 7 % 4);
    expected.push_back(shared().reads[static_cast<std::size_t>(tokens.back())]);
  }
  // Of padding, whose values mean nothing, it reads some token.
  for (const token t : {token{-1}, token{4}, token{1 << 30}}) {
    tokens.push_back(t);
    expected.push_back(0);
  }
  CHECK(read_on(executor::host{}, tokens) == expected);
  CHECK(read_on(threads{{}, 1, 3}, tokens) == expected);
  CHECK(read_on(threads{{}, 2, 2}, tokens) == expected);
}

}  // namespace hunch::test
