// SPDX-License-Identifier: Apache-2.0

// Children that are drawn without the ones before, over rows of several tiles: what a team
// remembers of the law's sums does not hold for what is left of it.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/distribution/law.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/team/serial.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

using plain = sampler::pipeline<sampler::temperature>;
using draws = child_draw<random_source<>, false>;

constexpr std::int32_t vocab = 3 * 4096 + 100;

std::vector<float> heavy_row() {
  dice random{7};
  std::vector<float> row(vocab);
  for (float& x : row) { x = static_cast<float>(random.below(100)) / 100.0f; }
  row[5] = 10.0f;         // half of the mass, in the first tile
  row[9000] = 10.0625f;   // and the other half, in the third
  row[4096 + 17] = 7.5f;  // some of the rest
  return row;
}

shortlist everything(const vocab_layout& layout, const row_range& all) {
  return layout.list(&all, 1);
}

TEST_CASE("a draw without a token is that of a law that never had it") {
  const std::vector<float> row = heavy_row();
  // The largest logit stays, so that the weights of both laws are the same numbers.
  std::vector<float> less = row;
  less[5] = -std::numeric_limits<float>::infinity();
  const draws draw{};
  std::int32_t tiles_seen[4] = {};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const address where{seed, 3, 0, 1, purpose::draft};
    team::serial team;
    std::vector<float> logits = row;
    const law<float> q =
        plain{}(team, row_view<float>{logits.data(), vocab}, sampling_parameters{}, row_history{});
    kernel::token_set drawn(team);
    drawn.add(team, 5);
    const std::int32_t found = draw(team, where, q, drawn);

    team::serial other;
    const law<float> rest =
        plain{}(other, row_view<float>{less.data(), vocab}, sampling_parameters{}, row_history{});
    const std::int32_t expected = draw(other, where, rest, kernel::token_set(other));
    REQUIRE(found == expected);
    ++tiles_seen[found / 4096];
  }
  // 0.65 of what is left of the law; of the whole law it would be 0.44.
  CHECK(tiles_seen[2] > 1100);
  CHECK(tiles_seen[2] < 1500);
}

TEST_CASE("siblings are drawn in turn until nothing is left") {
  const vocab_layout layout = vocab_layout::identity(vocab);
  const row_range all{0, vocab};
  std::vector<float> row(vocab, -std::numeric_limits<float>::infinity());
  for (const std::int32_t at : {4, 5000, 9000}) { row[static_cast<std::size_t>(at)] = 1.0f; }
  law<float> q;
  std::int32_t at[5];
  token tokens[5];
  kernel::draft_row<float> task;
  task.logits = {row.data(), vocab};
  task.list = everything(layout, all);
  task.drawn_from = &q;
  task.drawn_at = at;
  task.drawn = tokens;
  task.count = 5;
  std::int32_t first[3] = {};
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    task.where = {seed, 1, 0, 0, purpose::draft};
    team::serial team;
    kernel::draw_children<float, plain, draws, 5>{&task, plain{}, draws{}}(team, 0);
    std::vector<token> some(tokens, tokens + 3);
    ++first[tokens[0] / 4096];
    std::ranges::sort(some);
    REQUIRE(some == std::vector<token>{4, 5000, 9000});
    REQUIRE(tokens[3] == no_token);
    REQUIRE(tokens[4] == no_token);
  }
  for (const std::int32_t n : first) { CHECK(n > 140); }
}

}  // namespace
}  // namespace hunch::test
