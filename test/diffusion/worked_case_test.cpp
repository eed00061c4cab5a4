// SPDX-License-Identifier: Apache-2.0

// The worked case of self-speculation, row by row: three drafts, blocks of four.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include "fill.hpp"

namespace hunch::test {
namespace {

/// Tokens by letter; M is the mask, P the prompt.
const std::string letters = "MXABCDP";

std::vector<token> canvas_of(const std::string& text) {
  std::vector<token> canvas;
  for (const char c : text) { canvas.push_back(static_cast<token>(letters.find(c))); }
  return canvas;
}

/// What the model would put at a position of a canvas, and how probable it is.
struct opinion {
  char letter;
  double probability;
};

/// A model with opinions about some positions of some canvases, and next to none about others.
class scripted_model {
 public:
  struct evaluation {
    std::vector<std::vector<float>> rows;
    row_view<float> logits(std::int32_t i) {
      std::vector<float>& row = rows[static_cast<std::size_t>(i)];
      return {row.data(), static_cast<std::int32_t>(row.size())};
    }
  };

  static std::int32_t vocab_size() { return static_cast<std::int32_t>(letters.size()); }
  static token mask_token() { return 0; }
  static std::int32_t max_positions() { return 9; }
  void release(std::int32_t) noexcept {}

  evaluation evaluate(const diffusion::canvases& asked) {
    passes.emplace_back();
    evaluation e;
    for (std::int32_t i = 0; i < asked.size; ++i) {
      std::string text;
      for (std::int32_t p = 0; p < asked.canvas(i).size; ++p) {
        text += letters[static_cast<std::size_t>(asked.canvas(i)[p])];
      }
      passes.back().push_back(text);
      for (std::int32_t w = 0; w < asked.wanted_of(i).size; ++w) {
        e.rows.push_back(row(text, asked.wanted_of(i)[w]));
      }
    }
    return e;
  }

  std::map<std::pair<std::string, std::int32_t>, opinion> script;
  std::vector<std::vector<std::string>> passes;

 private:
  std::vector<float> row(const std::string& text, std::int32_t position) const {
    const auto found = script.find({text, position});
    const opinion o = found != script.end() ? found->second : opinion{'X', 0.2};
    const double rest = (1.0 - o.probability) / static_cast<double>(letters.size() - 2);
    std::vector<float> logits(letters.size(), static_cast<float>(std::log(rest)));
    logits[letters.find(o.letter)] = static_cast<float>(std::log(o.probability));
    logits[0] = 10.0f;  // the mask itself would be by far the surest
    return logits;
  }
};

scripted_model the_model() {
  scripted_model m;
  // Before the round: X at the second place, and the three that become drafts.
  m.script[{"PXMMMMMMM", 2}] = {'X', 0.97};
  m.script[{"PXMMMMMMM", 3}] = {'B', 0.60};
  m.script[{"PXMMMMMMM", 4}] = {'A', 0.95};
  m.script[{"PXMMMMMMM", 6}] = {'C', 0.75};
  m.script[{"PXXMMMMMM", 4}] = {'A', 0.90};  // row 0
  m.script[{"PXXMMMMMM", 3}] = {'B', 0.50};
  m.script[{"PXXMAMMMM", 3}] = {'D', 0.80};  // row 1
  m.script[{"PXXMAMMMM", 6}] = {'C', 0.99};  // surer, but in the second block
  return m;
}

canvas_task the_task() { return {canvas_of("PXMMMMMMM"), 1, 4}; }

using unmaskings = std::vector<diffusion::unmasking>;
diffusion::unmasking put(std::int32_t position, char letter) {
  return {position, canvas_of(std::string(1, letter))[0]};
}
unmaskings of(const diffusion::emission& e) { return {e.unmaskings.begin(), e.unmaskings.end()}; }
using origins = std::vector<origin>;
origins from(const diffusion::emission& e) { return {e.origins.begin(), e.origins.end()}; }

TEST_CASE("the worked case, row by row") {
  scripted_model model = the_model();
  auto d = chain_decoder<3>(model);
  add(d, the_task());

  const diffusion::emission first = d.step()[0];
  CHECK(model.passes[0] == std::vector<std::string>{"PXMMMMMMM"});
  CHECK(of(first) == unmaskings{put(2, 'X')});
  CHECK(from(first) == origins{origin::sampled});

  const diffusion::emission second = d.step()[0];
  CHECK(model.passes[1] ==
        std::vector<std::string>{"PXXMMMMMM", "PXXMAMMMM", "PXXBAMMMM", "PXXBAMCMM"});
  CHECK(of(second) == unmaskings{put(4, 'A'), put(3, 'D')});
  CHECK(from(second) == origins{origin::accepted, origin::corrected});
  CHECK(std::vector<token>(second.canvas.begin(), second.canvas.end()) == canvas_of("PXXDAMMMM"));
  CHECK(second.finish == finish_reason::none);

  // The logits of row 1 are used again: C is now the first draft.
  d.step();
  CHECK(model.passes[2][1] == "PXXDAMCMM");
  CHECK(d.stats().drafted == 6);
  CHECK(d.stats().target_rows == 1 + 4 + 4);
}

TEST_CASE("one token a pass unmasks the same") {
  scripted_model model = the_model();
  auto d = canvas_decoder<0>(model);
  const fill_result stepwise = fill(d, the_task());
  REQUIRE(stepwise.unmaskings.size() == 7);
  CHECK(stepwise.rounds == 7);
  CHECK(unmaskings(stepwise.unmaskings.begin(), stepwise.unmaskings.begin() + 3) ==
        unmaskings{put(2, 'X'), put(4, 'A'), put(3, 'D')});
  auto quick = chain_decoder<3>(model);
  const fill_result speculative = fill(quick, the_task());
  CHECK(speculative.unmaskings == stepwise.unmaskings);
  CHECK(speculative.rounds < stepwise.rounds);
}

TEST_CASE("with canvases for other orders, drafts are unmasked in the order of the model") {
  scripted_model model = the_model();
  model.script[{"PXMMMMMMM", 4}] = {'A', 0.64};
  model.script[{"PXXMMMMMM", 3}] = {'B', 0.93};  // now surer than A
  model.script[{"PXXBMMMMM", 4}] = {'A', 0.90};
  auto d = canvas_decoder<3>(model);
  add(d, the_task());
  d.step();
  const diffusion::emission second = d.step()[0];
  // By odds of 16 : 9 and 3 : 2, and fourth roots: A 0.542 * 0.894 = 0.485, with B 0.880 of that; B
  // 0.458 * 0.880 = 0.403, which is likelier than A, B and C, 0.427 * 0.931 = 0.397.
  CHECK(model.passes[1] ==
        std::vector<std::string>{"PXXMMMMMM", "PXXMAMMMM", "PXXBAMMMM", "PXXBMMMMM"});
  CHECK(of(second) == unmaskings{put(3, 'B'), put(4, 'A'), put(5, 'X')});
  CHECK(from(second) == origins{origin::accepted, origin::accepted, origin::bonus});
  CHECK(d.stats().drafted == 3);
  CHECK(d.stats().accepted == 2);
  CHECK(d.stats().proposed_at[1] == 1);  // no canvas has three drafts
  CHECK(d.stats().proposed_at[2] == 0);

  // In a chain both are refused, for B is not the first of it.
  auto chain = chain_decoder<3>(model);
  add(chain, the_task());
  chain.step();
  const diffusion::emission refused = chain.step()[0];
  CHECK(of(refused) == unmaskings{put(3, 'B')});
  CHECK(from(refused) == origins{origin::corrected});
}

TEST_CASE("an order of positions alone has a chain") {
  scripted_model model = the_model();
  auto d = canvas_decoder<3>(model, 1, diffusion::order::left_to_right{});
  add(d, the_task());
  d.step();
  d.step();
  CHECK(model.passes[1] ==
        std::vector<std::string>{"PXXMMMMMM", "PXXBMMMMM", "PXXBAMMMM", "PXXBAXMMM"});
}

/// Drafts as if there were no blocks.
struct blind_to_blocks : diffusion::order::confidence {
  static constexpr bool before(const diffusion::candidate& a, const diffusion::candidate& b) {
    return a.score > b.score || (a.score == b.score && a.what.position < b.what.position);
  }
};

TEST_CASE("the rows of drafts that ignore the blocks are others") {
  scripted_model model = the_model();
  auto d = chain_decoder<3>(model, 1, blind_to_blocks{});
  add(d, the_task());
  d.step();
  d.step();
  CHECK(model.passes[1] ==
        std::vector<std::string>{"PXXMMMMMM", "PXXMAMMMM", "PXXMAMCMM", "PXXBAMCMM"});
}

TEST_CASE("by the top-k rule B is unmasked, which is not what one token a pass unmasks") {
  const auto second_round = [](std::int32_t k) {
    scripted_model model = the_model();
    auto d =
        chain_decoder<3>(model, 1, diffusion::order::confidence{}, diffusion::verifier::top_k{k});
    static_assert(!decltype(d)::lossless);
    add(d, the_task());
    d.step();
    return of(d.step()[0]);
  };
  // B is no favourite in row 1, but with k = 1 A is; A and X come before it, for equal ids count.
  CHECK(second_round(1) == unmaskings{put(4, 'A'), put(3, 'D')});
  CHECK(second_round(3) == unmaskings{put(4, 'A'), put(3, 'D')});
  const unmaskings likely = second_round(4);
  REQUIRE(likely.size() >= 2);
  CHECK(likely[1] == put(3, 'B'));
  CHECK(second_round(7).size() == 4);  // every draft, and one more
}

}  // namespace
}  // namespace hunch::test
