// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <engine/model.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/row_batch.hpp>
#include <engine/tokenizer.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "reference.hpp"
#include "tiny_model.hpp"

/// What a copy of a model in 4-bit integers is worth as its own drafter; its products are in
/// products.cpp.

namespace int4_test {
namespace {

using engine::arithmetic;

const std::filesystem::path models = HUNCH_TEST_MODELS;

int argmax(const float* row, int size) {
  return static_cast<int>(std::max_element(row, row + size) - row);
}

}  // namespace

TEST_CASE("an int4 copy keeps norms and the head over shortlists") {
  for (const bool tied : {true, false}) {
    for (const engine::dtype type :
         {engine::dtype::f32, engine::dtype::f16, engine::dtype::bf16, engine::dtype::i8}) {
      CAPTURE(tied);
      CAPTURE(engine::to_string(type));
      engine::config c = test::small_config();
      c.tied_head = tied;
      const auto weights = test::random_checkpoint(c, type);
      engine::model m(c, weights, {.kind = arithmetic::int4});
      const test::reference_model reference(c, weights);
      test::row_batch rows;
      rows.add_chain(0, 0, {5, 6, 7});
      const auto states = m.forward(rows.view());
      const std::int32_t row = 2;
      const auto hidden = states.hidden(row);
      const test::vec expected = reference.head({hidden.data, hidden.data + hidden.size});
      const hunch::row_range range{0, c.vocab_size};
      const auto list = hunch::vocab_layout::identity(c.vocab_size).list(&range, 1);
      std::vector<float> logits(static_cast<std::size_t>(list.size));
      hunch::row_view<float> out{logits.data(), list.size};
      m.head(states, {1, &row, &list, &out});
      // Floats are rounded to bf16 there, and hidden states to 15 bits beside bytes.
      const double tolerance = type == engine::dtype::i8     ? 5e-4
                               : type == engine::dtype::bf16 ? 1e-4
                                                             : 0.1;
      for (std::size_t v = 0; v < logits.size(); ++v) {
        CHECK(std::fabs(static_cast<double>(logits[v]) - expected[v]) < tolerance);
      }
    }
  }
}

TEST_CASE("an int4 copy reads the embedding as it is stored") {
  const engine::config c = test::small_config();
  for (const engine::dtype type : {engine::dtype::f32, engine::dtype::i8}) {
    CAPTURE(engine::to_string(type));
    std::vector<test::stored_tensor> tensors = test::random_tensors(c, type);
    for (test::stored_tensor& t : tensors) {  // layers that add nothing
      const bool adds = t.name.ends_with("o_proj.weight") || t.name.ends_with("down_proj.weight");
      if (adds) { std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0}); }
    }
    const auto weights = test::in_memory(tensors);
    engine::model m(c, weights, {.kind = arithmetic::int4});
    const test::reference_model reference(c, weights);
    test::row_batch rows;
    rows.add_chain(0, 0, {7});
    const auto hidden = m.forward(rows.view()).hidden(0);
    const test::vec embedding = test::reference_model::row(
        weights.matrix("model.embed_tokens.weight", c.vocab_size, c.hidden), 7);
    const test::vec expected = reference.norm(weights, "model.norm.weight", embedding);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      CHECK(static_cast<double>(hidden.data[k]) == doctest::Approx(expected[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("the shipped target and its int4 copy along held-out text") {
  const engine::tokenizer text(models / "target");
  const auto load = [](const char* name, arithmetic kind) {
    return engine::model::load(models / name, {.kind = kind});
  };
  engine::model target = load("target", engine::preferred_bf16());
  engine::model copy = load("target", arithmetic::int4);
  engine::model draft = load("draft", engine::preferred_bf16());
  // 4 bits and a sixteenth of a bf16 scale and a half for each weight, where bf16 has 16.
  CHECK(copy.weight_bytes() * 32 == load("target", arithmetic::bf16_fma).weight_bytes() * 9);

  const int vocab = target.vocab_size();
  const hunch::row_range range{0, vocab};
  const auto list = hunch::vocab_layout::identity(vocab).list(&range, 1);
  std::vector<float> listed(static_cast<std::size_t>(vocab));
  hunch::row_view<float> out{listed.data(), vocab};
  constexpr std::int32_t length = 160;
  int positions = 0;
  int of_copy = 0;
  int of_listed = 0;
  int of_draft = 0;
  for (const char* domain : {"docs", "java", "man_fr", "scripture"}) {
    std::ifstream in(models / "heldout" / (std::string(domain) + ".txt"), std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    auto tokens = text.encode(all.substr(all.find('\n', all.size() / 2), 8 * length), true);
    tokens.resize(length);
    test::row_batch rows;
    rows.add_chain(0, 0, tokens);
    const auto expected = target.evaluate(rows.view());
    const auto got = copy.evaluate(rows.view());
    const auto other = draft.evaluate(rows.view());
    for (std::int32_t i = 0; i < length; ++i) {
      const int best = argmax(expected.logits(i).data, vocab);
      of_copy += argmax(got.logits(i).data, vocab) == best ? 1 : 0;
      of_draft += argmax(other.logits(i).data, vocab) == best ? 1 : 0;
      copy.head(got, {1, &i, &list, &out});
      of_listed += argmax(listed.data(), vocab) == best ? 1 : 0;
      ++positions;
    }
  }
  const auto share = [&](int count) { return static_cast<double>(count) / positions; };
  MESSAGE("same argmax: copy " << share(of_copy) << ", by the head over shortlists "
                               << share(of_listed) << ", draft " << share(of_draft));
  CHECK(share(of_copy) > 0.8);
  CHECK(share(of_listed) > 0.85);
  CHECK(share(of_draft) < 0.7);  // what a separate model is worth
}

}  // namespace int4_test
