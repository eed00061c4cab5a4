// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <hunch/core/bfloat16.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "language_rows.hpp"
#include "sections.hpp"

namespace bench::device {
namespace {

using namespace hunch;

constexpr std::int32_t width = 4096;
constexpr std::int32_t cluster_rows = 128;
constexpr std::int32_t clusters = vocab / cluster_rows;
constexpr std::int32_t chosen = 211;  ///< clusters of a shortlist: 27,008 rows
constexpr std::int32_t few_states = 10;
constexpr std::int32_t max_states = kernel::planned_lists;
constexpr int rounds = 15;

/// Small random numbers.
struct fill_weights {
  bfloat16* to;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const std::int64_t first = static_cast<std::int64_t>(row) * width;
    bfloat16* const out = to + first;
    team.for_each(width, [=](std::int64_t i) {
      out[i] = to_bfloat16(0.02f * noise(mixed(static_cast<std::uint64_t>(first + i))));
    });
  }
};

using ranges_of_lists = std::vector<std::vector<row_range>>;

/// Rows of a list.
std::int32_t rows_of(const std::vector<row_range>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), 0,
                         [](std::int32_t n, row_range r) { return n + r.end - r.begin; });
}

/// Hidden states that ask for the logits of one list each.
class request {
 public:
  /// The same for `states` of them.
  request(cuda& executor, const std::vector<row_range>& ranges, std::int32_t states)
      : request(executor, ranges_of_lists(static_cast<std::size_t>(states), ranges),
                rows_of(ranges)) {}
  /// \param lists of as many rows each.
  /// \param read rows in any of them.
  request(cuda& executor, const ranges_of_lists& lists_of, std::int32_t read)
      : size_(static_cast<std::int32_t>(lists_of.size())),
        rows_(rows_of(lists_of[0])),
        read_(read),
        ranges_(executor, count() * lists_of[0].size()),
        row_(executor, count()),
        lists_(executor, count()),
        views_(executor, count()),
        logits_(executor, count() * static_cast<std::size_t>(rows_)),
        totals_(executor, count() * tiles()),
        best_(executor, count() * tiles() * children),
        summaries_(executor, count()) {
    const std::size_t each = lists_of[0].size();
    std::vector<row_range> ranges;
    std::vector<shortlist> lists;
    for (const std::vector<row_range>& list : lists_of) {
      lists.push_back({ranges_.data() + ranges.size(), static_cast<std::int32_t>(each), rows_,
                       nullptr, nullptr, vocab});
      ranges.insert(ranges.end(), list.begin(), list.end());
    }
    std::vector<std::int32_t> row(count());
    std::iota(row.begin(), row.end(), 0);
    std::vector<row_view<float>> views;
    std::vector<row_summary> summaries;
    for (std::size_t i = 0; i < count(); ++i) {
      views.push_back({logits_.data() + i * static_cast<std::size_t>(rows_), rows_});
      summaries.push_back({kernel::scale_at_one<float>, totals_.data() + i * tiles(), children,
                           best_.data() + i * tiles() * children});
    }
    executor.upload(ranges_.data(), ranges.data(), ranges.size());
    executor.upload(row_.data(), row.data(), row.size());
    executor.upload(lists_.data(), lists.data(), lists.size());
    executor.upload(views_.data(), views.data(), views.size());
    executor.upload(summaries_.data(), summaries.data(), summaries.size());
    executor.synchronize();
  }

  head_rows<float> asked() const { return {size_, row_.data(), lists_.data(), views_.data()}; }
  const row_summary* summaries() const { return summaries_.data(); }
  /// Of weights: each row is read once, however many states ask for it.
  double bytes() const { return 2.0 * width * read_; }

 private:
  static constexpr std::int32_t children = 10;

  std::size_t count() const { return static_cast<std::size_t>(size_); }
  std::size_t tiles() const { return static_cast<std::size_t>(team::tiles_of(rows_)); }

  std::int32_t size_;
  std::int32_t rows_;
  std::int32_t read_;
  cuda::resident<row_range> ranges_;
  cuda::resident<std::int32_t> row_;
  cuda::resident<shortlist> lists_;
  cuda::resident<row_view<float>> views_;
  cuda::resident<float> logits_;
  cuda::resident<team::soft_total<std::int32_t>> totals_;
  cuda::resident<std::int64_t> best_;
  cuda::resident<row_summary> summaries_;
};

/// The numbers of all clusters, shuffled.
std::vector<std::int32_t> shuffled_clusters(std::mt19937& random) {
  std::vector<std::int32_t> order(clusters);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// Of `chosen` clusters, in ascending order, as a router leaves them.
template <class Iterator>
std::vector<row_range> shortlist_of(Iterator first) {
  std::sort(first, first + chosen);
  std::vector<row_range> list;
  for (auto c = first; c != first + chosen; ++c) {
    list.push_back({*c * cluster_rows, (*c + 1) * cluster_rows});
  }
  return list;
}

/// Disjoint lists of randomly chosen clusters.
ranges_of_lists disjoint_shortlists() {
  std::mt19937 random(1);
  std::vector<std::int32_t> order = shuffled_clusters(random);
  ranges_of_lists lists;
  for (auto first = order.begin(); order.end() - first >= chosen; first += chosen) {
    lists.push_back(shortlist_of(first));
  }
  return lists;
}

/// A list of its own for each of the most states; of so many, each row is in one or another.
ranges_of_lists random_shortlists() {
  std::mt19937 random(2);
  ranges_of_lists lists;
  while (lists.size() < static_cast<std::size_t>(max_states)) {
    std::vector<std::int32_t> order = shuffled_clusters(random);
    lists.push_back(shortlist_of(order.begin()));
  }
  return lists;
}

}  // namespace

void measure_heads(report& out, cuda& executor, memory_copy& copy) {
  cuda::resident<bfloat16> data(executor, static_cast<std::size_t>(vocab) * width);
  cuda::resident<float> hidden(executor, static_cast<std::size_t>(max_states) * width);
  executor.launch(vocab, fill_weights{data.data()});
  executor.launch(max_states, fill_rows{hidden.data(), width, 1, 0.0f});
  const kernel::head_weights<bfloat16> weights{data.data(), vocab, width};
  shortlist_head<cuda, bfloat16> head(executor, vocab, width);

  // Each piece of work reads other rows than the one before it, so that a cache holds none of them.
  const auto in_turn = [&](const std::vector<request>& requests) {
    return candidate{[&executor, &weights, &hidden, &head, &requests] {
                       for (const request& r : requests) {
                         head(executor, weights, hidden.data(), width, r.asked());
                       }
                     },
                     static_cast<double>(requests.size())};
  };
  const auto with_epilogue = [&](const std::vector<request>& requests) {
    return candidate{[&executor, &weights, &hidden, &head, &requests] {
                       for (const request& r : requests) {
                         head(executor, weights, hidden.data(), width, r.asked(), r.summaries());
                       }
                     },
                     static_cast<double>(requests.size())};
  };
  std::vector<request> full, one, ten, many, lists;
  full.emplace_back(executor, std::vector<row_range>{{0, vocab}}, 1);
  for (const std::vector<row_range>& list : disjoint_shortlists()) {
    one.emplace_back(executor, list, 1);
    ten.emplace_back(executor, list, few_states);
  }
  many.emplace_back(executor, std::vector<row_range>{{0, vocab}}, max_states);
  lists.emplace_back(executor, random_shortlists(), vocab);
  const timings t =
      interleave_on(executor, rounds,
                    {copy.work(), in_turn(full), in_turn(one), in_turn(ten), with_epilogue(one),
                     with_epilogue(ten), in_turn(many), in_turn(lists)});

  const auto add = [&](const std::string& name, const request& r, const std::vector<double>& times,
                       double wanted) {
    out.add(name, median(times) * 1e6, "us");
    out.add(name + ": weights at copy bandwidth / time", share_of_copy(r.bytes(), t[0], times), "",
            at_least(wanted));
  };
  out.add("copy within the device, bytes read and written",
          memory_copy::bandwidth(median(t[0])) * 1e-9, "GB/s");
  add("head of 128256 x 4096 bf16, 1 hidden state", full[0], t[1], 0.90);
  add("head, 27008 rows in 211 clusters, 1 hidden state", one[0], t[2], 0.85);
  add("head, 27008 rows in 211 clusters, 10 hidden states", ten[0], t[3], 0.75);
  // A dense product of so many states waits for the same bytes: this is 1.2 times its time.
  add("head of 128256 x 4096 bf16, 64 hidden states", many[0], t[6], 0.80);
  add("head, 64 random lists of 27008 rows", lists[0], t[7], 0.80);
  out.add("with laws and 10 best children / without, 1 hidden state", median_ratio(t[4], t[2]), "");
  out.add("with laws and 10 best children / without, 10 hidden states", median_ratio(t[5], t[3]),
          "");
}

}  // namespace bench::device
