// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/row_batch.hpp>
#include <engine/streams.hpp>

#include "golden_file.hpp"

/// The shipped models against what the `transformers` library computes for them; the layout of
/// golden.safetensors is described in examples/models/README.md.

namespace {

using test::golden_file;

double log_sum_exp(hunch::row_view<float> row) {
  const double top = static_cast<double>(*std::max_element(row.data, row.data + row.size));
  double total = 0;
  for (int i = 0; i < row.size; ++i) { total += std::exp(static_cast<double>(row[i]) - top); }
  return top + std::log(total);
}

/// The logits of all rows of windows that are read one after the other.
class model_logits {
 public:
  model_logits(const std::string& name, engine::arithmetic kind)
      : model_(
            engine::model::load(std::filesystem::path(HUNCH_TEST_MODELS) / name, {.kind = kind})) {}

  /// Calls use(i, logits of row i).
  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    const auto result = model_.evaluate(rows);
    for (std::int32_t i = 0; i < rows.size; ++i) { use(i, result.logits(i)); }
  }

 private:
  engine::model model_;
};

/// Those of the EAGLE head behind the target's features.
class eagle_logits {
 public:
  explicit eagle_logits(engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", options(kind))),
        eagle_(engine::eagle_model::load(folder() / "eagle", folder() / "target", target_,
                                         options(kind))),
        row_(static_cast<std::size_t>(target_.vocab_size())) {}

  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    target_.forward(rows);
    const std::vector<std::int32_t> sequence(static_cast<std::size_t>(rows.size), 0);
    const hunch::kept_rows all{rows.size, sequence.data(), rows.id, 0, nullptr};
    target_.commit(all);
    const auto hidden = eagle_.forward(rows);
    const std::int32_t vocab = target_.vocab_size();
    const hunch::row_range range{0, vocab};
    const hunch::shortlist list{&range, 1, vocab, nullptr, nullptr, vocab};
    const hunch::row_view<float> out{row_.data(), vocab};
    for (std::int32_t i = 0; i < rows.size; ++i) {
      eagle_.head(hidden, {1, &i, &list, &out});
      use(i, out);
    }
    const std::int32_t slot = 0;
    const hunch::kept_rows none{0, nullptr, nullptr, 1, &slot};
    target_.commit(none);
    eagle_.commit(none);
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }
  static engine::model_options options(engine::arithmetic kind) {
    return {.kind = kind, .keep_features = true};
  }

  engine::model target_;
  engine::eagle_model eagle_;
  std::vector<float> row_;
};

/// Those of one of the Medusa heads on the target's hidden states.
class medusa_logits {
 public:
  medusa_logits(int head, engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", {.kind = kind})),
        medusa_(engine::medusa_heads::load(folder() / "medusa", target_)),
        head_(head),
        row_(static_cast<std::size_t>(target_.vocab_size())) {}

  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    const auto known = target_.forward(rows);
    const std::int32_t vocab = target_.vocab_size();
    const hunch::row_range range{0, vocab};
    const hunch::shortlist list{&range, 1, vocab, nullptr, nullptr, vocab};
    const hunch::row_view<float> out{row_.data(), vocab};
    for (std::int32_t i = 0; i < rows.size; ++i) {
      const float* const hidden = known.hidden(i).data;
      const hunch::token root = 0;  // heads do not read it
      const auto states = medusa_.forward({1, &hidden, &root});
      medusa_.head(states, {1, &head_, &list, &out});
      use(i, out);
    }
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }

  engine::model target_;
  engine::medusa_heads medusa_;
  std::int32_t head_;
  std::vector<float> row_;
};

/// Those of the exit behind the target's first layers.
class exit_logits {
 public:
  explicit exit_logits(engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", {.kind = kind})),
        exit_(engine::early_exit::load(folder() / "exit", target_)),
        row_(static_cast<std::size_t>(target_.vocab_size())) {}

  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    const auto states = exit_.forward(rows);
    const std::int32_t vocab = target_.vocab_size();
    const hunch::row_range range{0, vocab};
    const hunch::shortlist list{&range, 1, vocab, nullptr, nullptr, vocab};
    const hunch::row_view<float> out{row_.data(), vocab};
    for (std::int32_t i = 0; i < rows.size; ++i) {
      exit_.head(states, {1, &i, &list, &out});
      use(i, out);
    }
    const std::int32_t slot = 0;
    target_.commit({0, nullptr, nullptr, 1, &slot});
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }

  engine::model target_;
  engine::early_exit exit_;
  std::vector<float> row_;
};

/// Those of one of the speculative streams beside the target's rows.
class stream_logits {
 public:
  stream_logits(int stream, engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", {.kind = kind})),
        streams_(engine::speculative_streams::load(folder() / "streams", target_)),
        stream_(stream),
        row_(static_cast<std::size_t>(target_.vocab_size())) {}

  template <class Use>
  void operator()(hunch::rows rows, Use&& use) {
    rows.streams = stream_ + 1;
    const auto result = target_.evaluate(rows);
    const std::int32_t vocab = target_.vocab_size();
    const hunch::row_range range{0, vocab};
    const hunch::shortlist list{&range, 1, vocab, nullptr, nullptr, vocab};
    const hunch::row_view<float> out{row_.data(), vocab};
    std::vector<float> beside;
    for (std::int32_t i = 0; i < rows.size; ++i) {
      beside.clear();
      for (std::int32_t j = 0; j <= stream_; ++j) {
        const auto state = result.stream(i, j);
        beside.insert(beside.end(), state.data, state.data + state.size);
      }
      const float* const states = beside.data();
      // The root is the next token of the window; behind the last one comes the first.
      const auto drafted =
          streams_.forward({1, &states, rows.tokens + (i + 1) % rows.size, stream_ + 1});
      streams_.head(drafted, {1, &stream_, &list, &out});
      use(i, out);
    }
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }

  engine::model target_;
  engine::speculative_streams streams_;
  std::int32_t stream_;
  std::vector<float> row_;
};

template <class Logits>
void compare(const golden_file& golden, const std::string& name, Logits logits_of, double tolerance,
             double agreement) {
  const auto shape = golden.shape("ids");
  const std::size_t windows = shape.at(0);
  const std::size_t positions = shape.at(1);
  const auto ids = golden.values<std::int32_t>("ids");
  const auto sampled = golden.values<std::int32_t>("sampled_ids");
  const auto best = golden.values<std::int32_t>(name + ".argmax");
  const auto best_logit = golden.values<float>(name + ".argmax_logit");
  const auto normaliser = golden.values<float>(name + ".logsumexp");
  const auto logits = golden.values<float>(name + ".logits");
  double worst = 0;
  std::size_t same_best = 0;
  for (std::size_t w = 0; w < windows; ++w) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(w * positions);
    engine::row_batch rows;
    rows.add_chain(0, 0, {begin, begin + static_cast<std::ptrdiff_t>(positions)});
    logits_of(rows.view(), [&](std::int32_t i, hunch::row_view<float> row) {
      const std::size_t at = w * positions + static_cast<std::size_t>(i);
      const auto note = [&](double got, float expected) {
        const double difference = std::fabs(got - static_cast<double>(expected));
        worst = std::isnan(difference) ? 1e9 : std::max(worst, difference);
      };
      for (std::size_t j = 0; j < sampled.size(); ++j) {
        note(static_cast<double>(row[sampled[j]]), logits[at * sampled.size() + j]);
      }
      note(static_cast<double>(row[best[at]]), best_logit[at]);
      note(log_sum_exp(row), normaliser[at]);
      const auto top = std::max_element(row.data, row.data + row.size) - row.data;
      same_best += top == best[at] ? 1 : 0;
    });
  }
  CHECK(worst <= tolerance);
  CHECK(static_cast<double>(same_best) >= agreement * static_cast<double>(windows * positions));
}

}  // namespace

TEST_CASE("the shipped models compute what transformers computes") {
  const auto file = std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors";
  REQUIRE_MESSAGE(std::filesystem::exists(file),
                  file.string() << " is missing; examples/models/README.md says how it is made");
  const golden_file golden(file);
  for (const std::string name : {"target", "draft"}) {
    CAPTURE(name);
    compare(golden, name, model_logits(name, engine::arithmetic::f32), 1e-3, 1.0);
    compare(golden, name, model_logits(name, engine::preferred_bf16()), 0.3, 0.97);
  }
}

TEST_CASE("the shipped EAGLE head computes what it was trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  compare(golden, "eagle", eagle_logits(engine::arithmetic::f32), 1e-3, 1.0);
  compare(golden, "eagle", eagle_logits(engine::preferred_bf16()), 0.4, 0.95);
}

TEST_CASE("the shipped Medusa heads compute what they were trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  for (int head = 0; head < 4; ++head) {
    CAPTURE(head);
    const std::string name = "medusa." + std::to_string(head);
    compare(golden, name, medusa_logits(head, engine::arithmetic::f32), 1e-3, 1.0);
    compare(golden, name, medusa_logits(head, engine::preferred_bf16()), 0.4, 0.95);
  }
}

TEST_CASE("the shipped exit computes what it was trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  compare(golden, "exit", exit_logits(engine::arithmetic::f32), 1e-3, 1.0);
  compare(golden, "exit", exit_logits(engine::preferred_bf16()), 0.4, 0.95);
}

TEST_CASE("the shipped streams compute what they were trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  for (int stream = 0; stream < 4; ++stream) {
    CAPTURE(stream);
    const std::string name = "streams." + std::to_string(stream);
    compare(golden, name, stream_logits(stream, engine::arithmetic::f32), 1e-3, 1.0);
    compare(golden, name, stream_logits(stream, engine::preferred_bf16()), 0.4, 0.95);
  }
}
