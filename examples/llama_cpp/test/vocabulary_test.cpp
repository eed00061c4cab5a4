// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include <hunch/tools/fingerprints.hpp>

#include "../vocabulary.hpp"
#include "shipped.hpp"

namespace llama_cpp::test {

TEST_CASE("texts become tokens and texts again") {
  const std::string text =
      "Temperature:\t21 \xC2\xB0"
      "C \xE4\xB8\xA2\n  twice  ";
  const auto tokens = encode(target(), text);
  CHECK(tokens.front() == 1);  // begins a text
  std::string again;
  for (std::size_t i = 1; i < tokens.size(); ++i) { again += bytes_of(target(), tokens[i]); }
  CHECK(again == text);
  CHECK(encode(target(), "").size() == 1);
  CHECK(ends_of(target()) == std::vector<hunch::token>{2});
}

TEST_CASE("vocabularies are compared token by token") {
  check_same_vocabulary(target(), draft());
  const weights other(HUNCH_GGUF "/other-token.gguf");
  CHECK_THROWS_WITH_AS(check_same_vocabulary(target(), other),
                       doctest::Contains("have not the same vocabulary: token 31999 is"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(
      check_same_vocabulary(target(), weights(HUNCH_GGUF "/fewer-tokens.gguf")),
      doctest::Contains("the number of tokens is 32000 in the first, and 31999 in the second"),
      std::runtime_error);
}

TEST_CASE("what begins and ends a text may differ") {
  const weights other(HUNCH_GGUF "/other-ends.gguf");
  REQUIRE(encode(other, "") == std::vector<hunch::token>{4});
  REQUIRE(ends_of(other) != ends_of(target()));
  CHECK_NOTHROW(check_same_vocabulary(target(), other));
}

TEST_CASE("heads are known by their values, whatever holds them") {
  const hunch::made_for f32 = made_for_head_of(target());
  CHECK(hunch::fingerprint_text(f32.vocabulary) == "0xf4ef5176c2fd06de");
  CHECK(f32.head != 0);
  CHECK(made_for_head_of(weights(HUNCH_GGUF "/target-bf16.gguf")).head == f32.head);
  CHECK(made_for_head_of(four_bits()).head == f32.head);
  CHECK(made_for_head_of(draft()).head != f32.head);
  CHECK(made_for_head_of(weights(HUNCH_GGUF "/target-q8_0.gguf")).head == 0);
}

TEST_CASE("tables for another head are refused") {
  CHECK_THROWS_WITH_AS(shipped_head("dynaspec:1600", draft()),
                       doctest::Contains("was made for another head"), std::runtime_error);
  CHECK_THROWS_AS(shipped_head("dynaspec:0", four_bits()), std::invalid_argument);
  CHECK_THROWS_AS(shipped_head("frequency:", draft()), std::invalid_argument);
  CHECK_THROWS_AS(shipped_head("frequency:32001", draft()), std::invalid_argument);
}

}  // namespace llama_cpp::test
