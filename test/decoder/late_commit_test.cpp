// SPDX-License-Identifier: Apache-2.0

// Models may read what is kept as late as an executor runs what it was given: nobody writes it
// again before.

#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/toy_model.hpp"

namespace hunch::test::late_commit_test {
namespace {

constexpr std::int32_t vocab = 31;

/// A target that commits at once, or when the executor gets there: at the latest possible moment.
struct late_target {
  bool late = true;
  toy_target<float> model{{vocab, 5, flavour::smooth}};
  std::optional<kept_rows> given;
  std::int64_t commits = 0;

  std::int32_t vocab_size() const { return vocab; }
  auto evaluate(const rows& r) {
    flush();
    return model.evaluate(r);
  }
  void commit(const kept_rows& kept) noexcept {
    flush();
    given = kept;
    if (!late) { flush(); }
  }
  void flush() noexcept {
    if (!given.has_value()) { return; }
    model.commit(*given);
    given.reset();
    ++commits;
  }
};

struct late_host : executor::host {
  late_target* target = nullptr;
  void synchronize() {
    if (target != nullptr) { target->flush(); }
  }
};

/// All that three requests emit, of which one is cancelled after `steps`, and another takes its
/// place; what still runs is dropped.
std::vector<std::vector<token>> texts(late_target& target, int steps) {
  std::vector<std::vector<token>> out(4);
  {
    decoder d{target,
              drafter::autoregressive{
                  toy_draft<float>{{vocab, 6, flavour::smooth}, vocab_layout::identity(vocab)},
                  tree::sampled<2, 1>{}},
              selector::full{vocab},
              sampler::pipeline<sampler::temperature>{},
              verifier::rejection{},
              decoder_options{.max_batch = 3, .token_text = {}},
              random_source<>{},
              late_host{{}, &target}};
    const auto add = [&](std::uint64_t seed) {
      generation_options options;
      options.max_new_tokens = 20;
      options.seed = seed;
      return d.add(std::vector<token>{1, 2, static_cast<token>(seed)}, options);
    };
    const auto collect = [&] {
      for (const emission& e : d.step()) {
        auto& text = out[static_cast<std::size_t>(e.id - 1)];
        text.insert(text.end(), e.tokens.begin(), e.tokens.end());
      }
    };
    add(1);
    const request_id second = add(2);
    add(3);
    for (int i = 0; i < steps; ++i) { collect(); }
    d.cancel(second);
    add(4);
    for (int i = 0; i < 4; ++i) { collect(); }
  }
  CHECK_FALSE(target.given.has_value());  // its memory is gone
  return out;
}

TEST_CASE("what is kept may be read late") {
  for (int steps = 1; steps < 5; ++steps) {
    late_target at_once{.late = false, .given = {}};
    late_target target{.given = {}};
    CHECK(texts(target, steps) == texts(at_once, steps));
    CHECK(target.commits == at_once.commits);
    // What a commit found wrong is thrown by the next pass.
    CHECK_NOTHROW(target.evaluate(rows{}));
  }
}

}  // namespace
}  // namespace hunch::test::late_commit_test
