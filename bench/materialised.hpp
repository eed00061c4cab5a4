// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/arithmetic.hpp>

/// \file
/// Chain rejection as it is usually built: soft-max both sides into probability matrices, test,
/// write the residual, search its prefix sums. Its loops vectorise as well as the library's and use
/// the same exponential; memory is allocated once. And the same in plain scalar code.

namespace bench {

/// The outcome of a chain: accepted drafts, and the token after them.
struct chain_outcome {
  std::int32_t accepted = 0;
  std::int32_t next = -1;
};

class materialised_chain {
 public:
  materialised_chain(std::int32_t length, std::int32_t vocab)
      : length_(length),
        vocab_(static_cast<std::size_t>(vocab)),
        p_(static_cast<std::size_t>(length + 1) * vocab_),
        q_(static_cast<std::size_t>(length) * vocab_),
        residual_(vocab_) {}

  /// \param p [length + 1, vocab] and \param q [length, vocab] logits; \param accept [length] and
  /// \param last uniforms.
  chain_outcome operator()(const float* p, const float* q, const std::int32_t* drafted,
                           const double* accept, double last) {
    for (std::int32_t i = 0; i <= length_; ++i) { soft_max(row(p, i), row(p_.data(), i)); }
    for (std::int32_t i = 0; i < length_; ++i) { soft_max(row(q, i), row(q_.data(), i)); }
    for (std::int32_t i = 0; i < length_; ++i) {
      const float* const p_i = row(p_.data(), i);
      const float* const q_i = row(q_.data(), i);
      const std::int32_t x = drafted[i];
      if (accept[i] * static_cast<double>(q_i[x]) < static_cast<double>(p_i[x])) { continue; }
      for (std::size_t v = 0; v < vocab_; ++v) {
        const float rest = p_i[v] - q_i[v];
        residual_[v] = rest > 0.0f ? rest : 0.0f;
      }
      return {i, search(residual_.data(), last)};
    }
    return {length_, search(row(p_.data(), length_), last)};
  }

 private:
  template <class T>
  T* row(T* first, std::int32_t i) const {
    return first + static_cast<std::size_t>(i) * vocab_;
  }

  static constexpr std::size_t lanes = 64;

  void soft_max(const float* logits, float* out) const {
    using keys = hunch::kernel::order<float>;
    std::int32_t top[lanes];
    float sums[lanes] = {};
    for (auto& t : top) { t = keys::minus_infinity; }
    for (std::size_t base = 0; base + lanes <= vocab_; base += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) {
        const std::int32_t k = keys::of(logits[base + l]);
        top[l] = k > top[l] ? k : top[l];
      }
    }
    std::int32_t highest = top[0];
    for (const std::int32_t t : top) { highest = t > highest ? t : highest; }
    const float maximum = keys::value(highest);
    for (std::size_t base = 0; base + lanes <= vocab_; base += lanes) {
      for (std::size_t l = 0; l < lanes; ++l) {
        const float w = hunch::kernel::exp2_product(logits[base + l] - maximum, 1.44269504f);
        out[base + l] = w;
        sums[l] += w;
      }
    }
    double sum = 0.0;
    for (const float s : sums) { sum += static_cast<double>(s); }
    const auto norm = static_cast<float>(1.0 / sum);
    for (std::size_t v = 0; v < vocab_; ++v) { out[v] *= norm; }
  }

  /// The token at which the prefix sums pass the uniform share of the whole; a block at a time.
  std::int32_t search(const float* weights, double u) const {
    constexpr std::size_t block = 4096;
    std::vector<double>& blocks = blocks_;
    blocks.clear();
    double total = 0.0;
    for (std::size_t base = 0; base < vocab_; base += block) {
      const std::size_t end = base + block < vocab_ ? base + block : vocab_;
      float sums[lanes] = {};
      for (std::size_t v = base; v + lanes <= end; v += lanes) {
        for (std::size_t l = 0; l < lanes; ++l) { sums[l] += weights[v + l]; }
      }
      double sum = 0.0;
      for (const float s : sums) { sum += static_cast<double>(s); }
      blocks.push_back(sum);
      total += sum;
    }
    double left = u * total;
    std::size_t b = 0;
    while (b + 1 < blocks.size() && left >= blocks[b]) { left -= blocks[b++]; }
    std::size_t v = b * block;
    for (; v + 1 < vocab_ && left >= static_cast<double>(weights[v]); ++v) {
      left -= static_cast<double>(weights[v]);
    }
    return static_cast<std::int32_t>(v);
  }

  std::int32_t length_;
  std::size_t vocab_;  ///< a multiple of `lanes`
  std::vector<float> p_, q_, residual_;
  mutable std::vector<double> blocks_;
};

/// The same, one element after the other and with the exponential of the standard library.
class naive_chain {
 public:
  naive_chain(std::int32_t length, std::int32_t vocab)
      : length_(length), vocab_(static_cast<std::size_t>(vocab)) {}

  chain_outcome operator()(const float* p, const float* q, const std::int32_t* drafted,
                           const double* accept, double last) const {
    std::vector<std::vector<double>> ps, qs;
    for (std::int32_t i = 0; i <= length_; ++i) { ps.push_back(soft_max(p, i)); }
    for (std::int32_t i = 0; i < length_; ++i) { qs.push_back(soft_max(q, i)); }
    for (std::size_t i = 0; i < qs.size(); ++i) {
      const auto x = static_cast<std::size_t>(drafted[i]);
      if (accept[i] * qs[i][x] < ps[i][x]) { continue; }
      std::vector<double> rest(vocab_);
      for (std::size_t v = 0; v < vocab_; ++v) {
        rest[v] = ps[i][v] > qs[i][v] ? ps[i][v] - qs[i][v] : 0.0;
      }
      return {static_cast<std::int32_t>(i), search(rest, last)};
    }
    return {length_, search(ps.back(), last)};
  }

 private:
  std::vector<double> soft_max(const float* rows, std::int32_t i) const {
    const float* const logits = rows + static_cast<std::size_t>(i) * vocab_;
    double maximum = static_cast<double>(logits[0]);
    for (std::size_t v = 0; v < vocab_; ++v) {
      if (static_cast<double>(logits[v]) > maximum) { maximum = static_cast<double>(logits[v]); }
    }
    std::vector<double> out(vocab_);
    double sum = 0.0;
    for (std::size_t v = 0; v < vocab_; ++v) {
      sum += out[v] = std::exp(static_cast<double>(logits[v]) - maximum);
    }
    for (double& x : out) { x /= sum; }
    return out;
  }

  static std::int32_t search(const std::vector<double>& weights, double u) {
    double total = 0.0;
    for (const double w : weights) { total += w; }
    double left = u * total;
    std::size_t v = 0;
    for (; v + 1 < weights.size() && left >= weights[v]; ++v) { left -= weights[v]; }
    return static_cast<std::int32_t>(v);
  }

  std::int32_t length_;
  std::size_t vocab_;
};

}  // namespace bench
