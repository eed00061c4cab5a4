// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

// Without a CUDA compiler Thrust runs on the host; who has chosen another way before has it.
#if !defined(__CUDACC__) && !defined(THRUST_DEVICE_SYSTEM)
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#if defined(__CUDACC__)
#include <thrust/system/cuda/execution_policy.h>
#endif

#include <hunch/core/message.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/tools/detail/kmeans.hpp>

namespace hunch {

/// What `spherical_kmeans` is asked for.
struct clustering_options {
  std::int32_t clusters = 256;   ///< in [1, rows of the head]
  std::int32_t iterations = 20;  ///< at most, 1 or more: it ends when no row moves
  std::uint64_t seed = 0;
  /// The largest cluster, as a multiple of the mean one, at least 1; 0: as it comes.
  double largest = 0.0;
};

/// Which cluster each row of a head belongs to, in the order of its rows. (A `clustered_layout` is
/// made of clusters in the order of tokens: the same for a head that nobody permuted.)
struct clustering {
  std::vector<std::int32_t> cluster;  ///< [rows]
  std::vector<float> cosine;          ///< [rows] of the angle to the cluster's centre
  std::int32_t clusters = 0;
  std::int32_t iterations = 0;  ///< that were made

  double mean_cosine() const {
    return std::accumulate(cosine.begin(), cosine.end(), 0.0) / static_cast<double>(cosine.size());
  }
};

namespace detail {

/// How Thrust works on the resident memory of an executor: on its stream, where it has one.
template <class E>
auto thrust_policy([[maybe_unused]] E& executor) {
#if defined(__CUDACC__)
  if constexpr (requires { executor.stream(); }) {
    return thrust::cuda::par_nosync.on(executor.stream());
  } else {
    return thrust::host;
  }
#else
  return thrust::host;
#endif
}

/// Spherical k-means on an executor; see `spherical_kmeans`.
template <ResidentExecutor E, class Weight>
class kmeans {
 public:
  kmeans(E& executor, const kernel::head_weights<Weight>& head, const clustering_options& options)
      : executor_(executor),
        head_(head),
        options_(options),
        inverse_norm_(executor, size(head.rows)),
        gap_(executor, size(head.rows)),
        by_centre_(executor, size(options.clusters) * size(head.width)),
        by_width_(executor, size(options.clusters) * size(head.width)),
        cluster_(executor, size(head.rows)),
        cosine_(executor, size(head.rows)),
        sorted_(executor, size(head.rows)),
        members_(executor, size(head.rows)),
        begin_(executor, size(options.clusters) + 1),
        moved_(executor, size(teams())),
        open_(executor, size(options.clusters)) {
    set_open(std::vector<std::uint8_t>(size(options.clusters), 1));
  }

  clustering run() {
    seed();
    clustering out;
    out.clusters = options_.clusters;
    for (;;) {
      const bool moved = assign(out.iterations == 0);
      ++out.iterations;
      const bool filled = sort_and_fill();
      if ((!moved && !filled) || out.iterations >= options_.iterations) { break; }
      executor_.launch(options_.clusters,
                       kernel::move_centre<Weight>{of(), to(), members_.data(), begin_.data()});
    }
    out.cluster = downloaded(cluster_);
    out.cosine = downloaded(cosine_);
    if (options_.largest > 0.0) { balance(out); }
    return out;
  }

 private:
  template <class T>
  using resident = hunch::workspace<E, T>;

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  std::int32_t teams() const {
    return (head_.rows + kernel::kmeans_rows - 1) / kernel::kmeans_rows;
  }
  kernel::directions<Weight> of() const { return {head_, inverse_norm_.data()}; }
  kernel::centres to() const {
    return {.by_centre = by_centre_.data(),
            .by_width = by_width_.data(),
            .count = options_.clusters,
            .width = head_.width};
  }
  template <class Buffer>
  auto downloaded(const Buffer& from) {
    std::vector<std::remove_pointer_t<decltype(from.data())>> out(from.size());
    executor_.download(out.data(), from.data(), from.size());
    executor_.synchronize();
    return out;
  }

  void seed() {
    executor_.launch(teams(), kernel::measure_directions<Weight>{of(), gap_.data()});
    for (std::int32_t c = 0; c < options_.clusters; ++c) {
      executor_.launch(1, kernel::draw_centre<Weight>{of(), to(), gap_.data(), c, options_.seed});
      executor_.launch(teams(), kernel::narrow_gaps<Weight>{of(), to().of(c), gap_.data()});
    }
  }

  /// Whether a row has moved.
  bool assign(bool first) {
    executor_.launch(
        teams(), kernel::assign_rows<Weight>{
                     of(), to(), {cluster_.data(), cosine_.data()}, open_.data(), moved_.data()});
    const std::vector<std::int32_t> moved = downloaded(moved_);
    return first || std::any_of(moved.begin(), moved.end(), [](std::int32_t n) { return n > 0; });
  }

  void set_open(const std::vector<std::uint8_t>& open) {
    executor_.upload(open_.data(), open.data(), open.size());
    executor_.synchronize();
  }

  /// Clusters that are too large keep the rows nearest to their centres and take no others; the
  /// rest go where it is nearest among those that have room.
  void balance(clustering& of_rows) {
    const auto room =
        static_cast<std::int32_t>(std::ceil(options_.largest * head_.rows / options_.clusters));
    std::vector<std::uint8_t> open(size(options_.clusters), 1);
    std::vector<std::int32_t> order(of_rows.cluster.size());
    std::iota(order.begin(), order.end(), 0);
    for (;;) {
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return of_rows.cosine[size(a)] > of_rows.cosine[size(b)] ||
               (of_rows.cosine[size(a)] == of_rows.cosine[size(b)] && a < b);
      });
      std::vector<std::int32_t> members(size(options_.clusters));
      std::vector<std::int32_t> homeless;
      for (const std::int32_t row : order) {
        const std::size_t c = size(of_rows.cluster[size(row)]);
        if (++members[c] > room) { homeless.push_back(row); }
      }
      if (homeless.empty()) { return; }
      for (std::size_t c = 0; c < open.size(); ++c) { open[c] = members[c] < room ? open[c] : 0; }
      set_open(open);
      assign(false);
      const std::vector<std::int32_t> cluster = downloaded(cluster_);
      const std::vector<float> cosine = downloaded(cosine_);
      for (const std::int32_t row : homeless) {
        of_rows.cluster[size(row)] = cluster[size(row)];
        of_rows.cosine[size(row)] = cosine[size(row)];
      }
    }
  }

  /// Members in the order of clusters; a cluster without any takes the row that is farthest from
  /// its centre. Whether there was one.
  bool sort_and_fill() {
    std::vector<std::int32_t> begin = sort();
    std::vector<std::int32_t> empty;
    for (std::int32_t c = 0; c < options_.clusters; ++c) {
      if (begin[size(c)] == begin[size(c) + 1]) { empty.push_back(c); }
    }
    if (empty.empty()) { return false; }
    std::vector<std::int32_t> cluster = downloaded(cluster_);
    const std::vector<float> cosine = downloaded(cosine_);
    std::vector<std::int32_t> left(size(options_.clusters));
    for (const std::int32_t c : cluster) { ++left[size(c)]; }
    std::vector<std::int32_t> farthest(cluster.size());
    std::iota(farthest.begin(), farthest.end(), 0);
    std::stable_sort(farthest.begin(), farthest.end(), [&](std::int32_t a, std::int32_t b) {
      return cosine[size(a)] < cosine[size(b)];
    });
    auto row = farthest.begin();
    for (const std::int32_t c : empty) {
      while (row != farthest.end() && left[size(cluster[size(*row)])] < 2) { ++row; }
      if (row == farthest.end()) { break; }  // more clusters than rows
      --left[size(cluster[size(*row)])];
      cluster[size(*row++)] = c;
    }
    executor_.upload(cluster_.data(), cluster.data(), cluster.size());
    sort();
    return true;
  }

  /// Returns where the members of each cluster begin.
  std::vector<std::int32_t> sort() {
    executor_.synchronize();
    const auto policy = thrust_policy(executor_);
    thrust::copy(policy, cluster_.data(), cluster_.data() + head_.rows, sorted_.data());
    thrust::sequence(policy, members_.data(), members_.data() + head_.rows);
    thrust::stable_sort_by_key(policy, sorted_.data(), sorted_.data() + head_.rows,
                               members_.data());
    const thrust::counting_iterator<std::int32_t> first(0);
    thrust::lower_bound(policy, sorted_.data(), sorted_.data() + head_.rows, first,
                        first + options_.clusters + 1, begin_.data());
    return downloaded(begin_);
  }

  E& executor_;
  kernel::head_weights<Weight> head_;
  clustering_options options_;
  resident<float> inverse_norm_;
  resident<float> gap_;
  resident<float> by_centre_;
  resident<float> by_width_;
  resident<std::int32_t> cluster_;
  resident<float> cosine_;
  resident<std::int32_t> sorted_;
  resident<std::int32_t> members_;
  resident<std::int32_t> begin_;
  resident<std::int32_t> moved_;
  resident<std::uint8_t> open_;
};

}  // namespace detail

/// Clusters the rows of a head by direction: k-means on the sphere, seeded as k-means++. (DynaSpec,
/// arXiv:2510.13847, partitions the vocabulary so.) The same seed gives the same clusters on one
/// kind of executor. Set-up work: it allocates, and waits for the executor.
///
/// \param head in memory of the executor; `row_scale` does not matter for directions, if positive.
/// \throws std::invalid_argument for options out of range.
template <ResidentExecutor E, class Weight>
clustering spherical_kmeans(E& executor, const kernel::head_weights<Weight>& head,
                            const clustering_options& options = {}) {
  if (options.clusters < 1 || options.clusters > head.rows) {
    throw std::invalid_argument(message(
        {"hunch::spherical_kmeans: ", options.clusters, " clusters of ", head.rows, " rows"}));
  }
  if (options.iterations < 1 || (options.largest != 0.0 && !(options.largest >= 1.0))) {
    throw std::invalid_argument(
        "hunch::spherical_kmeans: iterations and largest must be at least 1");
  }
  return detail::kmeans<E, Weight>(executor, head, options).run();
}

}  // namespace hunch
