// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include "resident_models.hpp"
#include "toy_streams.hpp"

/// \file
/// Toy models with hidden states, streams and heads, in loops whose host does not read what a step
/// makes: what is padding stays untouched, and states lie at fixed places.

namespace hunch::test {

/// A toy target with hidden states and streams.
template <class Real = double>
class padded_target {
  using toy = toy_stream_target<Real>;

 public:
  padded_target(toy& target, std::int32_t max_rows, std::int32_t max_streams)
      : target_(&target),
        max_streams_(max_streams),
        logits_(size(max_rows) * size(target.vocab_size())),
        hidden_(size(max_rows) * size(toy_hidden_size)),
        streams_(size(max_rows) * size(max_streams) * size(toy_stream_size)) {}

  class evaluation {
   public:
    explicit evaluation(padded_target& of) : of_(&of) {}
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<Real> logits(std::int32_t i) const { return row(of_->logits_, i, of_->vocab_size()); }
    row_view<float> hidden(std::int32_t i) const { return row(of_->hidden_, i, toy_hidden_size); }
    row_view<float> stream(std::int32_t i, std::int32_t j) const {
      return row(of_->streams_, i * of_->max_streams_ + j, toy_stream_size);
    }

   private:
    template <class T>
    static row_view<T> row(std::vector<T>& of, std::int32_t i, std::int32_t width) {
      require(static_cast<std::size_t>((i + 1) * width) <= of.size(), "a row behind the last");
      return {of.data() + std::ptrdiff_t{i} * width, width};
    }

    padded_target* of_;
  };

  std::int32_t vocab_size() const { return target_->vocab_size(); }

  evaluation evaluate(const rows& padded) {
    rows r = compact_.of(padded);
    r.streams = padded.streams;
    auto of_target = target_->evaluate(r);
    const evaluation out(*this);
    for (std::int32_t i = 0; i < padded.size; ++i) {
      const std::int32_t at = compact_.to[size(i)];
      if (at < 0 || r.wanted[at] == 0) { continue; }
      copy(of_target.logits(at), out.logits(i));
      copy(of_target.hidden(at), out.hidden(i));
      for (std::int32_t j = 0; j < r.streams; ++j) {
        copy(of_target.stream(at, j), out.stream(i, j));
      }
    }
    return out;
  }

  void commit(const kept_rows& padded) noexcept {
    without_padding(padded, [&](const kept_rows& kept) { target_->commit(kept); });
  }

 private:
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  template <class From, class To>
  static void copy(const row_view<From>& from, const row_view<To>& to) {
    std::copy_n(from.data, from.size, to.data);
  }

  toy* target_;
  std::int32_t max_streams_;
  std::vector<Real> logits_;
  std::vector<float> hidden_;
  std::vector<float> streams_;
  compact_rows compact_;
};

/// Toy heads. \tparam Heads toy_heads<Real> or toy_stream_head<Real>.
template <class Heads, class Real = double>
class padded_heads {
 public:
  padded_heads(Heads& heads, std::int32_t max_inputs)
      : heads_(&heads),
        contexts_(static_cast<std::size_t>(max_inputs * heads.heads() * Heads::context_width())) {}

  struct states {
    decltype(std::declval<Heads&>().forward(head_inputs{})) of;
    std::vector<std::int32_t> to;  ///< of each input; -1: padding
    const float* all;
    context_rows contexts() const { return {all, Heads::context_width()}; }
  };

  std::int32_t vocab_size() const { return heads_->vocab_size(); }
  std::int32_t hidden_size() const { return heads_->hidden_size(); }
  std::int32_t heads() const { return heads_->heads(); }
  std::uint64_t head_order() const { return heads_->head_order(); }
  static std::int32_t context_width() { return Heads::context_width(); }

  states forward(const head_inputs& padded) {
    std::vector<const float*> hidden;
    std::vector<token> tokens;
    states out{{}, {}, contexts_.data()};
    for (std::int32_t i = 0; i < padded.size; ++i) {
      const bool there = padded.hidden[i] != nullptr;
      out.to.push_back(there ? static_cast<std::int32_t>(hidden.size()) : -1);
      if (!there) { continue; }
      require(hidden.size() == static_cast<std::size_t>(i), "an input behind padding");
      hidden.push_back(padded.hidden[i]);
      tokens.push_back(padded.tokens[i]);
    }
    if (hidden.empty()) { return out; }
    out.of = heads_->forward({.size = static_cast<std::int32_t>(hidden.size()),
                              .hidden = hidden.data(),
                              .tokens = tokens.data(),
                              .states = padded.states});
    const std::int32_t width = Heads::context_width();
    for (std::int32_t i = 0; i < padded.size; ++i) {
      for (std::int32_t j = 0; j < heads(); ++j) {
        const std::int32_t row = out.to[static_cast<std::size_t>(i)];
        const float* const from = row < 0 ? nullptr : out.of.context(row * heads() + j);
        if (from == nullptr) { continue; }
        std::copy_n(from, width, contexts_.data() + std::ptrdiff_t{i * heads() + j} * width);
      }
    }
    return out;
  }

  void head(const states& s, const head_rows<Real>& padded) {
    std::vector<std::int32_t> row;
    std::vector<shortlist> lists;
    std::vector<row_view<Real>> logits;
    for (std::int32_t i = 0; i < padded.size; ++i) {
      if (padded.row[i] < 0) { continue; }
      require(row.size() == static_cast<std::size_t>(i), "a head row behind padding");
      const std::int32_t input = s.to[static_cast<std::size_t>(padded.row[i] / heads())];
      require(input >= 0, "the head of padding");
      row.push_back(input * heads() + padded.row[i] % heads());
      lists.push_back(padded.lists[i]);
      logits.push_back(padded.logits[i]);
    }
    if (row.empty()) { return; }
    heads_->head(s.of,
                 {static_cast<std::int32_t>(row.size()), row.data(), lists.data(), logits.data()});
  }

 private:
  Heads* heads_;
  std::vector<float> contexts_;
};

}  // namespace hunch::test
