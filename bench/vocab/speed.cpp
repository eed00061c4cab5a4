// SPDX-License-Identifier: Apache-2.0
#include "speed.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <hunch/head/range_gemv.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/hunch.hpp>

#include "blas.hpp"
#include "random_weights.hpp"
#include "read_once.hpp"

namespace bench {
namespace {

using namespace hunch;

constexpr std::int32_t vocab = 128256;
constexpr std::int32_t cluster_rows = 128;
constexpr std::int32_t chosen = 200;  ///< clusters of a shortlist: 19.96 % of the rows
constexpr std::int32_t chosen_rows = chosen * cluster_rows;
constexpr int rounds = 21;

volatile float sink;

std::size_t size_of(std::int32_t n) { return static_cast<std::size_t>(n); }

/// Heads of one shape, used in turn: more of them than a last-level cache holds.
template <class Weight>
class heads {
 public:
  explicit heads(std::int32_t width)
      : width_(width),
        copies_(std::max(std::size_t(1), (std::size_t(1) << 30) / head_bytes())),
        weights_(copies_ * size_of(vocab) * size_of(width)),
        scale_(std::is_same_v<Weight, std::int8_t> ? size_of(vocab) : 0, 0.01f) {
    bench::fill_at_random(weights_.data(), weights_.size());
  }

  std::size_t head_bytes() const { return size_of(vocab) * size_of(width_) * sizeof(Weight); }
  /// Another one at every call.
  kernel::head_weights<Weight> next() {
    const std::size_t copy = used_++ % copies_;
    return {weights_.data() + copy * size_of(vocab) * size_of(width_), vocab, width_,
            scale_.empty() ? nullptr : scale_.data()};
  }
  /// Reads a stretch of them, another one at every call.
  void read(std::size_t bytes) {
    if (at_ + bytes > copies_ * head_bytes()) { at_ = 0; }
    const auto* const first = reinterpret_cast<const std::byte*>(weights_.data()) + at_;
    sink = read_once(reinterpret_cast<const float*>(first), bytes / sizeof(float));
    at_ += bytes;
  }

 private:
  std::int32_t width_;
  std::size_t copies_;
  engine::aligned_buffer<Weight> weights_;
  std::vector<float> scale_;
  std::size_t used_ = 0;
  std::size_t at_ = 0;
};

/// Shortlists of random clusters, another one at every call.
class random_lists {
 public:
  random_lists() {
    std::mt19937 random(2);
    std::vector<std::int32_t> clusters(vocab / cluster_rows);
    std::iota(clusters.begin(), clusters.end(), 0);
    for (std::vector<row_range>& ranges : ranges_) {
      std::shuffle(clusters.begin(), clusters.end(), random);
      std::vector<std::int32_t> mine(clusters.begin(), clusters.begin() + chosen);
      std::sort(mine.begin(), mine.end());
      for (const std::int32_t c : mine) {
        if (!ranges.empty() && ranges.back().end == c * cluster_rows) {
          ranges.back().end += cluster_rows;
        } else {
          ranges.push_back({c * cluster_rows, (c + 1) * cluster_rows});
        }
      }
    }
  }

  shortlist next() {
    const std::vector<row_range>& ranges = ranges_[used_++ % ranges_.size()];
    return layout_.list(ranges.data(), static_cast<std::int32_t>(ranges.size()));
  }

 private:
  vocab_layout layout_ = vocab_layout::identity(vocab);
  std::vector<std::vector<row_range>> ranges_{32};
  std::size_t used_ = 0;
};

/// The product of shortlists, and of all rows, with one hidden state.
template <class Weight>
class products {
 public:
  explicit products(std::int32_t width)
      : of_(width), hidden_(size_of(width)), logits_(size_of(vocab)) {
    bench::fill_at_random(hidden_.data(), hidden_.size());
  }

  heads<Weight>& of() { return of_; }
  const float* hidden() const { return hidden_.data(); }
  float* logits() { return logits_.data(); }
  std::size_t chosen_bytes() const {
    return of_.head_bytes() / size_of(vocab) * size_of(chosen_rows);
  }

  void some() {
    team::serial team;
    kernel::range_gemv(team, of_.next(), lists_.next(), hidden_.data(),
                       row_view<float>{logits_.data(), chosen_rows});
  }
  /// Reads the same ranges, with the same look ahead, and does nothing else: what jumps cost.
  void read_some() {
    const kernel::head_weights<Weight> head = of_.next();
    const shortlist list = lists_.next();
    const kernel::detail::ranges_in_order ranges(list.ranges, list.range_count);
    kernel::detail::rows_ahead<Weight, kernel::detail::ranges_in_order, false> ahead(head, ranges);
    engine::f32x16 sums[8];
    for (engine::f32x16& sum : sums) { sum = engine::splat(0.0f); }
    auto place = ahead.place();
    for (std::int32_t r = 0; r < list.range_count; ++r) {
      const auto* const end = reinterpret_cast<const float*>(head.row(list.ranges[r].end));
      for (auto* p = reinterpret_cast<const float*>(head.row(list.ranges[r].begin)); p < end;
           p += 8 * engine::lanes) {
        const auto at = reinterpret_cast<const float*>(ahead.template take<8>(place, p));
        for (int j = 0; j < 8; ++j) {
          engine::prefetch(at + j * engine::lanes);
          sums[j] = sums[j] + engine::load(p + j * engine::lanes);
        }
      }
    }
    for (int j = 1; j < 8; ++j) { sums[0] = sums[0] + sums[j]; }
    sink = engine::sum(sums[0]);
  }
  void all() {
    team::serial team;
    kernel::gemv(team, of_.next(), hidden_.data(), logits_.data());
  }
  random_lists& lists() { return lists_; }

 private:
  heads<Weight> of_;
  random_lists lists_;
  engine::aligned_buffer<float> hidden_;
  std::vector<float> logits_;
};

/// A router of random weights in front of `choose_clusters`.
template <class Weight>
class routing {
 public:
  static constexpr std::int32_t clusters = 1024;
  static constexpr std::int32_t middle = 512;

  explicit routing(std::int32_t width)
      : first_(size_of(middle) * size_of(2 * width)),
        second_(size_of(clusters) * size_of(middle)),
        scale_(size_of(clusters), 0.01f),
        bias_(size_of(clusters), 0.1f),
        context_(size_of(2 * width)),
        begin_(size_of(clusters) + 1),
        workspace_(size_of(middle + clusters)),
        ranges_(size_of(clusters) + 1),
        router_(view(first_, middle, 2 * width), bias_.data(), view(second_, clusters, middle),
                bias_.data()) {
    bench::fill_at_random(first_.data(), first_.size());
    bench::fill_at_random(second_.data(), second_.size());
    bench::fill_at_random(context_.data(), context_.size());
    for (std::int32_t c = 0; c <= clusters; ++c) {
      begin_[size_of(c)] = static_cast<std::int32_t>(std::int64_t(vocab) * c / clusters);
    }
  }

  void choose() {
    team::serial team;
    float* const scores = workspace_.data() + middle;
    router_(team, context_.data(), workspace_.data(), scores);
    const kernel::choose_clusters<budget::fixed> choice{begin_.data(), clusters, {clusters / 5}};
    sink = static_cast<float>(choice(team, scores, 0, ranges_.data()));
  }

 private:
  kernel::head_weights<Weight> view(const engine::aligned_buffer<Weight>& of, std::int32_t rows,
                                    std::int32_t width) const {
    return {of.data(), rows, width, std::is_same_v<Weight, std::int8_t> ? scale_.data() : nullptr};
  }

  engine::aligned_buffer<Weight> first_;
  engine::aligned_buffer<Weight> second_;
  std::vector<float> scale_;
  std::vector<float> bias_;
  std::vector<float> context_;
  std::vector<std::int32_t> begin_;
  std::vector<float> workspace_;
  std::vector<row_range> ranges_;
  router::mlp<Weight> router_;
};

/// What is to be reached, as shares of the stream.
struct promise {
  std::optional<goal> some;
  std::optional<goal> all;
};

std::string shape(const char* type, std::int32_t width) {
  return std::string("head, ") + type + ", d = " + std::to_string(width) + ": ";
}

template <class Weight>
void measure_head(report& out, const char* type, std::int32_t width, const promise& promised) {
  products<Weight> head(width);
  const timings t = interleave(rounds, memory::as_left,
                               {[&] { head.of().read(head.chosen_bytes()); }, [&] { head.some(); },
                                [&] { head.of().read(head.of().head_bytes()); },
                                [&] { head.all(); }, [&] { head.read_some(); }});
  const std::string of = shape(type, width);
  out.add(of + "memory stream", static_cast<double>(head.of().head_bytes()) / median(t[2]) / 1e9,
          "GB/s");
  out.add(of + "a fifth, against the stream", median_ratio(t[0], t[1]), "", promised.some);
  out.add(of + "a fifth only read, against the stream", median_ratio(t[0], t[4]), "");
  out.add(of + "all, against the stream", median_ratio(t[2], t[3]), "", promised.all);
  out.add(of + "a fifth, against all", median_ratio(t[1], t[3]), "", at_most(0.23));
}

/// What is done beside the product: the choice of clusters, and several sequences at a time.
void measure_around(report& out) {
  constexpr std::int32_t width = 1024;
  constexpr std::size_t batch = 8;
  products<bfloat16> head(width);
  routing<bfloat16> by_bf16(width);
  routing<std::int8_t> by_bytes(width);

  executor::host executor;
  shortlist_head<executor::host, bfloat16> together(executor, vocab, width);
  std::vector<shortlist> lists(batch);
  const std::vector<std::int32_t> rows(batch, 0);
  std::vector<std::vector<float>> logits(batch, std::vector<float>(size_of(chosen_rows)));
  std::vector<row_view<float>> views;
  for (std::vector<float>& l : logits) { views.push_back({l.data(), chosen_rows}); }

  constexpr std::int32_t children = 10;
  const auto tiles = size_of(static_cast<std::int32_t>(team::tiles_of(chosen_rows)));
  std::vector<team::soft_total<std::int32_t>> totals(tiles);
  std::vector<std::int64_t> best(tiles * size_of(children));
  const row_summary summary{kernel::scale_at_one<float>, totals.data(), children, best.data()};
  const auto one = [&] {
    lists[0] = head.lists().next();
    return head_rows<float>{1, rows.data(), lists.data(), views.data()};
  };

  const timings t = interleave(
      rounds, memory::as_left,
      {[&] { head.some(); }, [&] { by_bf16.choose(); }, [&] { by_bytes.choose(); },
       [&] { together(executor, head.of().next(), head.hidden(), width, one()); },
       [&] { together(executor, head.of().next(), head.hidden(), width, one(), &summary); },
       [&] {
         for (shortlist& l : lists) { l = head.lists().next(); }
         together(executor, head.of().next(), head.hidden(), width,
                  {static_cast<std::int32_t>(batch), rows.data(), lists.data(), views.data()});
       }});
  const std::string of = shape("bf16", width);
  out.add(of + "router in bf16 and choice of clusters, against a fifth", median_ratio(t[1], t[0]),
          "", at_most(0.10));
  out.add(of + "router in int8 and choice of clusters, against a fifth", median_ratio(t[2], t[0]),
          "", at_most(0.10));
  out.add(of + "a fifth with its law and ten best, against without", median_ratio(t[4], t[3]), "",
          at_most(1.05));
  out.add(of + "eight fifths together, against one", median_ratio(t[5], t[3]), "");
}

/// That `copy` computes what `range_gemv` does.
template <class Copy>
void check_copy(products<float>& head, const Copy& copy) {
  const kernel::head_weights<float> weights = head.of().next();
  const shortlist list = head.lists().next();
  std::vector<float> own(size_of(chosen_rows));
  team::serial team;
  kernel::range_gemv(team, weights, list, head.hidden(), row_view<float>{own.data(), chosen_rows});
  copy(weights, list);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!(std::abs(own[i] - head.logits()[i]) < 1e-3f)) {
      std::fprintf(stderr, "the bench is wrong: logit %zu\n", i);
      std::exit(1);
    }
  }
}

/// Against gathering the rows and a product by a library.
void measure_copy(report& out) {
  constexpr std::int32_t width = 1024;
  const std::string name = shape("f32", width) + "copy and OpenBLAS, against a fifth";
  if (!has_blas) {
    return out.not_run(name, "built without OpenBLAS; on Debian it is libopenblas-dev");
  }
  products<float> head(width);
  engine::aligned_buffer<float> copied(size_of(chosen_rows) * size_of(width));
  const auto copy = [&](const kernel::head_weights<float>& weights, const shortlist& list) {
    float* to = copied.data();
    for (std::int32_t r = 0; r < list.range_count; ++r) {
      const row_range range = list.ranges[r];
      to = std::copy(weights.row(range.begin), weights.row(range.end), to);
    }
    blas_product(copied.data(), chosen_rows, width, head.hidden(), head.logits());
  };
  check_copy(head, copy);
  const timings t =
      interleave(rounds, memory::as_left,
                 {[&] { head.some(); }, [&] { copy(head.of().next(), head.lists().next()); }});
  out.add(name, median_ratio(t[1], t[0]), "", at_least(3.0));
}

}  // namespace

void measure_vocab_speed(report& out) {
  // One after the other: each owns a gibibyte.
  measure_head<bfloat16>(out, "bf16", 1024, {at_least(0.90), at_least(0.93)});
  measure_head<bfloat16>(out, "bf16", 4096, {at_least(0.80), std::nullopt});
  measure_head<bfloat16>(out, "bf16", 256, {});
  measure_head<float>(out, "f32", 1024, {at_least(0.93), std::nullopt});
  measure_head<std::int8_t>(out, "int8", 1024, {at_least(0.75), std::nullopt});
  measure_head<std::int8_t>(out, "int8", 256, {});
  measure_around(out);
  measure_copy(out);
}

}  // namespace bench
