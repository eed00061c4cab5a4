// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <hunch/tools/router_weights.hpp>

#include "train_router/recording.hpp"

namespace train_router {

/// What the label of a cluster is.
enum class labels {
  mass,  ///< what the target's law gives to all of its tokens; cross-entropy
  top,   ///< whether it is among the most probable; one cross-entropy for each cluster
};

struct training_options {
  labels kind = labels::mass;
  std::int32_t top = 8;  ///< clusters that are labels of `labels::top`
  std::int32_t width = 128;
  std::int32_t epochs = 6;
  std::int32_t batch = 64;
  float rate = 0.002f;
  std::uint64_t seed = 0;
};

/// Trains a router of two layers by Adam, with a rate that falls to 0.
class trainer {
 public:
  trainer(const recording& from, const training_options& options)
      : from_(from),
        options_(options),
        weights_(hunch::router::weights::sized(from.inputs, options.width, from.clusters)),
        gradient_(weights_),
        first_moment_(weights_),
        second_moment_(weights_),
        hidden_(static_cast<std::size_t>(options.width)),
        hidden_gradient_(hidden_.size()),
        scores_(static_cast<std::size_t>(from.clusters)) {
    std::mt19937_64 random(options.seed);
    const auto fill = [&](std::vector<float>& w, std::int32_t inputs) {
      std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(static_cast<float>(inputs)));
      for (float& x : w) { x = normal(random); }
    };
    fill(weights_.first, from.inputs);
    fill(weights_.second, options.width);
  }

  /// Calls epoch(number, mean loss) after each.
  template <class Epoch>
  hunch::router::weights run(Epoch&& epoch) {
    std::vector<std::size_t> order(from_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::mt19937_64 random(options_.seed + 1);
    const std::size_t per_epoch = from_.size() / static_cast<std::size_t>(options_.batch);
    const auto steps = static_cast<double>(per_epoch) * options_.epochs;
    std::int64_t step = 0;
    for (std::int32_t e = 0; e < options_.epochs; ++e) {
      std::shuffle(order.begin(), order.end(), random);
      double loss = 0.0;
      for (std::size_t b = 0; b < per_epoch; ++b) {
        for (std::int32_t i = 0; i < options_.batch; ++i) {
          loss += add_gradient(
              order[b * static_cast<std::size_t>(options_.batch) + static_cast<std::size_t>(i)]);
        }
        ++step;
        const double left = 1.0 - static_cast<double>(step) / (steps + 1.0);
        update(step, options_.rate * static_cast<float>(left));
      }
      epoch(e, loss / static_cast<double>(std::max<std::size_t>(1, per_epoch) *
                                          static_cast<std::size_t>(options_.batch)));
    }
    return weights_;
  }

 private:
  /// The loss at a recorded position; its gradient is added to what is there.
  double add_gradient(std::size_t at) {
    const float* const x = from_.context(at);
    const float* const mass = from_.mass(at);
    const auto inputs = static_cast<std::size_t>(from_.inputs);
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      const float sum = dot(weights_.first.data() + i * inputs, x, inputs) + weights_.first_bias[i];
      hidden_[i] = std::max(sum, 0.0f);
    }
    for (std::size_t c = 0; c < scores_.size(); ++c) {
      scores_[c] =
          dot(weights_.second.data() + c * hidden_.size(), hidden_.data(), hidden_.size()) +
          weights_.second_bias[c];
    }
    const double loss =
        options_.kind == labels::mass ? to_mass_gradient(mass) : to_top_gradient(mass);
    std::fill(hidden_gradient_.begin(), hidden_gradient_.end(), 0.0f);
    for (std::size_t c = 0; c < scores_.size(); ++c) {
      add(gradient_.second.data() + c * hidden_.size(), hidden_.data(), scores_[c], hidden_.size());
      add(hidden_gradient_.data(), weights_.second.data() + c * hidden_.size(), scores_[c],
          hidden_.size());
      gradient_.second_bias[c] += scores_[c];
    }
    for (std::size_t i = 0; i < hidden_.size(); ++i) {
      if (hidden_[i] <= 0.0f) { continue; }
      add(gradient_.first.data() + i * inputs, x, hidden_gradient_[i], inputs);
      gradient_.first_bias[i] += hidden_gradient_[i];
    }
    return loss;
  }

  /// scores_ become the gradient of -sum mass log softmax(scores).
  double to_mass_gradient(const float* mass) {
    const float top = *std::max_element(scores_.begin(), scores_.end());
    double total = 0.0;
    double all = 0.0;
    double agreed = 0.0;
    for (std::size_t c = 0; c < scores_.size(); ++c) {
      total += std::exp(static_cast<double>(scores_[c] - top));
      all += static_cast<double>(mass[c]);
      agreed += static_cast<double>(mass[c]) * static_cast<double>(scores_[c] - top);
    }
    for (std::size_t c = 0; c < scores_.size(); ++c) {
      const double p = std::exp(static_cast<double>(scores_[c] - top)) / total;
      scores_[c] = static_cast<float>(all * p) - mass[c];
    }
    return all * std::log(total) - agreed;
  }

  /// The same for a cross-entropy of each cluster being among the most probable.
  double to_top_gradient(const float* mass) {
    std::vector<float> sorted(mass, mass + scores_.size());
    const auto k = std::min<std::size_t>(static_cast<std::size_t>(options_.top), sorted.size()) - 1;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k), sorted.end(),
                     std::greater<>());
    double loss = 0.0;
    for (std::size_t c = 0; c < scores_.size(); ++c) {
      const float label = mass[c] >= sorted[k] && mass[c] > 0.0f ? 1.0f : 0.0f;
      const auto s = static_cast<double>(scores_[c]);
      loss +=
          std::max(s, 0.0) - s * static_cast<double>(label) + std::log1p(std::exp(-std::abs(s)));
      scores_[c] = static_cast<float>(1.0 / (1.0 + std::exp(-s))) - label;
    }
    return loss;
  }

  static float dot(const float* a, const float* b, std::size_t n) {
    float lane[16] = {};
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (std::size_t l = 0; l < 16; ++l) { lane[l] += a[i + l] * b[i + l]; }
    }
    for (; i < n; ++i) { lane[0] += a[i] * b[i]; }
    return std::accumulate(lane, lane + 16, 0.0f);
  }
  static void add(float* to, const float* from, float factor, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) { to[i] += factor * from[i]; }
  }

  void update(std::int64_t step, float rate) {
    constexpr float keep_first = 0.9f;
    constexpr float keep_second = 0.98f;
    const float first_share = 1.0f - std::pow(keep_first, static_cast<float>(step));
    const float second_share = 1.0f - std::pow(keep_second, static_cast<float>(step));
    const auto of = [&](std::vector<float>& w, std::vector<float>& g, std::vector<float>& m,
                        std::vector<float>& v) {
      for (std::size_t i = 0; i < w.size(); ++i) {
        const float mean = g[i] / static_cast<float>(options_.batch);
        m[i] += (1.0f - keep_first) * (mean - m[i]);
        v[i] += (1.0f - keep_second) * (mean * mean - v[i]);
        w[i] -= rate * (m[i] / first_share) / (std::sqrt(v[i] / second_share) + 1e-8f);
        g[i] = 0.0f;
      }
    };
    of(weights_.first, gradient_.first, first_moment_.first, second_moment_.first);
    of(weights_.first_bias, gradient_.first_bias, first_moment_.first_bias,
       second_moment_.first_bias);
    of(weights_.second, gradient_.second, first_moment_.second, second_moment_.second);
    of(weights_.second_bias, gradient_.second_bias, first_moment_.second_bias,
       second_moment_.second_bias);
  }

  const recording& from_;
  training_options options_;
  hunch::router::weights weights_;
  hunch::router::weights gradient_;
  hunch::router::weights first_moment_;
  hunch::router::weights second_moment_;
  std::vector<float> hidden_;
  std::vector<float> hidden_gradient_;
  std::vector<float> scores_;
};

}  // namespace train_router
