// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include "toy_model.hpp"
#include "toy_world.hpp"

namespace hunch::test {

/// The rows of a pass without the padding, for models that check that there is none.
class compact_rows {
 public:
  /// Where each given row went, -1 for padding.
  std::vector<std::int32_t> to;

  rows of(const rows& padded) {
    to.assign(static_cast<std::size_t>(padded.size), -1);
    std::int32_t size = 0;
    for (auto* v : {&sequence_, &id_, &parent_, &position_, &tokens_}) { v->clear(); }
    wanted_.clear();
    for (std::int32_t i = 0; i < padded.size; ++i) {
      if (padded.slot[i] == no_slot) { continue; }
      require(size == i, "a row behind padding");
      to[static_cast<std::size_t>(i)] = size++;
      sequence_.push_back(padded.slot[i]);
      id_.push_back(padded.id[i]);
      parent_.push_back(padded.parent[i]);
      position_.push_back(padded.position[i]);
      tokens_.push_back(padded.tokens[i]);
      wanted_.push_back(padded.wanted[i]);
    }
    return {size,           sequence_.data(), id_.data(), parent_.data(), position_.data(),
            tokens_.data(), wanted_.data()};
  }

 private:
  std::vector<std::int32_t> sequence_, id_, parent_, position_;
  std::vector<token> tokens_;
  std::vector<std::uint8_t> wanted_;
};

/// Calls commit(kept) without the padding. Allocates; it is a test.
template <class Commit>
void without_padding(const kept_rows& padded, Commit&& commit) noexcept {
  std::vector<std::int32_t> sequence, id, released;
  for (std::int32_t i = 0; i < padded.size; ++i) {
    if (padded.slot[i] == no_slot) { continue; }
    require(sequence.size() == static_cast<std::size_t>(i), "a kept row behind padding");
    sequence.push_back(padded.slot[i]);
    id.push_back(padded.id[i]);
  }
  for (std::int32_t i = 0; i < padded.release_count; ++i) {
    if (padded.released[i] == no_slot) { continue; }
    require(released.size() == static_cast<std::size_t>(i), "a free slot behind padding");
    released.push_back(padded.released[i]);
  }
  commit(kept_rows{static_cast<std::int32_t>(sequence.size()), sequence.data(), id.data(),
                   static_cast<std::int32_t>(released.size()), released.data()});
}

/// A toy target for resident loops: padded rows, logits at fixed places.
template <class Real, class Target = toy_target<Real>>
class resident_target {
 public:
  /// \param max_rows of a step.
  resident_target(Target& target, std::int32_t max_rows)
      : target_(&target),
        logits_(static_cast<std::size_t>(max_rows) *
                static_cast<std::size_t>(target.vocab_size())) {}

  struct evaluation {
    resident_target* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<Real> logits(std::int32_t i) const {
      const std::int32_t vocab = of->vocab_size();
      return {of->logits_.data() + static_cast<std::ptrdiff_t>(i) * vocab, vocab};
    }
  };

  std::int32_t vocab_size() const { return target_->vocab_size(); }

  evaluation evaluate(const rows& padded) {
    const rows r = compact_.of(padded);
    auto of_target = target_->evaluate(r);
    for (std::int32_t i = 0; i < padded.size; ++i) {
      const std::int32_t at = compact_.to[static_cast<std::size_t>(i)];
      if (at < 0 || r.wanted[at] == 0) { continue; }
      require(of_target.status(at) == hunch::status::ok, "a row without room in a resident loop");
      const row_view<Real> row = of_target.logits(at);
      std::copy_n(row.data, row.size, evaluation{this}.logits(i).data);
    }
    return {this};
  }

  void commit(const kept_rows& padded) noexcept {
    without_padding(padded, [&](const kept_rows& kept) { target_->commit(kept); });
  }

 private:
  Target* target_;
  std::vector<Real> logits_;
  compact_rows compact_;
};

/// A toy draft model for resident loops. \tparam Draft toy_draft<Real> or what is one.
/// \tparam Early whether routers run beside a pass.
template <class Real, class Draft = toy_draft<Real>, bool Early = true>
class resident_draft {
  static constexpr std::int32_t max_rows = 1024;

 public:
  static constexpr bool rereads_accepted = hunch::rereads_accepted<Draft>;
  static constexpr bool shares_target_cache = hunch::shares_target_cache<Draft>;

  explicit resident_draft(Draft& draft)
      : draft_(&draft), contexts_(static_cast<std::size_t>(max_rows * toy_context_size)) {}

  struct hidden_states {
    const resident_draft* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    context_rows contexts() const requires(!Early) {
      return {of->contexts_.data(), toy_context_size};
    }
  };

  std::int32_t vocab_size() const { return draft_->vocab_size(); }
  std::uint64_t head_order() const { return draft_->head_order(); }
  static std::int32_t context_width() { return toy_context_size; }

  /// The pass is made here: what a toy router reads depends on the row's token.
  context_rows contexts(const rows& padded) requires Early {
    require(!has_contexts_, "contexts are asked for twice");
    pass(padded);
    has_contexts_ = true;
    return {contexts_.data(), toy_context_size};
  }

  hidden_states forward(const rows& padded) {
    if (!has_contexts_) { pass(padded); }
    has_contexts_ = false;
    return {this};
  }

  void head(const hidden_states&, const head_rows<Real>& h) {
    std::vector<std::int32_t> row;
    std::vector<shortlist> lists;
    std::vector<row_view<Real>> logits;
    for (std::int32_t i = 0; i < h.size; ++i) {
      if (h.row[i] < 0) { continue; }
      require(row.size() == static_cast<std::size_t>(i), "a head row behind padding");
      row.push_back(compact_.to[static_cast<std::size_t>(h.row[i])]);
      require(row.back() >= 0, "the head of a row of padding");
      lists.push_back(h.lists[i]);
      logits.push_back(h.logits[i]);
    }
    if (row.empty()) { return; }
    draft_->head(typename Draft::hidden_states(*draft_),
                 {static_cast<std::int32_t>(row.size()), row.data(), lists.data(), logits.data()});
  }

  void commit(const kept_rows& padded) noexcept {
    without_padding(padded, [&](const kept_rows& kept) { draft_->commit(kept); });
  }

 private:
  void pass(const rows& padded) {
    const rows r = compact_.of(padded);
    if (r.size > 0) { draft_->forward(r); }
    for (std::int32_t i = 0; i < padded.size; ++i) {
      const std::int32_t at = compact_.to[static_cast<std::size_t>(i)];
      if (at < 0 || padded.wanted[i] == 0) { continue; }
      std::copy_n(typename Draft::hidden_states(*draft_).context(at), toy_context_size,
                  contexts_.data() + static_cast<std::ptrdiff_t>(i) * toy_context_size);
    }
  }

  Draft* draft_;
  std::vector<float> contexts_;
  compact_rows compact_;
  bool has_contexts_ = false;
};

}  // namespace hunch::test
