// SPDX-License-Identifier: Apache-2.0

// Spherical k-means, and layouts made of its clusters.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/executor/host.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/trimmed.hpp>
#include <hunch/tools/spherical_kmeans.hpp>
#include <hunch/vocab/layouts.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

/// Rows around a few directions, of any length.
struct cloud {
  std::int32_t rows, width, groups;
  std::vector<float> weights;
  std::vector<std::int32_t> group;

  cloud(std::int32_t r, std::int32_t w, std::int32_t g, double noise, std::uint64_t seed)
      : rows(r), width(w), groups(g) {
    dice random{seed};
    const auto centred = [&] { return random.unit() + random.unit() + random.unit() - 1.5; };
    std::vector<double> centre(static_cast<std::size_t>(g * w));
    for (double& x : centre) { x = centred(); }
    for (std::int32_t i = 0; i < r; ++i) {
      group.push_back(random.below(g));
      const double length = 0.1 + 5.0 * random.unit();
      for (std::int32_t k = 0; k < w; ++k) {
        weights.push_back(static_cast<float>(
            length * (centre[static_cast<std::size_t>(group.back() * w + k)] + noise * centred())));
      }
    }
  }
  kernel::head_weights<float> head() const { return {weights.data(), rows, width}; }
};

std::vector<std::int32_t> sizes_of(const clustering& c) {
  std::vector<std::int32_t> sizes(static_cast<std::size_t>(c.clusters));
  for (const std::int32_t i : c.cluster) { ++sizes[static_cast<std::size_t>(i)]; }
  return sizes;
}

template <class E = executor::host>
clustering clustered(const cloud& of, const clustering_options& options, E executor = {}) {
  return spherical_kmeans(executor, of.head(), options);
}

TEST_CASE("k-means finds directions, whatever the lengths") {
  const cloud of(600, 24, 6, 0.1, 1);
  const clustering found = clustered(of, {.clusters = 6, .seed = 3});
  // The same group, the same cluster.
  std::map<std::int32_t, std::set<std::int32_t>> clusters;
  for (std::size_t i = 0; i < found.cluster.size(); ++i) {
    clusters[of.group[i]].insert(found.cluster[i]);
  }
  std::set<std::int32_t> all;
  for (const auto& [group, of_group] : clusters) {
    CHECK(of_group.size() == 1);
    all.insert(*of_group.begin());
  }
  CHECK(all.size() == 6);
  CHECK(found.mean_cosine() > 0.97);
  CHECK(found.iterations < 20);
}

TEST_CASE("k-means is deterministic for a seed, on any team") {
  const cloud of(700, 20, 30, 0.8, 2);
  const clustering_options options{.clusters = 40, .iterations = 6, .seed = 5};
  const clustering found = clustered(of, options);
  CHECK(clustered(of, options).cluster == found.cluster);
  const clustering by_threads = clustered(of, options, threads{{}, 1, 32});
  CHECK(by_threads.cluster == found.cluster);
  CHECK(by_threads.cosine == found.cosine);
  clustering_options other = options;
  other.seed = 6;
  CHECK(clustered(of, other).cluster != found.cluster);
  // Lanes add in another order: as good, if not the same.
  CHECK(std::abs(clustered(of, options, warps{}).mean_cosine() - found.mean_cosine()) < 0.02);
}

TEST_CASE("each row is in the cluster of the nearest centre") {
  const cloud of(500, 16, 10, 0.7, 7);
  const clustering found = clustered(of, {.clusters = 12, .iterations = 50});
  CHECK(found.iterations < 50);  // so that the centres are the means of what is returned
  std::vector<double> centre(12 * 16);
  const auto direction = [&](std::size_t row, std::size_t k) {
    double squares = 0.0;
    for (std::size_t j = 0; j < 16; ++j) {
      squares += std::pow(static_cast<double>(of.weights[row * 16 + j]), 2);
    }
    return static_cast<double>(of.weights[row * 16 + k]) / std::sqrt(squares);
  };
  for (std::size_t i = 0; i < 500; ++i) {
    for (std::size_t k = 0; k < 16; ++k) {
      centre[static_cast<std::size_t>(found.cluster[i]) * 16 + k] += direction(i, k);
    }
  }
  for (std::size_t i = 0; i < 500; ++i) {
    const auto cosine = [&](std::size_t c) {
      double dot = 0.0;
      double squares = 0.0;
      for (std::size_t k = 0; k < 16; ++k) {
        dot += direction(i, k) * centre[c * 16 + k];
        squares += centre[c * 16 + k] * centre[c * 16 + k];
      }
      return dot / std::sqrt(squares);
    };
    const double own = cosine(static_cast<std::size_t>(found.cluster[i]));
    CHECK(own == doctest::Approx(static_cast<double>(found.cosine[i])).epsilon(1e-4));
    for (std::size_t c = 0; c < 12; ++c) { CHECK(cosine(c) <= own + 1e-5); }
  }
}

TEST_CASE("no cluster is empty, and none too large if they are balanced") {
  // Two directions only, and many clusters: most begin without a row of their own.
  cloud of(90, 8, 2, 0.0, 9);
  for (const std::int32_t clusters : {1, 2, 30, 90}) {
    const std::vector<std::int32_t> sizes = sizes_of(clustered(of, {.clusters = clusters}));
    CHECK(*std::min_element(sizes.begin(), sizes.end()) >= 1);
    CHECK(std::accumulate(sizes.begin(), sizes.end(), 0) == 90);
  }
  const cloud uneven(800, 16, 3, 0.3, 10);
  for (const double largest : {1.0, 1.5, 4.0}) {
    const clustering found = clustered(uneven, {.clusters = 20, .largest = largest});
    const std::vector<std::int32_t> sizes = sizes_of(found);
    CHECK(*std::max_element(sizes.begin(), sizes.end()) <= static_cast<std::int32_t>(40 * largest));
    CHECK(std::accumulate(sizes.begin(), sizes.end(), 0) == 800);
  }
  // Negative control: as it comes, some are larger.
  const std::vector<std::int32_t> sizes = sizes_of(clustered(uneven, {.clusters = 20}));
  CHECK(*std::max_element(sizes.begin(), sizes.end()) > 40);
}

TEST_CASE("rows without a direction are in some cluster") {
  cloud of(64, 8, 4, 0.2, 11);
  std::fill_n(of.weights.begin() + 8, 8, 0.0f);
  std::fill_n(of.weights.begin() + 24, 8, std::numeric_limits<float>::quiet_NaN());
  for (const std::int32_t c : clustered(of, {.clusters = 4}).cluster) { CHECK((c >= 0 && c < 4)); }
  for (const std::int32_t c : clustered(of, {.clusters = 4}, warps{}).cluster) {
    CHECK((c >= 0 && c < 4));
  }
  CHECK_THROWS_AS(clustered(of, {.clusters = 65}), std::invalid_argument);
  CHECK_THROWS_AS(clustered(of, {.clusters = 0}), std::invalid_argument);
  CHECK_THROWS_AS(clustered(of, {.clusters = 4, .largest = 0.5}), std::invalid_argument);
}

TEST_CASE("a clustered layout: the core, then cluster after cluster") {
  const std::vector<std::int32_t> cluster{2, 0, 2, 5, 0, 2, 5};
  const token core[] = {4, 3};
  const vocab_layout layout = clustered_layout(cluster, core);
  CHECK(std::vector<token>(layout.row_token(), layout.row_token() + 7) ==
        std::vector<token>{4, 3, 1, 0, 2, 5, 6});
  CHECK(layout.core_rows() == 2);
  CHECK(layout.clusters() == 3);
  CHECK(std::vector<std::int32_t>(layout.cluster_begin(), layout.cluster_begin() + 4) ==
        std::vector<std::int32_t>{2, 3, 6, 7});
  const std::vector<std::int32_t> expected{-1, -1, 0, 1, 1, 1, 2};
  for (std::int32_t row = 0; row < 7; ++row) {
    CHECK(layout.cluster_of(row) == expected[static_cast<std::size_t>(row)]);
  }
  const token twice[] = {4, 4};
  const token outside[] = {7};
  CHECK_THROWS_AS(clustered_layout(cluster, twice), std::invalid_argument);
  CHECK_THROWS_AS(clustered_layout(cluster, outside), std::invalid_argument);
  const std::vector<std::int32_t> without{0, -1};
  CHECK_THROWS_AS(clustered_layout(without), std::invalid_argument);
  const vocab_layout plain = vocab_layout::identity(5);
  CHECK(plain.clusters() == 0);
  CHECK(plain.cluster_of(3) == -1);
  CHECK(plain.clustered({0, 2, 5}).clusters() == 2);
  CHECK_THROWS_AS(plain.clustered({0, 2, 2, 5}), std::invalid_argument);
  CHECK_THROWS_AS(plain.clustered({0, 4}), std::invalid_argument);
  CHECK_THROWS_AS(plain.clustered({5}), std::invalid_argument);
  CHECK_THROWS_AS(plain.clustered({-1, 5}), std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test
