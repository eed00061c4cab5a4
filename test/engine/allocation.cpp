// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <engine/device/model.hpp>
#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>

#include "counted_new.hpp"
#include "tiny_model.hpp"

/// Nothing is allocated in a steady step.

namespace {

/// Steps with draft trees, of which the first `warm_up` may allocate.
template <class Model>
void check_steps(Model& m, int warm_up) {
  const std::vector<std::int32_t> sequence{0, 0, 1};
  const std::vector<std::int32_t> id{0, 2, 0};
  const hunch::kept_rows kept{3, sequence.data(), id.data(), 0, nullptr};
  const hunch::row_range range{0, 100};
  const auto layout = hunch::vocab_layout::identity(m.vocab_size());
  const auto list = layout.list(&range, 1);
  std::vector<float> out(100);
  hunch::row_view<float> logits{out.data(), 100};
  const std::int32_t row = 0;

  for (int step = 0; step < 20; ++step) {
    const int at = m.length(0);
    test::row_batch rows;
    rows.add(0, 0, hunch::end_of_cache, at, 1)
        .add(0, 1, 0, at + 1, 2)
        .add(0, 2, 0, at + 1, 3)
        .add(0, 3, 1, at + 2, 4)
        .add(1, 0, hunch::end_of_cache, m.length(1), 5);
    const hunch::rows view = rows.view();
    const long before_pass = test::allocation_count();
    m.evaluate(view);
    m.head(m.forward(view), {1, &row, &list, &logits});
    const long before_commit = test::allocation_count();
    m.commit(kept);
    CHECK(test::allocation_count() == before_commit);
    if (step >= warm_up) { CHECK(before_commit == before_pass); }
  }
}

}  // namespace

TEST_CASE("a steady step allocates nothing, and commit never does") {
  const engine::config c = test::small_config();
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    engine::model m(c, test::random_checkpoint(c, engine::dtype::i8),
                    {.threads = threads, .max_batch = 2});
    check_steps(m, 1);
  }
}

TEST_CASE("draft heads and views allocate nothing in a steady step") {
  engine::config c = test::small_config();
  c.layers = 3;
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    engine::model m(c, test::random_checkpoint(c, engine::dtype::i8),
                    {.threads = threads, .max_batch = 2});
    const auto layout = hunch::vocab_layout::identity(m.vocab_size());
    m.set_head_layout(layout);
    const int d = c.hidden;
    engine::checkpoint own;
    const auto add = [&own](const char* name, std::vector<std::int64_t> shape) {
      std::size_t bytes = sizeof(float);
      for (const std::int64_t n : shape) { bytes *= static_cast<std::size_t>(n); }
      own.add(name, engine::dtype::f32, shape, std::vector<std::byte>(bytes));
    };
    add("exit.norm.weight", {d});
    add("exit.down.weight", {16, d});
    add("exit.up.weight", {d, 16});
    add("medusa.0.weight", {d, d});
    engine::early_exit view({2}, own, m);
    engine::medusa_heads heads({1, d, c.vocab_size}, own, m);

    const std::vector<float> hidden(static_cast<std::size_t>(d));
    const float* const state = hidden.data();
    const hunch::token root = 1;
    const hunch::row_range range{0, 100};
    const auto list = layout.list(&range, 1);
    std::vector<float> out(100);
    hunch::row_view<float> logits{out.data(), 100};
    const std::int32_t row = 0;
    const std::vector<std::int32_t> sequence{0, 0};
    const std::vector<std::int32_t> id{0, 1};
    for (int step = 0; step < 20; ++step) {
      const int at = m.length(0);
      test::row_batch drafted;
      drafted.add(0, 0, hunch::end_of_cache, at, 1).add(0, 1, 0, at + 1, 2);
      test::row_batch rows;
      rows.add(0, 0, hunch::end_of_cache, at, 1).add(0, 1, 0, at + 1, 2).add(0, 2, 1, at + 2, 3);
      const long before = test::allocation_count();
      view.head(view.forward(drafted.view()), {1, &row, &list, &logits});
      heads.head(heads.forward({1, &state, &root}), {1, &row, &list, &logits});
      m.evaluate(rows.view());
      const long before_commit = test::allocation_count();
      m.commit({2, sequence.data(), id.data(), 0, nullptr});
      CHECK(test::allocation_count() == before_commit);
      if (step >= 1) { CHECK(before_commit == before); }
    }
  }
}

TEST_CASE("device model: no step allocates") {
  const engine::config c = test::small_config();
  engine::device_model<hunch::executor::host> m(c, test::random_checkpoint(c, engine::dtype::i8),
                                                {.max_batch = 2, .max_rows = 8, .max_staged = 8});
  check_steps(m, 0);
}
