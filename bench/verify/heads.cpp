// SPDX-License-Identifier: Apache-2.0
#include "heads.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <engine/aligned_buffer.hpp>

#include "random_weights.hpp"
#include "variants.hpp"

namespace bench {
namespace {

using namespace hunch;

constexpr std::int32_t width = 1024;
constexpr std::size_t width_size = width;
constexpr std::size_t head_bytes = std::size_t(64) << 20;  ///< of the heads in memory
constexpr std::size_t copies = 8;  ///< used in turn: more than a last-level cache holds
constexpr std::size_t near_bytes = std::size_t(1) << 19;  ///< of the head in a cache
constexpr int rounds = 21;
constexpr std::size_t lists_at_once = 8;

std::size_t size_of(std::int32_t n) { return static_cast<std::size_t>(n); }

/// Heads that take turns, and a random fifth of their rows in clusters.
template <class Weight>
class products {
 public:
  static constexpr std::int32_t rows =
      static_cast<std::int32_t>(head_bytes / (width_size * sizeof(Weight)));
  static constexpr std::int32_t near_rows =
      static_cast<std::int32_t>(near_bytes / (width_size * sizeof(Weight)));

  products()
      : weights_(copies * head_bytes / sizeof(Weight)),
        hidden_(lists_at_once * width_size),
        scale_(std::is_same_v<Weight, std::int8_t> ? size_of(rows) : 0, 0.01f) {
    bench::fill_at_random(weights_.data(), copies * head_bytes / sizeof(Weight));
    bench::fill_at_random(hidden_.data(), lists_at_once * width_size);
    std::mt19937 random(2);
    for (std::size_t i = 0; i < lists_at_once; ++i) { choose(random); }
    logits_.assign(lists_at_once, std::vector<float>(size_of(rows)));
    for (std::size_t i = 0; i < lists_at_once; ++i) {
      views_.push_back({logits_[i].data(), lists_[i].size});
      row_.push_back(static_cast<std::int32_t>(i));
    }
  }

  /// Another one at every call.
  kernel::head_weights<Weight> next() { return head(used_++ % copies, rows); }
  kernel::head_weights<Weight> near() const { return head(0, near_rows); }
  void read() {
    read_once(reinterpret_cast<const float*>(next().data), head_bytes / sizeof(float));
  }

  const shortlist& list() const { return lists_[0]; }
  const float* hidden() const { return hidden_.data(); }
  float* logits() { return logits_[0].data(); }
  const std::vector<std::vector<float>>& all_logits() const { return logits_; }
  row_view<float> some() const { return views_[0]; }
  head_rows<float> asked() {
    return {static_cast<std::int32_t>(lists_at_once), row_.data(), lists_.data(), views_.data()};
  }

 private:
  kernel::head_weights<Weight> head(std::size_t copy, std::int32_t count) const {
    return {weights_.data() + copy * (head_bytes / sizeof(Weight)), count, width,
            scale_.empty() ? nullptr : scale_.data()};
  }

  void choose(std::mt19937& random) {
    constexpr std::int32_t cluster_rows = 128;
    std::vector<std::int32_t> clusters(rows / cluster_rows);
    std::iota(clusters.begin(), clusters.end(), 0);
    std::shuffle(clusters.begin(), clusters.end(), random);
    clusters.resize(clusters.size() / 5);
    std::sort(clusters.begin(), clusters.end());
    std::vector<row_range> ranges;
    for (const std::int32_t c : clusters) {
      if (!ranges.empty() && ranges.back().end == c * cluster_rows) {
        ranges.back().end += cluster_rows;
      } else {
        ranges.push_back({c * cluster_rows, (c + 1) * cluster_rows});
      }
    }
    ranges_.push_back(std::move(ranges));  // whose elements stay where they are
    lists_.push_back(
        layout_.list(ranges_.back().data(), static_cast<std::int32_t>(ranges_.back().size())));
  }

  vocab_layout layout_ = vocab_layout::identity(rows);
  engine::aligned_buffer<Weight> weights_;
  engine::aligned_buffer<float> hidden_;
  std::vector<float> scale_;
  std::vector<std::vector<row_range>> ranges_;
  std::vector<shortlist> lists_;
  std::vector<std::vector<float>> logits_;
  std::vector<row_view<float>> views_;
  std::vector<std::int32_t> row_;
  std::size_t used_ = 0;
};

/// That whatever the flags, logits have the same bits.
template <class Weight, class Of>
void check_same(products<Weight>& head, const Of& of) {
  std::vector<std::vector<std::vector<float>>> found;
  const kernel::head_weights<Weight> weights = head.next();
  for (const variant& v : variants()) {
    if (v.run == nullptr) { continue; }
    std::vector<std::vector<float>> logits;
    of(*v.run).all(weights, head.hidden(), head.logits());
    logits.push_back(head.all_logits()[0]);
    of(*v.run).some(weights, head.list(), head.hidden(), head.some());
    logits.push_back(head.all_logits()[0]);
    of(*v.run).together(weights, head.hidden(), head.asked());
    for (const std::vector<float>& l : head.all_logits()) { logits.push_back(l); }
    found.push_back(std::move(logits));
  }
  for (const auto& logits : found) { need(logits == found.front(), "logits depend on the flags"); }
}

template <class Weight>
void measure_head(report& out, const char* type) {
  using functions = std::vector<std::function<void()>>;
  products<Weight> head;
  const auto of = [](const operations& o) -> const head_operations<Weight>& {
    return std::get<head_operations<Weight>>(o.heads);
  };

  check_same(head, of);

  functions cold;
  cold.push_back([&] { head.read(); });
  const compared all = compared::add(cold, [&](const operations& o) {
    return [&, run = of(o)] { run.all(head.next(), head.hidden(), head.logits()); };
  });
  const compared some = compared::add(cold, [&](const operations& o) {
    return [&, run = of(o)] { run.some(head.next(), head.list(), head.hidden(), head.some()); };
  });
  const compared together = compared::add(cold, [&](const operations& o) {
    return [&, run = of(o)] { run.together(head.next(), head.hidden(), head.asked()); };
  });
  const timings t = interleave(rounds, memory::as_left, cold, turns::rotating);

  functions warm;
  const compared near = compared::add(warm, [&](const operations& o) {
    return [&, run = of(o)] {
      for (int i = 0; i < 8; ++i) { run.all(head.near(), head.hidden(), head.logits()); }
    };
  });
  const timings in_cache = interleave(rounds, memory::warm, warm, turns::rotating);

  const std::string name = std::string("head, ") + type + ": ";
  all.say(out, name + "all rows", t, 0, {});
  some.say(out, name + "a fifth of the rows", t, std::nullopt, {});
  together.say(out, name + "eight fifths together", t, std::nullopt, {});
  near.say(out, name + "rows in a cache", in_cache, std::nullopt, {});
}

}  // namespace

void measure_heads(report& out) {
  // One after the other: each owns half a gibibyte.
  measure_head<float>(out, "f32");
  measure_head<bfloat16>(out, "bf16");
  measure_head<float16>(out, "f16");
  measure_head<std::int8_t>(out, "int8");
}

}  // namespace bench
