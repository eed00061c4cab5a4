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

/// Of so many rows one is computed. Sanitizers make the products of a head slow, and look at every
/// access of any row.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int32_t every = 8;
#else
constexpr std::int32_t every = 1;
#endif

double log_sum_exp(hunch::row_view<float> row) {
  const float top = *std::max_element(row.data, row.data + row.size);
  double total = 0;
  for (int i = 0; i < row.size; ++i) { total += static_cast<double>(std::exp(row[i] - top)); }
  return static_cast<double>(top) + std::log(total);
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
    for (std::int32_t i = 0; i < rows.size; i += every) { use(i, result.logits(i)); }
  }

 private:
  engine::model model_;
};

/// Heads, or streams, of the shipped drafters.
constexpr std::int32_t drafted = 4;

/// Rows over the whole vocabulary, some of which are computed together: a head's weights are read
/// once for them.
class several_rows {
 public:
  static constexpr std::int32_t positions = 8;  ///< at a time

  /// \param each rows of a position.
  several_rows(std::int32_t each, std::int32_t vocab)
      : each_(each),
        range_{0, vocab},
        lists_(size(), {&range_, 1, vocab, nullptr, nullptr, vocab}),
        index_(size()),
        values_(size() * static_cast<std::size_t>(vocab)) {
    for (std::size_t r = 0; r < size(); ++r) {
      views_.push_back({values_.data() + r * static_cast<std::size_t>(vocab), vocab});
    }
  }
  several_rows(const several_rows&) = delete;
  several_rows& operator=(const several_rows&) = delete;

  /// Calls use(i, row) for the rows of positions 0, `every`, ... below `count` in turn, which
  /// head(rows) has computed from row i of what a model knows.
  template <class Head, class Use>
  void for_each(std::int32_t count, const Head& head, Use&& use) {
    for_groups(
        count, [](std::int32_t, std::int32_t i) { return i; },
        [&](std::int32_t, const auto& rows) { head(rows); }, use);
  }
  /// The same of heads that look ahead: their states are made for positions [first, first + n *
  /// `every`) by head(first, rows), rows.size = n * each.
  template <class Head, class Use>
  void for_each_ahead(std::int32_t count, const Head& head, Use&& use) {
    for_groups(
        count, [](std::int32_t r, std::int32_t) { return r; }, head, use);
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(positions * each_); }

  template <class Index, class Head, class Use>
  void for_groups(std::int32_t count, const Index& index, const Head& head, Use& use) {
    for (std::int32_t first = 0; first < count; first += positions * every) {
      std::int32_t rows = 0;
      for (std::int32_t i = first; i < count && rows < positions * each_; i += every) {
        for (std::int32_t j = 0; j < each_; ++j, ++rows) {
          index_[static_cast<std::size_t>(rows)] = index(rows, i);
        }
      }
      head(first, hunch::head_rows<float>{rows, index_.data(), lists_.data(), views_.data()});
      for (std::int32_t r = 0; r < rows; ++r) {
        use(first + r / each_ * every, views_[static_cast<std::size_t>(r)]);
      }
    }
  }

  std::int32_t each_;
  hunch::row_range range_;
  std::vector<hunch::shortlist> lists_;
  std::vector<std::int32_t> index_;
  std::vector<float> values_;
  std::vector<hunch::row_view<float>> views_;
};

/// Those of the EAGLE head after the target's features.
class eagle_logits {
 public:
  explicit eagle_logits(engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", options(kind))),
        eagle_(engine::eagle_model::load(folder() / "eagle", folder() / "target", target_,
                                         options(kind))),
        out_(1, target_.vocab_size()) {}

  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    target_.forward(rows);
    const std::vector<std::int32_t> sequence(static_cast<std::size_t>(rows.size), 0);
    const hunch::kept_rows all{rows.size, sequence.data(), rows.id, 0, nullptr};
    target_.commit(all);
    const auto hidden = eagle_.forward(rows);
    out_.for_each(
        rows.size, [&](const auto& of) { eagle_.head(hidden, of); }, use);
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
  several_rows out_;
};

/// Those of the Medusa heads on the target's hidden states, in the order of the heads.
class medusa_logits {
 public:
  explicit medusa_logits(engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", {.kind = kind})),
        medusa_(engine::medusa_heads::load(folder() / "medusa", target_)),
        out_(drafted, target_.vocab_size()) {}

  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    const auto known = target_.forward(rows);
    out_.for_each_ahead(
        rows.size,
        [&](std::int32_t first, const hunch::head_rows<float>& of) {
          const float* hidden[several_rows::positions];
          const hunch::token roots[several_rows::positions] = {};  // heads do not read them
          const std::int32_t count = of.size / drafted;
          for (std::int32_t k = 0; k < count; ++k) {
            hidden[k] = known.hidden(first + k * every).data;
          }
          medusa_.head(medusa_.forward({count, hidden, roots}), of);
        },
        use);
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }

  engine::model target_;
  engine::medusa_heads medusa_;
  several_rows out_;
};

/// Those of the exit after the target's first layers.
class exit_logits {
 public:
  explicit exit_logits(engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", {.kind = kind})),
        exit_(engine::early_exit::load(folder() / "exit", target_)),
        out_(1, target_.vocab_size()) {}

  template <class Use>
  void operator()(const hunch::rows& rows, Use&& use) {
    const auto states = exit_.forward(rows);
    out_.for_each(
        rows.size, [&](const auto& of) { exit_.head(states, of); }, use);
    const std::int32_t slot = 0;
    target_.commit({0, nullptr, nullptr, 1, &slot});
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }

  engine::model target_;
  engine::early_exit exit_;
  several_rows out_;
};

/// Those of the speculative streams beside the target's rows, in the order of the streams.
class stream_logits {
 public:
  explicit stream_logits(engine::arithmetic kind)
      : target_(engine::model::load(folder() / "target", {.kind = kind})),
        streams_(engine::speculative_streams::load(folder() / "streams", target_)),
        out_(drafted, target_.vocab_size()) {}

  template <class Use>
  void operator()(hunch::rows rows, Use&& use) {
    rows.streams = drafted;
    const auto result = target_.evaluate(rows);
    std::vector<float> beside[several_rows::positions];
    out_.for_each_ahead(
        rows.size,
        [&](std::int32_t first, const hunch::head_rows<float>& of) {
          const float* states[several_rows::positions];
          hunch::token roots[several_rows::positions];
          const std::int32_t count = of.size / drafted;
          for (std::int32_t k = 0; k < count; ++k) {
            const std::int32_t i = first + k * every;
            beside[k].clear();
            for (std::int32_t j = 0; j < drafted; ++j) {
              const auto state = result.stream(i, j);
              beside[k].insert(beside[k].end(), state.data, state.data + state.size);
            }
            states[k] = beside[k].data();
            // The root is the next token of the window; after the last one comes the first.
            roots[k] = rows.tokens[(i + 1) % rows.size];
          }
          streams_.head(streams_.forward({count, states, roots, drafted}), of);
        },
        use);
  }

 private:
  static std::filesystem::path folder() { return HUNCH_TEST_MODELS; }

  engine::model target_;
  engine::speculative_streams streams_;
  several_rows out_;
};

/// What the golden file says of a model's rows, under the names that its tensors begin with.
class expected_rows {
 public:
  expected_rows(const golden_file& golden, const std::string& name)
      : sampled_(golden.values<std::int32_t>("sampled_ids")),
        best_(golden.values<std::int32_t>(name + ".argmax")),
        best_logit_(golden.values<float>(name + ".argmax_logit")),
        normaliser_(golden.values<float>(name + ".logsumexp")),
        logits_(golden.values<float>(name + ".logits")) {}

  void compare(std::size_t at, hunch::row_view<float> row) {
    for (std::size_t j = 0; j < sampled_.size(); ++j) {
      note(static_cast<double>(row[sampled_[j]]), logits_[at * sampled_.size() + j]);
    }
    note(static_cast<double>(row[best_[at]]), best_logit_[at]);
    note(log_sum_exp(row), normaliser_[at]);
    const auto top = std::max_element(row.data, row.data + row.size) - row.data;
    same_best_ += top == best_[at] ? 1 : 0;
    ++rows_;
  }
  void check(double tolerance, double agreement) const {
    CHECK(rows_ * every == best_.size());
    CHECK(worst_ <= tolerance);
    CHECK(static_cast<double>(same_best_) >= agreement * static_cast<double>(rows_));
  }

 private:
  void note(double got, float expected) {
    const double difference = std::fabs(got - static_cast<double>(expected));
    worst_ = std::isnan(difference) ? 1e9 : std::max(worst_, difference);
  }

  std::vector<std::int32_t> sampled_, best_;
  std::vector<float> best_logit_, normaliser_, logits_;
  double worst_ = 0;
  std::size_t same_best_ = 0;
  std::size_t rows_ = 0;
};

/// \param names of what `logits_of` gives for each row, in this order.
template <class Logits>
void compare(const golden_file& golden, const std::vector<std::string>& names, Logits logits_of,
             double tolerance, double agreement) {
  const auto shape = golden.shape("ids");
  const std::size_t windows = shape.at(0);
  const std::size_t positions = shape.at(1);
  const auto ids = golden.values<std::int32_t>("ids");
  std::vector<expected_rows> expected;
  for (const std::string& name : names) { expected.emplace_back(golden, name); }
  std::size_t given = 0;
  for (std::size_t w = 0; w < windows; ++w) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(w * positions);
    engine::row_batch rows;
    rows.add_chain(0, 0, {begin, begin + static_cast<std::ptrdiff_t>(positions)});
    logits_of(rows.view(), [&](std::int32_t i, hunch::row_view<float> row) {
      const std::size_t at = w * positions + static_cast<std::size_t>(i);
      expected[given++ % expected.size()].compare(at, row);
    });
  }
  for (std::size_t k = 0; k < names.size(); ++k) {
    CAPTURE(names[k]);
    expected[k].check(tolerance, agreement);
  }
}

/// The names of what several heads give.
std::vector<std::string> numbered(const std::string& name) {
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < drafted; ++i) { names.push_back(name + "." + std::to_string(i)); }
  return names;
}

}  // namespace

TEST_CASE("the shipped models compute what transformers computes") {
  const auto file = std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors";
  REQUIRE_MESSAGE(std::filesystem::exists(file),
                  file.string() << " is missing; examples/models/README.md says how it is made");
  const golden_file golden(file);
  for (const std::string name : {"target", "draft"}) {
    CAPTURE(name);
    compare(golden, {name}, model_logits(name, engine::arithmetic::f32), 1e-3, 1.0);
    compare(golden, {name}, model_logits(name, engine::preferred_bf16()), 0.3, 0.97);
  }
}

TEST_CASE("the shipped EAGLE head computes what it was trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  compare(golden, {"eagle"}, eagle_logits(engine::arithmetic::f32), 1e-3, 1.0);
  compare(golden, {"eagle"}, eagle_logits(engine::preferred_bf16()), 0.4, 0.95);
}

TEST_CASE("the shipped Medusa heads compute what they were trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  const auto names = numbered("medusa");
  compare(golden, names, medusa_logits(engine::arithmetic::f32), 1e-3, 1.0);
  compare(golden, names, medusa_logits(engine::preferred_bf16()), 0.4, 0.95);
}

TEST_CASE("the shipped exit computes what it was trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  compare(golden, {"exit"}, exit_logits(engine::arithmetic::f32), 1e-3, 1.0);
  compare(golden, {"exit"}, exit_logits(engine::preferred_bf16()), 0.4, 0.95);
}

TEST_CASE("the shipped streams compute what they were trained as") {
  const golden_file golden(std::filesystem::path(HUNCH_TEST_MODELS) / "golden.safetensors");
  const auto names = numbered("streams");
  compare(golden, names, stream_logits(engine::arithmetic::f32), 1e-3, 1.0);
  compare(golden, names, stream_logits(engine::preferred_bf16()), 0.4, 0.95);
}
