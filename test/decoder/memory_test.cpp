// SPDX-License-Identifier: Apache-2.0

// Where what bodies read lies: in buffers of the executor, all of it. A device reaches nothing
// else.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/fenced_host.hpp"
#include "../support/stages.hpp"
#include "../support/toy_model.hpp"

namespace hunch::test::memory_test {
namespace {

constexpr std::int32_t vocab = 61;

/// What was seen of the memory that rows come with.
struct seen {
  std::int64_t target_rows = 0;
  std::int64_t draft_rows = 0;
  std::int64_t beyond = 0;  ///< arrays that bodies would not reach

  template <class T>
  void look(const T* of, std::int64_t n) {
    beyond += n > 0 && !fenced_host::reaches(of, static_cast<std::size_t>(n)) ? 1 : 0;
  }
};

/// Looks where all lies that a sampler is given.
struct looking : every_stage {
  seen* what = nullptr;

  template <Team T, class Real>
  law<Real> operator()(T& team, row_view<Real> row, const sampling_parameters& p,
                       const row_history& h) const {
    (h.list == nullptr ? what->target_rows : what->draft_rows) += 1;
    what->look(p.bias, p.bias_count);
    what->look(h.committed, h.length);
    what->look(h.counts.tokens, h.counts.size);
    what->look(h.counts.emitted, h.counts.size);
    what->look(h.counts.index, vocab);
    what->look(h.tree_tokens, h.node + 1);
    what->look(h.tree_parent, h.node + 1);
    what->look(h.allowed, allowed_words(vocab));
    if (h.list != nullptr) {
      what->look(h.list, 1);
      what->look(h.list->ranges, h.list->range_count);
      what->look(row.data, row.size);
    }
    return every_stage::operator()(team, row, p, h);
  }
};

/// What a decoder shows of its memory while its batch changes.
template <class D, class V>
seen seen_by(D&& drafter, V verifier) {
  toy_target<float> target{{vocab, 5, flavour::smooth}};
  seen what;
  looking sampler;
  sampler.what = &what;
  decoder d{target,
            std::forward<D>(drafter),
            selector::full{vocab},
            sampler,
            verifier,
            decoder_options{.max_batch = 3, .chunk = 4, .token_text = {}},
            random_source<>{},
            fenced_host{}};
  for (std::uint64_t seed = 1; seed <= 9; ++seed) {
    while (d.running() == 3) { d.step(); }
    generation_options options;
    options.max_new_tokens = static_cast<std::int32_t>(4 + 3 * (seed % 4));
    options.seed = seed;
    d.add(std::vector<token>(static_cast<std::size_t>(seed), static_cast<token>(seed)),
          with_every_stage(options, vocab));
    d.step();
  }
  while (d.running() > 0) { d.step(); }
  return what;
}

TEST_CASE("bodies are given memory of the executor") {
  const auto model = [](auto tree) {
    return drafter::autoregressive{
        toy_draft<float>{{vocab, 6, flavour::smooth}, vocab_layout::identity(vocab)}, tree};
  };
  const seen drawn = seen_by(model(tree::sampled<2, 2>{}), verifier::rejection{});
  CHECK(drawn.target_rows > 50);
  CHECK(drawn.draft_rows > 50);
  CHECK(drawn.beyond == 0);

  const seen ranked = seen_by(model(tree::dynamic<3, 3, 8>{}), verifier::point_mass{});
  CHECK(ranked.draft_rows > 50);
  CHECK(ranked.beyond == 0);

  const seen matched = seen_by(drafter::lookup<4>{}, verifier::point_mass{});
  CHECK(matched.target_rows > 50);
  CHECK(matched.beyond == 0);
}

TEST_CASE("a place is in a buffer or beyond") {
  fenced_host executor;
  const std::vector<token> of_the_host(4);
  CHECK_FALSE(fenced_host::reaches(of_the_host.data(), 4));
  const fenced_host::buffer<token> buffer(executor, 4);
  CHECK(fenced_host::reaches(buffer.data() + 1, 3));
  CHECK_FALSE(fenced_host::reaches(buffer.data() + 1, 4));
  {
    const fenced_host::buffer<token> gone(executor, 4);
    CHECK(fenced_host::reaches(gone.data(), 4));
  }
}

}  // namespace
}  // namespace hunch::test::memory_test
