// SPDX-License-Identifier: Apache-2.0
#include "draft_step.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/multiply.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/pool_executor.hpp>
#include <engine/thread_pool.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/hunch.hpp>

#include "random_weights.hpp"
#include "read_once.hpp"

namespace bench {
namespace {

using namespace hunch;

constexpr std::int32_t vocab = 128256;
constexpr std::int32_t hidden = 4096;
constexpr std::int32_t kv_width = 1024;
constexpr std::int32_t inner = 14336;
constexpr std::int32_t frequent = 32768;
constexpr std::int32_t clusters = 1008;
constexpr std::int32_t chosen = 211;  ///< 26,847 rows in the mean
constexpr std::int32_t router_width = 1024;
constexpr std::int32_t context_width = 2 * hidden;
constexpr int rounds = 9;

volatile float sink;

std::size_t size_of(std::int32_t n) { return static_cast<std::size_t>(n); }
std::size_t bytes_of(std::int32_t rows, std::int32_t width) {
  return size_of(rows) * size_of(width) * sizeof(bfloat16);
}

/// A matrix of the example engine, by its threads.
class layer_matrix {
 public:
  layer_matrix(std::int32_t outputs, std::int32_t inputs)
      : drawn_(size_of(some) * size_of(inputs)), x_(size_of(inputs)) {
    bench::fill_at_random(drawn_.data(), drawn_.size());
    bench::fill_at_random(x_.data(), x_.size());
    const engine::matrix_view source{engine::dtype::bf16, some, inputs,
                                     reinterpret_cast<const std::byte*>(drawn_.data()), nullptr};
    std::vector<engine::weight_row> rows;
    for (std::int32_t o = 0; o < outputs; ++o) { rows.push_back({&source, o % some}); }
    stored_ = engine::stored_matrix(engine::preferred_bf16(), rows, inputs);
    const engine::arithmetic kind = stored_.packed.kind();
    activations_.grow(engine::activation_bytes(kind, inputs));
    if (engine::converts_activations(kind)) {
      engine::store_activations(kind, x_.data(), inputs, activations_.data());
    } else {
      std::memcpy(activations_.data(), x_.data(), x_.size() * sizeof(float));
    }
    y_.grow(size_of(outputs));
  }

  void apply(int thread, int threads) {
    const int blocks = stored_.packed.blocks();
    engine::multiply(stored_.packed, {activations_.data(), 0}, y_.data(), 0, 1,
                     engine::into::overwrite, blocks * thread / threads,
                     blocks * (thread + 1) / threads);
  }
  std::size_t bytes() const { return bytes_of(stored_.packed.outputs(), stored_.packed.inputs()); }

 private:
  static constexpr std::int32_t some = 64;  ///< rows that are drawn

  engine::aligned_buffer<bfloat16> drawn_;
  engine::aligned_buffer<float> x_;
  engine::stored_matrix stored_;
  engine::aligned_buffer<std::byte> activations_;
  engine::aligned_buffer<float> y_;
};

/// The products of an EAGLE layer, one after the other. Attention over a short cache, norms and
/// rotations read next to nothing and are left out.
class eagle_layer {
 public:
  std::size_t bytes() const {
    return std::accumulate(of_.begin(), of_.end(), std::size_t{0},
                           [](std::size_t sum, const layer_matrix& m) { return sum + m.bytes(); });
  }
  void run(engine::thread_pool& pool) {
    auto each = [&](int thread) {
      for (layer_matrix& m : of_) {
        m.apply(thread, pool.size());
        pool.barrier();
      }
    };
    pool.run(each);
  }

 private:
  /// Map of both inputs, queries with keys and values, attention's output, gate with up, down.
  std::array<layer_matrix, 5> of_{
      layer_matrix(hidden, 2 * hidden), layer_matrix(hidden + 2 * kv_width, hidden),
      layer_matrix(hidden, hidden), layer_matrix(2 * inner, hidden), layer_matrix(hidden, inner)};
};

/// A router of random weights, and what it chooses for contexts that take turns.
class routing {
 public:
  explicit routing(executor::host& executor)
      : first_(size_of(router_width) * size_of(context_width)),
        second_(size_of(clusters) * size_of(router_width)),
        bias_(size_of(clusters) + size_of(router_width)),
        contexts_(size_of(states) * size_of(context_width)),
        selector_(layout(), view(), budget::fixed{chosen}),
        choosing_(selector_, executor, 1),
        ranges_(size_of(selector_.max_ranges())) {
    bench::fill_at_random(first_.data(), first_.size());
    bench::fill_at_random(second_.data(), second_.size());
    bench::fill_at_random(contexts_.data(), contexts_.size());
  }

  shortlist choose() {
    const float* const context =
        contexts_.data() + used_++ % size_of(states) * size_of(context_width);
    row_range* const to = ranges_.data();
    std::int32_t count = 0;
    choosing_.select({.size = 1, .depth = 0, .tokens = nullptr, .states = &context},
                     {.ranges = &to, .counts = &count});
    return selector_.layout().list(ranges_.data(), count);
  }
  std::size_t bytes() const {
    return bytes_of(router_width, context_width) + bytes_of(clusters, router_width);
  }

 private:
  static constexpr std::int32_t states = 16;
  using selector_type = selector::clustered<router::mlp<bfloat16>, budget::fixed>;

  static vocab_layout layout() {
    std::vector<std::int32_t> of(size_of(vocab));
    for (std::int32_t t = 0; t < vocab; ++t) {
      of[size_of(t)] = static_cast<std::int32_t>(std::int64_t{t} * clusters / vocab);
    }
    return clustered_layout(of);
  }
  router::mlp<bfloat16> view() const {
    return {{first_.data(), router_width, context_width},
            bias_.data(),
            {second_.data(), clusters, router_width},
            bias_.data()};
  }

  engine::aligned_buffer<bfloat16> first_;
  engine::aligned_buffer<bfloat16> second_;
  std::vector<float> bias_;
  engine::aligned_buffer<float> contexts_;
  selector_type selector_;
  selecting<selector_type, executor::host> choosing_;
  std::vector<row_range> ranges_;
  std::size_t used_ = 0;
};

/// The step, and reading as much, by all processors.
class draft_steps {
 public:
  draft_steps()
      : pool_(static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
        executor_(pool_),
        routing_(host_),
        head_(size_of(vocab) * size_of(hidden)),
        product_(executor_, vocab, hidden),
        state_(size_of(hidden)),
        logits_(size_of(vocab)),
        sums_(static_cast<std::size_t>(pool_.size())) {
    bench::fill_at_random(head_.data(), head_.size());
    bench::fill_at_random(state_.data(), state_.size());
  }

  std::size_t bytes(double rows, bool routed) const {
    return layer_.bytes() + static_cast<std::size_t>(rows * hidden * sizeof(bfloat16)) +
           (routed ? routing_.bytes() : 0);
  }
  double chosen_rows() {
    double sum = 0.0;
    for (int i = 0; i < 16; ++i) { sum += routing_.choose().size; }
    return sum / 16;
  }

  /// With the first rows of the head.
  void first_rows(std::int32_t rows) {
    layer_.run(pool_);
    const row_range all{0, rows};
    multiply(plain_.list(&all, 1));
  }
  /// Its parts alone.
  void layer() { layer_.run(pool_); }
  void router() { routing_.choose(); }
  /// The paper's step: what the router reads is known before the layer.
  void routed() {
    const shortlist list = routing_.choose();
    layer_.run(pool_);
    multiply(list);
  }
  /// Reads so many bytes of the head, from its beginning and once more from there.
  void read(std::size_t bytes) {
    const std::size_t all = head_.size() * sizeof(bfloat16);
    while (bytes > 0) {
      const std::size_t part = std::min(bytes, all);
      auto each = [&](int thread) {
        const std::size_t floats = part / sizeof(float) / static_cast<std::size_t>(pool_.size());
        const auto* const from = reinterpret_cast<const float*>(head_.data());
        const auto of = static_cast<std::size_t>(thread);
        sums_[of] = read_once(from + of * floats, floats);
      };
      pool_.run(each);
      sink = std::accumulate(sums_.begin(), sums_.end(), 0.0f);  // of all, or some would not read
      bytes -= part;
    }
  }

 private:
  void multiply(const shortlist& list) {
    const std::int32_t row = 0;
    row_view<float> out{logits_.data(), list.size};
    const kernel::head_weights<bfloat16> head{head_.data(), vocab, hidden};
    product_(executor_, head, state_.data(), hidden,
             head_rows<float>{.size = 1, .row = &row, .lists = &list, .logits = &out});
  }

  engine::thread_pool pool_;
  engine::pool_executor executor_;
  executor::host host_;  ///< of selectors, as in a decoder
  eagle_layer layer_;
  routing routing_;
  engine::aligned_buffer<bfloat16> head_;
  shortlist_head<engine::pool_executor, bfloat16> product_;
  engine::aligned_buffer<float> state_;
  std::vector<float> logits_;
  std::vector<float> sums_;  ///< [threads] of what each has read
  vocab_layout plain_ = vocab_layout::identity(vocab);
};

}  // namespace

void measure_draft_step(report& out) {
  draft_steps step;
  const double rows = step.chosen_rows();
  const std::array<std::size_t, 3> bytes{step.bytes(vocab, false), step.bytes(frequent, false),
                                         step.bytes(rows, true)};
  const timings t = interleave(
      rounds, memory::as_left,
      {[&] { step.first_rows(vocab); }, [&] { step.read(bytes[0]); },
       [&] { step.first_rows(frequent); }, [&] { step.read(bytes[1]); }, [&] { step.routed(); },
       [&] { step.read(bytes[2]); }, [&] { step.layer(); }, [&] { step.router(); }});
  const std::string of = "draft step, EAGLE layer d = 4096 and head 128256 x 4096 bf16: ";
  const std::array<const char*, 3> names{"full head", "FR-Spec, 32768 rows", "DynaSpec"};
  out.add(of + "DynaSpec's rows", rows, "");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = of + names[i];
    const bool routed = i == 2;
    out.add(name, 1e3 * median(t[2 * i]), "ms");
    out.add(name + ", bytes", 1e-6 * static_cast<double>(bytes[i]), "MB");
    out.add(name + ", against reading them", median_ratio(t[2 * i], t[2 * i + 1]), "",
            routed ? std::optional(at_most(1.15)) : std::nullopt);
    if (i == 0) { continue; }
    out.add(name + ", against full head", median_ratio(t[2 * i], t[0]), "",
            routed ? std::optional(at_most(0.50)) : std::nullopt);
    out.add(name + ", bytes against full head",
            static_cast<double>(bytes[i]) / static_cast<double>(bytes[0]), "");
  }
  out.add(of + "layer alone", 1e3 * median(t[6]), "ms");
  out.add(of + "router and choice alone", 1e3 * median(t[7]), "ms");
  // The paper's cost of a draft step from these parts: on a GPU the router runs beside the layer.
  const double per_row = (median(t[0]) - median(t[6])) / vocab;
  planner::draft_step cost{.layers = median(t[6]), .router = median(t[7]), .row = per_row};
  cost.beside = false;
  out.add(of + "DynaSpec, predicted by its parts / measured", cost.at(rows) / median(t[4]), "");
  cost.beside = true;
  out.add(of + "DynaSpec with the router beside the layer, predicted", 1e3 * cost.at(rows), "ms");
}

}  // namespace bench
