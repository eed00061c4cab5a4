// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "hash.hpp"
#include "toy_world.hpp"

namespace hunch::test {

/// A model was used against its contract.
struct broken_contract : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool condition, const char* what) {
  if (!condition) { throw broken_contract(what); }
}

/// What a test makes a model throw.
struct planned_failure : std::runtime_error {
  planned_failure() : std::runtime_error("planned failure") {}
};

/// Throws at the call of a given number, counted over all calls of the models that share it.
struct failure_plan {
  std::int64_t calls = 0;
  std::int64_t fail_at = -1;

  void call() {
    if (calls++ == fail_at) { throw planned_failure(); }
  }
};

/// Turns chosen rows bad, by the hash of the text that the row has read.
using row_editor = void (*)(std::uint64_t text, std::int32_t vocab, double* row);

/// The caches and staged rows of a toy model. It checks every word of the contract of `rows` and
/// `kept_rows`; what a noexcept commit finds wrong is thrown by the next pass, or by `check`.
class toy_cache {
 public:
  explicit toy_cache(std::int32_t vocab, std::int32_t capacity)
      : vocab_(vocab), capacity_(capacity) {}

  struct staged_row {
    token t;
    std::int32_t parent;
    std::int32_t position;
    std::uint64_t text;
  };
  struct sequence {
    std::vector<token> tokens;  ///< in the cache
    std::uint64_t text = 0;     ///< their hash
    std::vector<staged_row> staged;
  };

  /// Stages the rows of one pass; `texts` gets the hash of each row's text, `statuses` whether the
  /// row had room.
  void stage(const rows& r, std::vector<std::uint64_t>& texts, std::vector<status>& statuses) {
    check();
    texts.assign(static_cast<std::size_t>(r.size), 0);
    statuses.assign(static_cast<std::size_t>(r.size), status::ok);
    std::vector<std::int32_t> seen;
    for (std::int32_t i = 0; i < r.size; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const bool begins = i == 0 || r.slot[i] != r.slot[i - 1];
      if (begins) {
        for (const std::int32_t s : seen) {
          require(s != r.slot[i], "the rows of a sequence are not adjacent");
        }
        seen.push_back(r.slot[i]);
      }
      require(r.slot[i] >= 0, "a negative slot");
      require(r.tokens[i] >= 0 && r.tokens[i] < vocab_, "a token outside the vocabulary");
      sequence& s = at(r.slot[i]);
      if (r.id[i] == 0) { s.staged.clear(); }
      if (!begins && statuses[index - 1] == status::cache_full) {
        statuses[index] = status::cache_full;
        continue;
      }
      require(r.id[i] == static_cast<std::int32_t>(s.staged.size()),
              "staged ids do not count up from 0");
      require(begins || r.id[i] == r.id[i - 1] + 1, "staged ids do not ascend");
      const std::int32_t parent = r.parent[i];
      require(parent == end_of_cache || (parent >= 0 && parent < r.id[i]),
              "a parent that is not staged before its child");
      const std::int32_t position = parent == end_of_cache
                                        ? static_cast<std::int32_t>(s.tokens.size())
                                        : s.staged[static_cast<std::size_t>(parent)].position + 1;
      require(r.position[i] == position || trusting, "a wrong position");
      if (static_cast<std::int32_t>(s.tokens.size() + s.staged.size()) >= capacity_) {
        statuses[index] = status::cache_full;
        continue;
      }
      const bool forgotten = forgets_catch_up && !begins && r.id[i] == 1 && !s.tokens.empty();
      const std::uint64_t before = parent == end_of_cache || forgotten
                                       ? s.text
                                       : s.staged[static_cast<std::size_t>(parent)].text;
      texts[index] = extend(before, r.tokens[i]);
      s.staged.push_back({r.tokens[i], parent, position, texts[index]});
    }
  }

  void commit(const kept_rows& kept) noexcept {
    std::int32_t last_sequence = -1;
    std::int32_t last_id = end_of_cache;
    for (std::int32_t i = 0; i < kept.size; ++i) {
      if (kept.slot[i] != last_sequence) { last_id = end_of_cache; }
      last_sequence = kept.slot[i];
      sequence& s = at(last_sequence);
      if (kept.id[i] < 0 || kept.id[i] >= static_cast<std::int32_t>(s.staged.size())) {
        broken_ = "a row was kept that is not staged";
        return;
      }
      const staged_row& row = s.staged[static_cast<std::size_t>(kept.id[i])];
      if (row.parent != last_id) { broken_ = "kept rows are not a path"; }
      if (row.position != static_cast<std::int32_t>(s.tokens.size()) && !trusting) {
        broken_ = "a row was kept out of order";
      }
      s.tokens.push_back(row.t);
      s.text = extend(s.text, row.t);
      last_id = kept.id[i];
    }
    for (std::int32_t i = 0; i < kept.size; ++i) { at(kept.slot[i]).staged.clear(); }
    for (std::int32_t i = 0; i < kept.release_count; ++i) { at(kept.released[i]) = {}; }
  }

  void check() const {
    if (broken_ != nullptr) { throw broken_contract(broken_); }
  }

  const std::vector<token>& tokens(std::int32_t slot) { return at(slot).tokens; }
  std::uint64_t text(std::int32_t slot) { return at(slot).text; }
  std::size_t staged(std::int32_t slot) { return at(slot).staged.size(); }

  // For wrong models that must be caught by what they do to the text.
  bool trusting = false;          ///< positions are not checked
  bool forgets_catch_up = false;  ///< of two tokens to catch up with, the first is not read

 private:
  sequence& at(std::int32_t slot) {
    const auto index = static_cast<std::size_t>(slot);
    if (index >= sequences_.size()) { sequences_.resize(index + 1); }
    return sequences_[index];
  }

  std::int32_t vocab_;
  std::int32_t capacity_;
  const char* broken_ = nullptr;
  std::vector<sequence> sequences_;
};

inline constexpr std::int32_t no_limit = std::numeric_limits<std::int32_t>::max();

/// Elements after the end of every toy row, filled with NaN: reading one shows in the law.
inline constexpr std::int32_t row_padding = 3;

/// A target over a toy world.
template <class Real = double>
class toy_target {
 public:
  explicit toy_target(toy_world world, std::int32_t capacity = no_limit)
      : world_(world), cache_(world.vocab, capacity) {}

  class evaluation {
   public:
    explicit evaluation(toy_target& of) : of_(&of) {}

    hunch::status status(std::int32_t i) const {
      return of_->statuses_[static_cast<std::size_t>(i)];
    }
    row_view<Real> logits(std::int32_t i) const {
      require(of_->wanted_[static_cast<std::size_t>(i)] == 1,
              "logits of a row that was not wanted");
      require(status(i) == hunch::status::ok, "logits of a row that failed");
      return {of_->logits_.data() + i * (of_->world_.vocab + row_padding), of_->world_.vocab};
    }

   private:
    toy_target* of_;
  };

  std::int32_t vocab_size() const { return world_.vocab; }

  evaluation evaluate(const rows& r) {
    if (failures != nullptr) { failures->call(); }
    cache_.stage(r, texts_, statuses_);
    wanted_.assign(r.wanted, r.wanted + r.size);
    const std::int32_t stride = world_.vocab + row_padding;
    logits_.assign(static_cast<std::size_t>(r.size) * static_cast<std::size_t>(stride),
                   std::numeric_limits<Real>::quiet_NaN());
    for (std::int32_t i = 0; i < r.size; ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (wanted_[index] == 0 || statuses_[index] != status::ok) { continue; }
      Real* row = logits_.data() + i * stride;
      world_.logits(texts_[index], row);
      if constexpr (std::is_same_v<Real, double>) {
        if (edit != nullptr) { edit(texts_[index], world_.vocab, row); }
      }
    }
    ++passes;
    return evaluation(*this);
  }

  void commit(const kept_rows& kept) noexcept { cache_.commit(kept); }

  const toy_world& world() const { return world_; }
  toy_cache& cache() { return cache_; }
  /// The hashes of what the rows of the last pass have read.
  const std::vector<std::uint64_t>& texts() const { return texts_; }

  failure_plan* failures = nullptr;
  row_editor edit = nullptr;
  std::int64_t passes = 0;

 private:
  toy_world world_;
  toy_cache cache_;
  std::vector<std::uint64_t> texts_;
  std::vector<hunch::status> statuses_;
  std::vector<std::uint8_t> wanted_;
  std::vector<Real> logits_;
};

/// A draft model over a toy world, its head in the order of a layout.
template <class Real = double>
class toy_draft {
 public:
  explicit toy_draft(toy_world world, std::int32_t capacity = no_limit)
      : toy_draft(world, vocab_layout::identity(world.vocab).order(), capacity) {}
  toy_draft(toy_world world, const vocab_layout& layout, std::int32_t capacity = no_limit)
      : toy_draft(world, layout.order(), capacity) {}

  class hidden_states {
   public:
    explicit hidden_states(toy_draft& of) : of_(&of) {}
    hunch::status status(std::int32_t i) const {
      return of_->statuses_[static_cast<std::size_t>(i)];
    }
    const float* context(std::int32_t i) {
      const auto row = static_cast<std::size_t>(i);
      require(row < of_->wanted_.size() && of_->wanted_[row] == 1, "the context of no wanted row");
      float* const out = of_->contexts_.data() + row * static_cast<std::size_t>(toy_context_size);
      toy_context(of_->texts_[row], out);
      return out;
    }

   private:
    toy_draft* of_;
  };

  std::int32_t vocab_size() const { return world_.vocab; }
  std::uint64_t head_order() const { return order_; }
  static std::int32_t context_width() { return toy_context_size; }

  hidden_states forward(const rows& r) {
    if (failures != nullptr) { failures->call(); }
    require(r.size > 0, "an empty pass");
    cache_.stage(r, texts_, statuses_);
    wanted_.assign(r.wanted, r.wanted + r.size);
    contexts_.resize(static_cast<std::size_t>(r.size * toy_context_size));
    return hidden_states(*this);
  }

  void head(const hidden_states&, const head_rows<Real>& h) {
    if (failures != nullptr) { failures->call(); }
    for (std::int32_t i = 0; i < h.size; ++i) {
      const auto row = static_cast<std::size_t>(h.row[i]);
      require(row < wanted_.size() && wanted_[row] == 1, "the head of a row that was not wanted");
      require(statuses_[row] == status::ok, "the head of a row that failed");
      require(h.logits[i].size == h.lists[i].size, "a row of logits of the wrong size");
      row_.resize(static_cast<std::size_t>(world_.vocab));
      world_.logits(texts_[row], row_.data());
      if constexpr (std::is_same_v<Real, double>) {
        if (edit != nullptr) { edit(texts_[row], world_.vocab, row_.data()); }
      }
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = row_[static_cast<std::size_t>(h.lists[i].token_at(at))];
      }
    }
  }

  void commit(const kept_rows& kept) noexcept { cache_.commit(kept); }

  toy_cache& cache() { return cache_; }

  failure_plan* failures = nullptr;
  row_editor edit = nullptr;

 private:
  toy_draft(toy_world world, std::uint64_t order, std::int32_t capacity)
      : world_(world), order_(order), cache_(world.vocab, capacity) {}

  toy_world world_;
  std::uint64_t order_;
  toy_cache cache_;
  std::vector<std::uint64_t> texts_;
  std::vector<hunch::status> statuses_;
  std::vector<std::uint8_t> wanted_;
  std::vector<float> contexts_;
  std::vector<Real> row_;
};

}  // namespace hunch::test
