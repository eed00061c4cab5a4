// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <hunch/core/types.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// Models on any executor whose logits are a hash of everything that the row has read: its cache is
/// the hash of the cached tokens, so that any error of a row, a position or a commit changes the
/// text. Rows may be padding, logits lie at fixed places, nothing asks the host.

namespace hunch::test {

/// The arrays of a hash model. A trivially copyable view.
struct hash_state {
  std::int32_t vocab = 0;
  std::int32_t max_staged = 0;
  std::uint64_t salt = 0;
  std::int32_t favoured = 0;        ///< the first tokens are likely everywhere
  std::uint64_t* cached = nullptr;  ///< [max_batch] hash of the tokens in the cache
  std::int32_t* length = nullptr;   ///< [max_batch] their number
  std::uint64_t* staged = nullptr;  ///< [max_batch, max_staged]
  std::uint64_t* rows = nullptr;    ///< [max_rows] of the present pass

  HUNCH_HOST_DEVICE static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  HUNCH_HOST_DEVICE static std::uint64_t extended(std::uint64_t text, token t,
                                                  std::int32_t position) {
    return mixed(text * 31 + static_cast<std::uint64_t>(t) * 7 +
                 static_cast<std::uint64_t>(position) + 1);
  }
  /// In steps, so that rows have ties; models differ by less than the best tokens of a row do.
  HUNCH_HOST_DEVICE float logit(std::uint64_t text, std::int32_t v) const {
    const std::uint64_t h = mixed(text ^ (static_cast<std::uint64_t>(v) * 0x9e3779b97f4a7c15u));
    const std::uint64_t level = h >> 52;
    return static_cast<float>(level * level >> 12) / 128.0f +
           static_cast<float>(mixed(h + salt) >> 61) / 32.0f + (v < favoured ? 24.0f : 0.0f);
  }
};

/// Stages the rows of sequence `slot`, each after its parent.
struct hash_stage {
  hash_state of;
  rows r;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    std::uint64_t* const staged = of.staged + static_cast<std::int64_t>(slot) * of.max_staged;
    for (std::int32_t i = 0; i < r.size; ++i) {
      if (r.slot[i] != slot) { continue; }
      const std::uint64_t before =
          r.parent[i] == end_of_cache ? of.cached[slot] : staged[r.parent[i]];
      staged[r.id[i]] = hash_state::extended(before, r.tokens[i], r.position[i]);
      of.rows[i] = staged[r.id[i]];
    }
  }
};

/// Moves what is kept of sequence `slot` into its cache, or drops it.
struct hash_commit {
  hash_state of;
  kept_rows kept;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    for (std::int32_t i = 0; i < kept.size; ++i) {
      if (kept.slot[i] != slot) { continue; }
      of.cached[slot] = of.staged[static_cast<std::int64_t>(slot) * of.max_staged + kept.id[i]];
      ++of.length[slot];
    }
    for (std::int32_t i = 0; i < kept.release_count; ++i) {
      if (kept.released[i] == slot) {
        of.cached[slot] = static_cast<std::uint64_t>(of.length[slot] = 0);
      }
    }
  }
};

/// The logits of row `row` of a target.
struct hash_logits {
  hash_state of;
  rows r;
  float* logits;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    if (r.slot[row] == no_slot || r.wanted[row] == 0) { return; }
    team.for_each(of.vocab, [&](std::int64_t v) {
      logits[static_cast<std::int64_t>(row) * of.vocab + v] =
          of.logit(of.rows[row], static_cast<std::int32_t>(v));
    });
  }
};

/// The logits of head row `i` over its shortlist.
struct hash_head {
  hash_state of;
  head_rows<float> heads;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const std::int32_t row = heads.row[i];
    if (row < 0) { return; }
    const shortlist list = heads.lists[i];
    const row_view<float> out = heads.logits[i];
    team.for_each(list.size, [&](std::int64_t at) {
      out[at] = of.logit(of.rows[row], list.token_at(static_cast<std::int32_t>(at)));
    });
  }
};

/// Its launch, or those of several ranks, of which each has a part of the head, if E says so.
template <class E>
void launch_hash_head(E& executor, const hash_state& of, const head_rows<float>& heads) {
  const auto launch = [&](const head_rows<float>& own) {
    executor.launch(own.size, hash_head{of, own});
  };
  if constexpr (requires { executor.divide_head(heads, launch); }) {
    executor.divide_head(heads, launch);
  } else {
    launch(heads);
  }
}

/// What a router, or a head, may know of each row: a few bits of what it has read.
inline constexpr std::int32_t hash_context_size = 2;
HUNCH_HOST_DEVICE inline void write_hash(std::uint64_t text, float* to) {
  to[0] = static_cast<float>(text >> 44);
  to[1] = static_cast<float>(text & 0xfffffu);
}
HUNCH_HOST_DEVICE inline std::uint64_t read_hash(const float* from) {
  return hash_state::mixed(static_cast<std::uint64_t>(from[0]) << 20 |
                           static_cast<std::uint64_t>(from[1]));
}

struct hash_contexts {
  hash_state of;
  rows r;
  float* contexts;  ///< [max_rows, hash_context_size]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    if (team.rank() != 0 || r.slot[row] == no_slot) { return; }
    write_hash(of.rows[row], contexts + static_cast<std::int64_t>(row) * hash_context_size);
  }
};

/// A router whose scores are a hash of the context, the same numbers on every machine.
struct hash_router {
  std::int32_t clusters = 0;
  std::int32_t inputs = hash_context_size;
  std::int32_t scratch = 0;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, const float* context, float*, float* scores) const {
    const std::uint64_t seen = read_hash(context);
    team.for_each(clusters, [=](std::int64_t c) {
      const std::uint64_t h = hash_state::mixed(seen + static_cast<std::uint64_t>(c));
      scores[c] = static_cast<float>(h >> 58) / 8.0f;  // with ties
    });
  }
};

/// What the streams of a row know: a few bits each of a hash of what the row has read.
struct hash_streams {
  hash_state of;
  rows r;
  std::int32_t max_streams;
  float* streams;  ///< [max_rows, max_streams, hash_context_size]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    if (r.slot[row] == no_slot) { return; }
    team.for_each(r.streams, [&](std::int64_t j) {
      write_hash(hash_state::mixed(of.rows[row] + static_cast<std::uint64_t>(j)),
                 streams + (std::int64_t{row} * max_streams + j) * hash_context_size);
    });
  }
};

/// A target model and a draft model.
template <class E>
class hash_model {
 public:
  /// \param salt models of equal salt are equal.
  /// \param max_rows of a pass.
  /// \param favoured how many tokens, the first ones, are likely in every row.
  /// \param max_streams beside a row of a pass.
  hash_model(E& executor, std::int32_t vocab, std::uint64_t salt, std::int32_t max_batch,
             std::int32_t max_rows, std::int32_t favoured = 0, std::int32_t max_streams = 0)
      : executor_(&executor),
        vocab_(vocab),
        max_batch_(max_batch),
        max_rows_(max_rows),
        salt_(salt),
        favoured_(favoured),
        max_streams_(max_streams),
        order_(vocab_layout::identity(vocab).order()),
        cached_(executor, size(max_batch)),
        length_(executor, size(max_batch)),
        staged_(executor, size(max_batch) * size(max_rows)),
        rows_(executor, size(max_rows)),
        contexts_(executor, size(max_rows) * size(hash_context_size)),
        streams_(executor, size(max_rows) * size(max_streams) * size(hash_context_size)),
        logits_(executor, size(max_rows) * size(vocab)) {}

  struct pass {
    float* all;
    float* contexts;
    std::int32_t vocab;
    float* streams;
    std::int32_t max_streams;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {all + static_cast<std::int64_t>(i) * vocab, vocab};
    }
    const float* context(std::int32_t i) const { return hidden(i).data; }
    row_view<float> hidden(std::int32_t i) const {
      return {contexts + static_cast<std::int64_t>(i) * hash_context_size, hash_context_size};
    }
    row_view<float> stream(std::int32_t i, std::int32_t j) const {
      return {streams + (std::int64_t{i} * max_streams + j) * hash_context_size, hash_context_size};
    }
  };

  std::int32_t vocab_size() const { return vocab_; }
  std::uint64_t head_order() const { return order_; }
  void head_layout(const vocab_layout& layout) { order_ = layout.order(); }

  static std::int32_t context_width() { return hash_context_size; }
  /// Stages the rows, which `forward` then finds so.
  context_rows contexts(const rows& r) {
    stage(r);
    staged_rows_ = true;
    return {contexts_.data(), hash_context_size};
  }
  pass forward(const rows& r) {
    if (!staged_rows_) { stage(r); }
    staged_rows_ = false;
    return {logits_.data(), contexts_.data(), vocab_, streams_.data(), max_streams_};
  }
  pass evaluate(const rows& r) {
    const pass out = forward(r);
    executor_->launch(r.size, hash_logits{state(), r, logits_.data()});
    if constexpr (requires { executor_->shards(); }) {
      // What other ranks hold nobody reads here.
      const team::element_range held = executor_->shards().tiles().held();
      for (std::int64_t i = 0; i < std::int64_t{r.size} * vocab_; ++i) {
        if (!held.contains(i % vocab_)) { logits_.data()[i] = std::nanf(""); }
      }
    }
    if (r.streams > 0) {
      executor_->launch(r.size, hash_streams{state(), r, max_streams_, streams_.data()});
    }
    return out;
  }
  void head(const pass&, const head_rows<float>& heads) {
    launch_hash_head(*executor_, state(), heads);
  }
  void commit(const kept_rows& kept) noexcept {
    executor_->launch(max_batch_, hash_commit{state(), kept});
  }

  /// Its arrays, for models that share them.
  hash_state state() const {
    return {vocab_,         max_rows_,      salt_,          favoured_,
            cached_.data(), length_.data(), staged_.data(), rows_.data()};
  }

 private:
  template <class T>
  using buffer = hunch::workspace<E, T>;

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  void stage(const rows& r) {
    executor_->launch(max_batch_, hash_stage{state(), r});
    executor_->launch(r.size, hash_contexts{state(), r, contexts_.data()});
  }

  E* executor_;
  std::int32_t vocab_;
  std::int32_t max_batch_;
  std::int32_t max_rows_;
  std::uint64_t salt_;
  std::int32_t favoured_;
  std::int32_t max_streams_;
  std::uint64_t order_;
  buffer<std::uint64_t> cached_;
  buffer<std::int32_t> length_;
  buffer<std::uint64_t> staged_;
  buffer<std::uint64_t> rows_;
  buffer<float> contexts_;
  buffer<float> streams_;
  buffer<float> logits_;
  bool staged_rows_ = false;
};

}  // namespace hunch::test
