// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/model.hpp>
#include <engine/simd.hpp>
#include <engine/thread_pool.hpp>

#include "common.hpp"
#include "speculation.hpp"

/// \file
/// How near a decode step comes to the speed at which memory can be read, and what a step of n rows
/// costs against one of one row: the r(n) that speculation lives on.

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
      constexpr std::size_t step = 8 * engine::lanes;
      constexpr std::size_t ahead = 1024;  // 4 KiB; a third faster from the last-level cache
      const auto threads = static_cast<std::size_t>(pool_.size());
      const auto t = static_cast<std::size_t>(thread);
      const std::size_t steps = buffer_.size() / step;
      const float* p = buffer_.data() + steps * t / threads * step;
      const float* const end = buffer_.data() + steps * (t + 1) / threads * step;
      engine::f32x16 sums[8];
      for (auto& s : sums) { s = engine::splat(0.0f); }
      for (; p < end; p += step) {
        for (int j = 0; j < 8; ++j) {
          engine::prefetch(p + j * engine::lanes + ahead);
          sums[j] = sums[j] + engine::load(p + j * engine::lanes);
        }
      }
      for (int j = 1; j < 8; ++j) { sums[0] = sums[0] + sums[j]; }
      sinks_[t] = engine::sum(sums[0]);
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
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * columns) * 2);
    const float scale = 3.0f / std::sqrt(static_cast<float>(columns));
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      state = state * 1664525u + 1013904223u;
      const float value = scale * (static_cast<float>(state >> 8) * 0x1p-24f - 0.5f);
      const std::uint16_t bits = engine::to_bf16(value);
      std::memcpy(bytes.data() + i, &bits, 2);
    }
    out.add(name, engine::dtype::bf16, {rows, columns}, std::move(bytes));
  };
  const auto add_ones = [&](const std::string& name) {
    const std::vector<float> ones(static_cast<std::size_t>(c.hidden), 1.0f);
    std::vector<std::byte> bytes(ones.size() * sizeof(float));
    std::memcpy(bytes.data(), ones.data(), bytes.size());
    out.add(name, engine::dtype::f32, {c.hidden}, std::move(bytes));
  };
  add("model.embed_tokens.weight", c.vocab_size, c.hidden);
  for (int l = 0; l < c.layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    add_ones(layer + "input_layernorm.weight");
    add_ones(layer + "post_attention_layernorm.weight");
    add(layer + "self_attn.q_proj.weight", c.heads * c.head_dim, c.hidden);
    add(layer + "self_attn.k_proj.weight", c.kv_heads * c.head_dim, c.hidden);
    add(layer + "self_attn.v_proj.weight", c.kv_heads * c.head_dim, c.hidden);
    add(layer + "self_attn.o_proj.weight", c.hidden, c.heads * c.head_dim);
    add(layer + "mlp.gate_proj.weight", c.intermediate, c.hidden);
    add(layer + "mlp.up_proj.weight", c.intermediate, c.hidden);
    add(layer + "mlp.down_proj.weight", c.hidden, c.intermediate);
  }
  add_ones("model.norm.weight");
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

/// The shape of the target in examples/models, for when the models have not been fetched.
engine::config shipped_shape() {
  engine::config c;
  c.vocab_size = 32000;
  c.hidden = 256;
  c.intermediate = 704;
  c.layers = 6;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_dim = 32;
  c.context = 1024;
  c.tied_head = true;
  return c;
}

/// A chain of `n` rows after `cached` positions, every row wanted.
class chain {
 public:
  chain(int n, int cached) {
    for (int i = 0; i < n; ++i) {
      id_.push_back(i);
      parent_.push_back(i - 1);
      position_.push_back(cached + i);
      token_.push_back((i * 37 + 11) % 1000);
    }
    sequence_.assign(id_.size(), 0);
    wanted_.assign(id_.size(), 1);
  }

  hunch::rows view() const {
    return {static_cast<std::int32_t>(id_.size()),
            sequence_.data(),
            id_.data(),
            parent_.data(),
            position_.data(),
            token_.data(),
            wanted_.data()};
  }

  /// Reads the chain into the cache.
  void read_into(engine::model& m) const {
    m.forward(view());
    hunch::kept_rows kept;
    kept.size = static_cast<std::int32_t>(id_.size());
    kept.sequence = sequence_.data();
    kept.id = id_.data();
    m.commit(kept);
  }

 private:
  std::vector<std::int32_t> sequence_, id_, parent_, position_;
  std::vector<hunch::token> token_;
  std::vector<std::uint8_t> wanted_;
};

struct promise {
  double one_row;   ///< share of the memory stream
  double six_rows;  ///< r(6)
};

constexpr int cached = 128;

void measure(bench::report& out, const std::string& name, engine::model& m, int threads,
             const promise& promised, int rounds, bench::memory state) {
  static_assert(cached % 64 == 0);
  if (m.length(0) == 0) { chain(cached, 0).read_into(m); }
  const std::string of =
      name + ", " + std::to_string(threads) + " thread" + (threads == 1 ? "" : "s") + ": ";
  const double bytes = static_cast<double>(m.weight_bytes());
  memory_stream stream(m.weight_bytes(), threads);

  std::vector<int> sizes;
  for (int n = 1; n <= 64; n += n < 8 ? 1 : n < 16 ? 2 : n < 32 ? 4 : 16) { sizes.push_back(n); }
  std::vector<std::unique_ptr<chain>> chains;
  std::vector<std::function<void()>> candidates{[&] { stream.read(); }};
  for (const int n : sizes) {
    chains.push_back(std::make_unique<chain>(n, cached));
    candidates.push_back([&m, rows = chains.back()->view()] { m.evaluate(rows); });
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

}  // namespace

int main(int argc, char** argv) {
  bench::report out(argc, argv);
  const std::filesystem::path shipped = std::filesystem::path(HUNCH_BENCH_MODELS) / "target";
  for (const int threads : {1, 2}) {
    const engine::model_options options{.threads = threads};
    {
      const bool there = std::filesystem::exists(shipped / "config.json");
      engine::model m =
          there ? engine::model::load(shipped, options)
                : engine::model(shipped_shape(), random_weights(shipped_shape()), options);
      measure(out, there ? "shipped target" : "shape of the target", m, threads, {0.55, 1.8}, 41,
              bench::memory::warm);
    }
    {
      engine::model m(large_shape(), random_weights(large_shape()), options);
      measure(out, "512 MiB model", m, threads, {0.75, 1.3}, 9, bench::memory::as_left);
    }
  }
  bench::measure_speculation(out, HUNCH_BENCH_MODELS);
  return out.finish();
}
