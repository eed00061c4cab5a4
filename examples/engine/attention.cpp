// SPDX-License-Identifier: Apache-2.0
#include <engine/attention.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

#include <engine/simd.hpp>

namespace engine {
namespace {

constexpr int ways = 4;  // independent sums of values, by position modulo 4

/// Queries that read a key together: as many as their sums have registers.
#if defined(__AVX512F__)
constexpr int scored_together = 4;
#else
constexpr int scored_together = 2;
#endif

/// Positions that all queries read before the next ones: 16 KiB of keys, or of values.
int positions_at_once(const attention_run& run) {
  constexpr int unit = 4 * lanes;
  return std::max(unit, 4096 / run.padded_head_dim / unit * unit);
}

/// Where queries have their scores, and the sums of their values.
struct places {
  std::ptrdiff_t stride;  ///< of scores, each
  float* scores;
  int padded_head_dim;
  float* sums;

  float* scores_of(int query) const { return scores + query * stride; }
  float* sums_of(int query) const {
    return sums + static_cast<std::ptrdiff_t>(query) * ways * padded_head_dim;
  }
};

/// Scores of H queries against B blocks of 16 positions.
template <int H, int B>
ENGINE_INLINE void score_blocks(const float* keys, int head_dim, const attention_query* queries,
                                float* scores, std::ptrdiff_t stride) {
  const float* query[H];
  for (int h = 0; h < H; ++h) { query[h] = queries[h].query; }
  f32x16 sums[H][B];
  for (int h = 0; h < H; ++h) {
    for (int b = 0; b < B; ++b) { sums[h][b] = splat(0.0f); }
  }
  for (int d = 0; d < head_dim; ++d) {
    f32x16 key[B];
    for (int b = 0; b < B; ++b) { key[b] = load(keys + (b * head_dim + d) * lanes); }
    for (int h = 0; h < H; ++h) {
      const f32x16 q = splat(query[h][d]);
      for (int b = 0; b < B; ++b) { sums[h][b] = fma(key[b], q, sums[h][b]); }
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int b = 0; b < B; ++b) { store(scores + h * stride + b * lanes, sums[h][b]); }
  }
}

/// The same for blocks [b, last).
template <int H>
void score(const attention_run& run, const attention_query* queries, int b, int last, float* scores,
           std::ptrdiff_t stride) {
  const std::ptrdiff_t block_keys = static_cast<std::ptrdiff_t>(run.head_dim) * lanes;
  for (; b + 4 <= last; b += 4) {
    score_blocks<H, 4>(run.keys + b * block_keys, run.head_dim, queries, scores + b * lanes,
                       stride);
  }
  const auto rest = [&]<int B>() {
    score_blocks<H, B>(run.keys + b * block_keys, run.head_dim, queries, scores + b * lanes,
                       stride);
  };
  switch (last - b) {
    case 3:
      return rest.template operator()<3>();
    case 2:
      return rest.template operator()<2>();
    case 1:
      return rest.template operator()<1>();
    default:
      return;
  }
}

/// Scores of all queries at positions [first, last), `first` a multiple of 16.
void score_all(const attention_run& run, std::span<const attention_query> queries, int first,
               int last, const places& at) {
  const int b = first / lanes;
  const int end = (last + lanes - 1) / lanes;
  const int count = static_cast<int>(queries.size());
  int h = 0;
  const auto next = [&]<int H>() {
    score<H>(run, &queries[static_cast<std::size_t>(h)], b, end, at.scores_of(h), at.stride);
    h += H;
  };
  while (h + scored_together <= count) { next.template operator()<scored_together>(); }
  if (h + 2 <= count) { next.template operator()<2>(); }
  if (h < count) { next.template operator()<1>(); }
}

/// Replaces scores by exponentials; returns the inverse of their sum. Lanes outside of [first,
/// length) become exponentials of -inf: zeros, which change no sum.
float exponentials(float* scores, int first, int length) {
  const int padded = round_up(length, lanes);
  std::fill(scores, scores + first, -std::numeric_limits<float>::infinity());
  std::fill(scores + length, scores + padded, -std::numeric_limits<float>::infinity());
  f32x16 largest = load(scores);
  for (int i = lanes; i < padded; i += lanes) { largest = max(load(scores + i), largest); }
  const f32x16 top = splat(maximum(largest));
  f32x16 total = splat(0.0f);
  for (int i = 0; i < padded; i += lanes) {
    const f32x16 e = exp(load(scores + i) - top);
    store(scores + i, e);
    total = total + e;
  }
  return 1.0f / sum(total);
}

/// Adds the values of positions [position, end), V registers wide, to the sums of H queries from
/// `query` on; `position` is a multiple of 4.
template <int H, int V>
ENGINE_INLINE void mix(const float* values, int position, int end, int query, int v,
                       const places& at) {
  f32x16 sums[ways][H][V];
  const auto each = [&](auto f) __attribute__((always_inline)) {
    for (int way = 0; way < ways; ++way) {
      for (int h = 0; h < H; ++h) {
        for (int k = 0; k < V; ++k) {
          f(sums[way][h][k], at.sums_of(query + h) + way * at.padded_head_dim + v + k * lanes);
        }
      }
    }
  };
  each([](f32x16& sum, const float* from) { sum = load(from); });
  const float* weights[H];
  for (int h = 0; h < H; ++h) { weights[h] = at.scores_of(query + h); }
  const auto step = [&](int way, int p) __attribute__((always_inline)) {
    for (int k = 0; k < V; ++k) {
      const f32x16 value = in_register(
          load(values + static_cast<std::ptrdiff_t>(p) * at.padded_head_dim + v + k * lanes));
      for (int h = 0; h < H; ++h) {
        sums[way][h][k] = fma(value, splat(weights[h][p]), sums[way][h][k]);
      }
    }
  };
  for (; position + ways <= end; position += ways) {
    step(0, position);
    step(1, position + 1);
    step(2, position + 2);
    step(3, position + 3);
  }
  if (position < end) { step(0, position); }
  if (position + 1 < end) { step(1, position + 1); }
  if (position + 2 < end) { step(2, position + 2); }
  each([](const f32x16& sum, float* to) { store(to, sum); });
}

template <int H>
void mix_values(const float* values, int first, int end, int query, const places& at) {
  int v = 0;
  for (; v + 2 * lanes <= at.padded_head_dim; v += 2 * lanes) {
    mix<H, 2>(values, first, end, query, v, at);
  }
  if (v < at.padded_head_dim) { mix<H, 1>(values, first, end, query, v, at); }
}

/// Adds the values of positions [first, last), `first` a multiple of 4, to the sums of all queries
/// that read them.
void mix_all(const attention_run& run, std::span<const attention_query> queries, int first,
             int last, const places& at) {
  const int count = static_cast<int>(queries.size());
  const auto end_of = [&](int h) {
    return std::min(queries[static_cast<std::size_t>(h)].length, last);
  };
  int h = 0;
  for (; h + 2 <= count; h += 2) {
    const int ends[2] = {end_of(h), end_of(h + 1)};
    if (ends[0] == ends[1]) {
      if (first < ends[0]) { mix_values<2>(run.values, first, ends[0], h, at); }
      continue;
    }
    const int common = std::max(first, std::min(ends[0], ends[1]) / ways * ways);
    mix_values<2>(run.values, first, common, h, at);
    for (int i = 0; i < 2; ++i) {
      if (common < ends[i]) { mix_values<1>(run.values, common, ends[i], h + i, at); }
    }
  }
  if (h < count && first < end_of(h)) { mix_values<1>(run.values, first, end_of(h), h, at); }
}

/// The sums of values, in their fixed order, over that of the exponentials.
void finish(const attention_query& query, int head_dim, int padded_head_dim, float inverse,
            float* sums) {
  for (int v = 0; v < padded_head_dim; v += lanes) {
    const auto way = [&](int w) { return load(sums + w * padded_head_dim + v); };
    store(sums + v, ((way(0) + way(1)) + (way(2) + way(3))) * splat(inverse));
  }
  std::copy_n(sums, head_dim, query.out);
}

void attend_together(const attention_run& run, std::span<const attention_query> queries,
                     float* scratch) {
  const auto count = static_cast<std::ptrdiff_t>(queries.size());
  const int longest = std::max_element(queries.begin(), queries.end(), [](auto& a, auto& b) {
                        return a.length < b.length;
                      })->length;
  const std::ptrdiff_t stride = round_up(longest, lanes);
  const places at{.stride = stride,
                  .scores = scratch,
                  .padded_head_dim = run.padded_head_dim,
                  .sums = scratch + count * stride};
  // What is read once need not stay near.
  const int at_once = count <= scored_together ? longest : positions_at_once(run);
  for (int p = 0; p < longest; p += at_once) {
    score_all(run, queries, p, std::min(longest, p + at_once), at);
  }
  float inverse[attention_queries];
  for (int i = 0; i < count; ++i) {
    const attention_query& query = queries[static_cast<std::size_t>(i)];
    inverse[i] = exponentials(at.scores_of(i), query.first, query.length);
  }
  std::fill_n(at.sums, count * ways * run.padded_head_dim, 0.0f);
  const int mixed_at_once = count <= 2 ? round_up(longest, ways) : positions_at_once(run);
  for (int p = 0; p < longest; p += mixed_at_once) {
    mix_all(run, queries, p, std::min(longest, p + mixed_at_once), at);
  }
  for (int i = 0; i < count; ++i) {
    finish(queries[static_cast<std::size_t>(i)], run.head_dim, run.padded_head_dim, inverse[i],
           at.sums_of(i));
  }
}

}  // namespace

std::size_t attention_scratch(int positions, int padded_head_dim) {
  return static_cast<std::size_t>(attention_queries) *
         static_cast<std::size_t>(round_up(positions, lanes) + ways * padded_head_dim);
}

void attend(const attention_run& run, std::span<const attention_query> queries, float* scratch) {
  for (std::size_t i = 0; i < queries.size(); i += attention_queries) {
    attend_together(
        run, queries.subspan(i, std::min(queries.size() - i, std::size_t{attention_queries})),
        scratch);
  }
}

}  // namespace engine
