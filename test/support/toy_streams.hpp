// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "hash.hpp"
#include "toy_heads.hpp"
#include "toy_model.hpp"

namespace hunch::test {

/// Of the state of a stream: what routers of toys read.
inline constexpr std::int32_t toy_stream_size = toy_context_size;

/// A toy target with speculative streams: the state of stream j beside a row begins with a hash of
/// the text that the row has read, and of j. It has hidden states, too.
template <class Real = double>
class toy_stream_target : public toy_hidden_target<Real> {
  using base = toy_hidden_target<Real>;

 public:
  using base::base;

  class evaluation : public base::evaluation {
   public:
    explicit evaluation(toy_stream_target& of) : base::evaluation(of), of_(&of) {}
    row_view<const float> stream(std::int32_t i, std::int32_t j) const {
      this->logits(i);  // throws if there are none
      require(j >= 0 && j < of_->asked_, "a stream that was not asked for");
      ++of_->read;
      const std::int64_t at = std::int64_t{i} * of_->asked_ + j;
      return {of_->streams_.data() + at * toy_stream_size, of_->stream_width};
    }

   private:
    toy_stream_target* of_;
  };

  evaluation evaluate(const rows& r) {
    base::evaluate(r);
    asked_ = r.streams;
    streams_.clear();
    for (const std::uint64_t text : this->texts()) {
      for (std::int32_t j = 0; j < asked_; ++j) {
        const std::uint64_t of = extend(text, 200 + j);
        streams_.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(of >> 32) >> 2));
        streams_.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(of) >> 2));
        streams_.resize(streams_.size() + static_cast<std::size_t>(toy_stream_size - 2));
      }
    }
    rows_seen += r.size;
    return evaluation(*this);
  }

  std::int32_t asked() const { return asked_; }  ///< streams beside a row of the last pass

  std::int32_t stream_width = toy_stream_size;
  std::int64_t read = 0;  ///< states of streams
  std::int64_t rows_seen = 0;

 private:
  std::int32_t asked_ = 0;
  std::vector<float> streams_;
};

/// Heads over a toy world for these states: the law of a stream depends on its text, its number and
/// the root.
template <class Real = double>
class toy_stream_head {
 public:
  toy_stream_head(toy_world world, std::int32_t streams, const vocab_layout& layout)
      : world_(world), streams_(streams), order_(layout.order()) {}

  struct states {
    std::vector<const float*> of;  ///< [inputs, heads] nullptr where there is no such stream
    std::vector<token> root;       ///< [inputs, heads]
    const float* context(std::int32_t i) const { return of.at(static_cast<std::size_t>(i)); }
  };

  std::int32_t vocab_size() const { return world_.vocab; }
  std::int32_t hidden_size() const { return toy_stream_size; }
  std::int32_t heads() const { return streams_; }
  std::uint64_t head_order() const { return order_; }
  static std::int32_t context_width() { return toy_stream_size; }

  states forward(const head_inputs& inputs) {
    if (failures != nullptr) { failures->call(); }
    require(inputs.size > 0 && inputs.states <= streams_, "an empty pass, or too many streams");
    states out;
    for (std::int32_t i = 0; i < inputs.size; ++i) {
      for (std::int32_t j = 0; j < streams_; ++j) {
        const bool there = j < inputs.states;
        out.of.push_back(there ? inputs.hidden[i] + std::ptrdiff_t{j} * toy_stream_size : nullptr);
        out.root.push_back(inputs.tokens[i]);
      }
    }
    return out;
  }

  void head(const states& s, const head_rows<Real>& h) {
    if (failures != nullptr) { failures->call(); }
    std::vector<Real> row(static_cast<std::size_t>(world_.vocab));
    for (std::int32_t i = 0; i < h.size; ++i) {
      require(h.logits[i].size == h.lists[i].size, "a row of logits of the wrong size");
      const float* const state = s.context(h.row[i]);
      require(state != nullptr, "a stream that was not asked for");
      std::uint64_t text = 0;
      for (std::int32_t at = 0; at < 2; ++at) {
        text = text << 32 | std::bit_cast<std::uint32_t>(state[at]);
      }
      const token root = s.root[static_cast<std::size_t>(h.row[i])];
      seen.push_back({text, root});
      world_.logits(extend(text, root), row.data());
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = row[static_cast<std::size_t>(h.lists[i].token_at(at))];
      }
    }
  }

  /// A state as the head read it, and the root.
  struct input {
    std::uint64_t text;
    token root;
    friend auto operator<=>(const input&, const input&) = default;
  };
  std::vector<input> seen;
  failure_plan* failures = nullptr;

 private:
  toy_world world_;
  std::int32_t streams_;
  std::uint64_t order_;
};

static_assert(DraftHeads<toy_stream_head<>, double>);

/// A view of a toy target's first layers: it stages into the target's cache, and has laws of a
/// world of its own.
template <class Target, class Real = double>
class toy_view {
 public:
  static constexpr bool shares_target_cache = true;

  toy_view(toy_world world, const vocab_layout& layout) : world_(world), order_(layout.order()) {}
  toy_view(Target& target, toy_world world, const vocab_layout& layout) : toy_view(world, layout) {
    attach(target);
  }
  void attach(Target& target) { target_ = &target; }

  class hidden_states {
   public:
    explicit hidden_states(toy_view& of) : of_(&of) {}
    hunch::status status(std::int32_t i) const {
      return of_->statuses_[static_cast<std::size_t>(i)];
    }
    const float* context(std::int32_t i) {
      const auto row = static_cast<std::size_t>(i);
      float* const out = of_->contexts_.data() + row * static_cast<std::size_t>(toy_context_size);
      toy_context(of_->texts_.at(row), out);
      return out;
    }

   private:
    toy_view* of_;
  };

  std::int32_t vocab_size() const { return world_.vocab; }
  std::uint64_t head_order() const { return order_; }
  static std::int32_t context_width() { return toy_context_size; }

  hidden_states forward(const rows& r) {
    if (failures != nullptr) { failures->call(); }
    require(r.size > 0, "an empty pass");
    ++passes;
    target_->cache().stage(r, texts_, statuses_);
    contexts_.resize(static_cast<std::size_t>(r.size * toy_context_size));
    wanted_.assign(r.wanted, r.wanted + r.size);
    return hidden_states(*this);
  }

  void head(const hidden_states&, const head_rows<Real>& h) {
    if (failures != nullptr) { failures->call(); }
    std::vector<Real> row(static_cast<std::size_t>(world_.vocab));
    for (std::int32_t i = 0; i < h.size; ++i) {
      const auto of = static_cast<std::size_t>(h.row[i]);
      require(of < wanted_.size() && wanted_[of] == 1, "the head of a row that was not wanted");
      require(statuses_[of] == status::ok, "the head of a row that failed");
      world_.logits(texts_[of], row.data());
      for (std::int32_t at = 0; at < h.lists[i].size; ++at) {
        h.logits[i][at] = row[static_cast<std::size_t>(h.lists[i].token_at(at))];
      }
    }
  }

  void commit(const kept_rows&) noexcept {}

  failure_plan* failures = nullptr;
  std::int64_t passes = 0;

 private:
  Target* target_ = nullptr;
  toy_world world_;
  std::uint64_t order_;
  std::vector<std::uint64_t> texts_;
  std::vector<hunch::status> statuses_;
  std::vector<std::uint8_t> wanted_;
  std::vector<float> contexts_;
};

static_assert(SpeculativeStreams<toy_stream_target<>::evaluation>);

}  // namespace hunch::test
