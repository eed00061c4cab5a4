// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <engine/device/model.hpp>
#include <engine/model.hpp>
#include <hunch/executor/host.hpp>

#include "golden_file.hpp"
#include "tiny_model.hpp"

/// Small models of every architecture that the engine reads, as `transformers` saves them, against
/// what it computes for them; the layout of tiny/targets/golden.safetensors is described in
/// examples/models/README.md.

namespace targets_golden_test {
namespace {

using engine::arithmetic;

const std::filesystem::path folder = std::filesystem::path(HUNCH_TEST_MODELS) / "tiny" / "targets";

/// How far from float32 the logits may be, root mean square, of their own. Weights of these models
/// are bfloat16, but for what fewer bits round.
double tolerance(arithmetic kind) {
  switch (kind) {
    case arithmetic::f32:
    case arithmetic::bf16_fma:
      return 1e-5;
    case arithmetic::bf16_dot:
      return 0.02;
    case arithmetic::int8:
      return 0.05;
    case arithmetic::int4:
      return 0.5;
  }
  return 0.0;
}

/// The logits that the golden file has of those of a row.
template <class Row>
std::vector<float> stored(const Row& row, std::size_t count) {
  std::vector<float> out;
  const auto step = static_cast<std::int32_t>(static_cast<std::size_t>(row.size) / count);
  for (std::int32_t t = 0; t < row.size; t += step) { out.push_back(row[t]); }
  return out;
}

/// What a golden file says of the rows of a text.
struct expected_text {
  std::vector<hunch::token> ids;
  std::vector<std::vector<float>> logits;

  explicit expected_text(const test::golden_file& golden, const std::string& name)
      : ids{golden.values<std::int32_t>("ids")} {
    const auto flat = golden.values<float>(name + ".logits");
    const std::size_t count = flat.size() / ids.size();
    for (auto at = flat.begin(); at != flat.end(); at += static_cast<std::ptrdiff_t>(count)) {
      logits.emplace_back(at, at + static_cast<std::ptrdiff_t>(count));
    }
  }

  /// The differences of a model's logits: their root mean square, of that of the logits, and the
  /// largest.
  struct differences {
    double relative = 0.0;
    double largest = 0.0;
  };
  template <class Model>
  differences of(Model& m) const {
    test::row_batch rows;
    rows.add_chain(0, 0, ids);
    const auto result = m.evaluate(rows.view());
    double squares = 0.0;
    double error = 0.0;
    double largest = 0.0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto got = stored(result.logits(static_cast<std::int32_t>(i)), logits[i].size());
      for (std::size_t t = 0; t < got.size(); ++t) {
        const double right = static_cast<double>(logits[i][t]);
        const double d = static_cast<double>(got[t]) - right;
        squares += right * right;
        error += d * d;
        largest = std::isnan(d) ? d : std::max(largest, std::fabs(d));
      }
    }
    return {std::sqrt(error / squares), largest};
  }
};

std::set<std::string> names() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) { out.insert(entry.path().filename().string()); }
  }
  return out;
}

}  // namespace

TEST_CASE("tiny targets of every architecture compute what transformers computes") {
  const test::golden_file golden(folder / "golden.safetensors");
  CHECK(names() ==
        std::set<std::string>{"llama2", "llama2_linear", "llama3", "mistral", "qwen2", "qwen3"});
  for (const std::string& name : names()) {
    const expected_text expected(golden, name);
    for (const arithmetic kind : test::arithmetics()) {
      CAPTURE(name);
      CAPTURE(static_cast<int>(kind));
      engine::model m = engine::model::load(folder / name, {.kind = kind});
      const auto differences = expected.of(m);
      CHECK(differences.relative < tolerance(kind));
      if (kind == arithmetic::f32) { CHECK(differences.largest < 1e-4); }
    }
    using device_model = engine::device_model<hunch::executor::host>;
    device_model on_device = device_model::load(folder / name, {});
    CHECK(expected.of(on_device).relative < 0.02);
  }
}

TEST_CASE("what makes a tiny target's architecture changes its logits") {
  const test::golden_file golden(folder / "golden.safetensors");
  const auto changed = [&](const char* name, auto change) {
    engine::config shape = engine::read_config(folder / name / "config.json");
    change(shape);
    engine::model m(shape, engine::checkpoint::open(folder / name), {.kind = arithmetic::f32});
    return expected_text(golden, name).of(m).relative;
  };
  using engine::config;
  CHECK(changed("qwen2", [](config& c) { c.qkv_bias = false; }) > 0.05);
  CHECK(changed("qwen3", [](config& c) { c.qk_norm = false; }) > 0.05);
  CHECK(changed("llama3", [](config& c) { c.rope.kind = {}; }) > 0.05);
  CHECK(changed("llama2_linear", [](config& c) { c.rope.kind = {}; }) > 0.05);
  CHECK(changed("qwen2", [](config& c) { c.rope.theta = 1e4; }) > 0.05);
  CHECK(changed("mistral", [](config& c) { c.norm_epsilon = 0.5f; }) > 0.05);
}

}  // namespace targets_golden_test
