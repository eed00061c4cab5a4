// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/model.hpp>
#include <engine/row_batch.hpp>
#include <engine/thread_pool.hpp>
#include <engine/weights.hpp>

#include "common.hpp"
#include "launches.hpp"
#include "read_once.hpp"
#include "speculation.hpp"

/// \file
/// How near a decode step comes to the speed at which memory can be read, and what a step of n rows
/// costs against one of one row: the r(n) that speculation lives on. And what a copy of the weights
/// in four bits saves.

namespace {

/// Reads as many bytes as a model has, as fast as this machine can: every thread its own part.
class memory_stream {
 public:
  memory_stream(std::size_t bytes, int threads)
      : pool_{threads}, buffer_{bytes / sizeof(float)}, sinks_(64) {
    std::iota(buffer_.data(), buffer_.data() + buffer_.size(), 0.0f);
  }

  void read() {
    auto body = [this](int thread) {
      const auto boundary = [this](int t) {
        constexpr std::size_t step = 128;  // what the loop reads at a time
        return buffer_.size() / step * static_cast<std::size_t>(t) /
               static_cast<std::size_t>(pool_.size()) * step;
      };
      const std::size_t begin = boundary(thread);
      sinks_[static_cast<std::size_t>(thread)] =
          bench::read_once(buffer_.data() + begin, boundary(thread + 1) - begin);
    };
    pool_.run(body);
  }

 private:
  engine::thread_pool pool_;
  engine::aligned_buffer<float> buffer_;
  std::vector<float> sinks_;
};

/// Random bf16 weights of about unit gain. Exact values do not matter to the clock.
engine::checkpoint random_weights(const engine::config& c) {
  engine::checkpoint out;
  std::uint32_t state = 1;
  for (const engine::tensor_shape& t : engine::tensors_of(c)) {
    std::vector<std::byte> bytes(t.size() * sizeof(std::uint16_t));
    const float scale = t.is_vector() ? 0.0f : 3.0f / std::sqrt(static_cast<float>(t.shape[1]));
    const float centre = t.is_vector() ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint16_t)) {
      state = state * 1664525u + 1013904223u;
      const float value = centre + scale * (static_cast<float>(state >> 8) * 0x1p-24f - 0.5f);
      const std::uint16_t bits = engine::to_bf16(value);
      std::memcpy(bytes.data() + i, &bits, sizeof bits);
    }
    out.add(t.name, engine::dtype::bf16, t.shape, std::move(bytes));
  }
  return out;
}

/// 512 MiB of bf16 weights in the proportions of a Llama of a billion parameters.
engine::config large_shape() {
  engine::config c;
  c.vocab_size = 16000;
  c.hidden = 2048;
  c.intermediate = 5632;
  c.layers = 5;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 64;
  c.context = 1024;
  c.tied_head = true;
  return c;
}

/// A chain of `n` rows after `cached` positions, every row wanted.
engine::row_batch chain(int n, int cached) {
  engine::row_batch out;
  for (int i = 0; i < n; ++i) { out.add(0, i, i - 1, cached + i, (i * 37 + 11) % 1000); }
  return out;
}

struct promise {
  double one_row;   ///< share of the memory stream
  double six_rows;  ///< r(6)
};

constexpr int cached = 128;

void measure(bench::report& out, const std::string& name, engine::model& m, int threads,
             const promise& promised, int rounds, bench::memory state) {
  static_assert(cached % 64 == 0);
  if (m.length(0) == 0) {
    std::vector<hunch::token> text(cached);
    std::iota(text.begin(), text.end(), 1);
    engine::read(m, 0, text, cached);
  }
  const std::string of =
      name + ", " + std::to_string(threads) + " thread" + (threads == 1 ? "" : "s") + ": ";
  const double bytes = static_cast<double>(m.weight_bytes());
  memory_stream stream(m.weight_bytes(), threads);

  std::vector<int> sizes;
  for (int n = 1; n <= 64; n += n < 8 ? 1 : n < 16 ? 2 : n < 32 ? 4 : 16) { sizes.push_back(n); }
  std::vector<engine::row_batch> chains;
  std::vector<std::function<void()>> candidates{[&] { stream.read(); }};
  for (const int n : sizes) {
    chains.push_back(chain(n, cached));
    // Moving the owner of the arrays leaves them in place.
    candidates.push_back([&m, rows = chains.back().view()] { m.evaluate(rows); });
  }
  const bench::timings t = bench::interleave(rounds, state, candidates);

  out.add(of + "weights", bytes / (1 << 20), "MiB");
  out.add(of + "memory stream", bytes / bench::median(t[0]) / 1e9, "GB/s");
  out.add(of + "step of one row", bench::median(t[1]) * 1e3, "ms");
  out.add(of + "one row against the stream", bench::median_ratio(t[0], t[1]), "",
          bench::at_least(promised.one_row));
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const double cost = bench::median_ratio(t[i + 1], t[1]);
    const std::string row = of + "r(" + std::to_string(sizes[i]) + ")";
    if (sizes[i] == 6) {
      out.add(row, cost, "", bench::at_most(promised.six_rows));
    } else {
      out.add(row, cost, "");
    }
  }
  out.add(of + "multiply-adds at 64 rows", bytes / 2 * 64 / bench::median(t.back()) / 1e9, "G/s");
}

/// A decode step of an int4 copy against one of the model in bf16.
void measure_int4(bench::report& out, const std::filesystem::path& source, int threads) {
  engine::model m = engine::model::load(source, {.threads = threads});
  engine::model copy =
      engine::model::load(source, {.kind = engine::arithmetic::int4, .threads = threads});
  std::vector<hunch::token> text(cached);
  std::iota(text.begin(), text.end(), 1);
  for (engine::model* reader : {&m, &copy}) { engine::read(*reader, 0, text, cached); }
  const std::string of = "int4 copy of the shipped target, " + std::to_string(threads) + " thread" +
                         (threads == 1 ? "" : "s") + ": ";
  out.add(of + "weights", static_cast<double>(copy.weight_bytes()) / (1 << 20), "MiB");
  for (const int n : {1, 6}) {
    const engine::row_batch rows = chain(n, cached);
    const bench::timings t =
        bench::interleave(41, bench::memory::warm,
                          {[&] { m.evaluate(rows.view()); }, [&] { copy.evaluate(rows.view()); }});
    out.add(of + "step of " + std::to_string(n) + (n == 1 ? " row" : " rows") + " against bf16",
            bench::median_ratio(t[1], t[0]), "", bench::at_most(1.0));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run(
      "engine", argc, argv,
      [](bench::report& out, const bench::choice& of) {
        const std::filesystem::path shipped = bench::target_of(of);
        if (bench::part_of_speculation() == nullptr) { bench::measure_launches(out); }
        for (const int threads : {1, 2}) {
          if (bench::part_of_speculation() != nullptr) { break; }
          const engine::model_options options{.threads = threads};
          {
            engine::model m = engine::model::load(shipped, options);
            measure(out, "shipped target", m, threads, {0.55, 1.8}, 41, bench::memory::warm);
          }
          measure_int4(out, shipped, threads);
          {
            engine::model m(large_shape(), random_weights(large_shape()), options);
            measure(out, "512 MiB model", m, threads, {0.75, 1.3}, 9, bench::memory::as_left);
          }
        }
        bench::measure_speculation(out, of);
      },
      HUNCH_BENCH_MODELS, true);
}
