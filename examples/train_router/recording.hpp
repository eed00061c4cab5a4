// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/selector/oracle.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// What a router learns from: the contexts of positions that were really drafted, and what the
/// target made of them. Two models that look like the ones they wrap, in an ordinary decoder.

namespace train_router {

/// Drafted positions: what the draft model knew, and how much of the target's law each cluster got.
struct recording {
  std::int32_t inputs = 0;
  std::int32_t clusters = 0;
  std::vector<float> contexts;  ///< [size, inputs]
  std::vector<float> masses;    ///< [size, clusters]
  std::vector<std::int32_t> depths;
  /// Sums over the positions: how much of the target's law the first rows of a ranking have, for
  /// each number of rows that the recorder was asked for.
  std::vector<double> first_rows;

  std::size_t size() const { return depths.size(); }
  const float* context(std::size_t i) const {
    return contexts.data() + i * static_cast<std::size_t>(inputs);
  }
  const float* mass(std::size_t i) const {
    return masses.data() + i * static_cast<std::size_t>(clusters);
  }
};

/// What both models share: contexts of a step that the target has not come to yet.
class recorder {
 public:
  /// The layout must outlive it.
  recorder(const hunch::vocab_layout& layout, std::int32_t inputs, std::int32_t max_batch)
      : layout_(layout), pending_(static_cast<std::size_t>(max_batch)) {
    taken.inputs = inputs;
    taken.clusters = layout.clusters();
  }

  recording taken;

  /// Also notes what the first rows of a ranking have of every law, for these numbers of rows,
  /// ascending. The ranking must outlive it.
  void rank(const hunch::vocab_layout& ranking, std::vector<std::int32_t> rows) {
    ranking_ = &ranking;
    rows_ = std::move(rows);
    taken.first_rows.assign(rows_.size(), 0.0);
  }

  void begin_step(std::int32_t slot) { pending_[static_cast<std::size_t>(slot)].clear(); }
  /// The context of the next node of a chain.
  void note(std::int32_t slot, const float* context) {
    auto& waiting = pending_[static_cast<std::size_t>(slot)];
    waiting.insert(waiting.end(), context, context + taken.inputs);
  }
  /// The target's logits at the node of number `depth` of the chain.
  void take(std::int32_t slot, std::int32_t depth, hunch::row_view<const float> logits) {
    auto& waiting = pending_[static_cast<std::size_t>(slot)];
    const std::size_t from =
        static_cast<std::size_t>(depth) * static_cast<std::size_t>(taken.inputs);
    if (from + static_cast<std::size_t>(taken.inputs) > waiting.size()) { return; }
    taken.contexts.insert(taken.contexts.end(), waiting.begin() + static_cast<std::ptrdiff_t>(from),
                          waiting.begin() + static_cast<std::ptrdiff_t>(from) + taken.inputs);
    taken.depths.push_back(depth);
    taken.masses.resize(taken.size() * static_cast<std::size_t>(taken.clusters));
    float* const mass =
        taken.masses.data() + (taken.size() - 1) * static_cast<std::size_t>(taken.clusters);
    hunch::team::serial team;
    hunch::cluster_masses(
        hunch::kernel::unrestricted(team, logits, hunch::kernel::scale_at_one<float>,
                                    hunch::status::invalid_logits),
        layout_, mass);
    if (ranking_ != nullptr) { take_first_rows(logits); }
  }

 private:
  void take_first_rows(hunch::row_view<const float> logits) {
    const float top = *std::max_element(logits.data, logits.data + logits.size);
    double total = 0.0;
    probabilities_.resize(static_cast<std::size_t>(logits.size));
    for (std::int32_t t = 0; t < logits.size; ++t) {
      probabilities_[static_cast<std::size_t>(t)] =
          std::exp(static_cast<double>(logits[t]) - static_cast<double>(top));
      total += probabilities_[static_cast<std::size_t>(t)];
    }
    double held = 0.0;
    std::int32_t row = 0;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      for (; row < std::min(rows_[k], ranking_->head_rows()); ++row) {
        const hunch::token t = ranking_->row_token() == nullptr ? row : ranking_->row_token()[row];
        held += probabilities_[static_cast<std::size_t>(t)];
      }
      taken.first_rows[k] += held / total;
    }
  }

  const hunch::vocab_layout& layout_;
  std::vector<std::vector<float>> pending_;
  const hunch::vocab_layout* ranking_ = nullptr;
  std::vector<std::int32_t> rows_;
  std::vector<double> probabilities_;
};

/// The draft model, and notes of what it knew where it drafted.
template <hunch::RoutedModel Model>
class recorded_draft {
 public:
  static constexpr bool lends_for_a_pass = hunch::lends_for_a_pass<Model>;
  static constexpr bool rereads_accepted = hunch::rereads_accepted<Model>;

  recorded_draft(Model& model, recorder& to) : model_(&model), to_(&to) {}

  std::int32_t vocab_size() const { return model_->vocab_size(); }
  std::uint64_t head_order() const { return model_->head_order(); }

  auto forward(const hunch::rows& r) {
    slots_.assign(r.slot, r.slot + r.size);
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.id[i] == 0) { to_->begin_step(r.slot[i]); }
    }
    return model_->forward(r);
  }
  template <class Hidden>
  void head(Hidden& hidden, const hunch::head_rows<float>& rows) {
    for (std::int32_t i = 0; i < rows.size; ++i) {
      to_->note(slots_[static_cast<std::size_t>(rows.row[i])], hidden.context(rows.row[i]));
    }
    model_->head(hidden, rows);
  }
  void commit(const hunch::kept_rows& kept) noexcept { model_->commit(kept); }

 private:
  Model* model_;
  recorder* to_;
  std::vector<std::int32_t> slots_;
};

/// The target, and notes of its laws.
template <hunch::TargetModel Model>
class recorded_target {
 public:
  recorded_target(Model& model, recorder& to) : model_(&model), to_(&to) {}

  std::int32_t vocab_size() const { return model_->vocab_size(); }

  auto evaluate(const hunch::rows& r) {
    auto evaluation = model_->evaluate(r);
    std::int32_t depth = 0;
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (i == 0 || r.slot[i] != r.slot[i - 1]) { depth = 0; }
      if (r.wanted[i] == 0) { continue; }
      if (evaluation.status(i) == hunch::status::ok) {
        const auto logits = evaluation.logits(i);
        to_->take(r.slot[i], depth, {logits.data, logits.size});
      }
      ++depth;
    }
    return evaluation;
  }
  void commit(const hunch::kept_rows& kept) noexcept { model_->commit(kept); }

 private:
  Model* model_;
  recorder* to_;
};

}  // namespace train_router
