// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/over_row.hpp>
#include "../support/forking_source.hpp"
#include "../support/toy_model.hpp"

/// \file
/// Toy worlds whose few tokens lie in tiles of their own, so that ranks hold some of them each.

namespace hunch::test {

/// From one token that can be drawn to the next: a tile and a few.
inline constexpr std::int32_t spread = 4100;

inline std::int32_t spread_vocab(std::int32_t vocab) { return spread * (vocab - 1) + 1; }

/// A toy model whose token t is the token t * spread of a vocabulary of which no other can be
/// drawn.
class spread_model {
 public:
  /// \param held what is there of a row; the rest is no number.
  spread_model(toy_world world, team::element_range held)
      : toy_(world), vocab_(spread_vocab(world.vocab)), held_(held) {}

  class evaluation {
   public:
    evaluation(spread_model& of, toy_target<>::evaluation toy) : of_(&of), toy_(toy) {}
    hunch::status status(std::int32_t i) const { return toy_.status(i); }
    row_view<double> logits(std::int32_t i) const { return of_->row(toy_.logits(i), i); }

   private:
    spread_model* of_;
    toy_target<>::evaluation toy_;
  };

  std::int32_t vocab_size() const { return vocab_; }
  evaluation evaluate(const rows& r) {
    tokens_.clear();
    for (std::int32_t i = 0; i < r.size; ++i) {
      require(r.tokens[i] % spread == 0, "a token that cannot be drawn");
      tokens_.push_back(r.tokens[i] / spread);
    }
    rows narrow = r;
    narrow.tokens = tokens_.data();
    rows_.resize(static_cast<std::size_t>(r.size));
    return evaluation(*this, toy_.evaluate(narrow));
  }
  void commit(const kept_rows& kept) noexcept { toy_.commit(kept); }

 private:
  row_view<double> row(row_view<double> narrow, std::int32_t i) {
    std::vector<double>& wide = rows_[static_cast<std::size_t>(i)];
    wide.assign(static_cast<std::size_t>(vocab_), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t v = held_.begin; v < held_.end; ++v) {
      wide[static_cast<std::size_t>(v)] =
          v % spread == 0 ? narrow[v / spread] : -std::numeric_limits<double>::infinity();
    }
    return {wide.data(), vocab_};
  }

  toy_target<> toy_;
  std::int32_t vocab_;
  team::element_range held_;
  std::vector<token> tokens_;
  std::vector<std::vector<double>> rows_;
};

/// A forking source for teams that have parts of a row: each rank asks for what others hold.
struct ranked_source : forking_source {
  template <Team T, class Weight>
  std::int64_t categorical(T& team, const address& a, std::int64_t n, Weight&& weight) const {
    if constexpr (!team::spans_ranks<T>) {
      return forking_source::categorical(team, a, n, weight);
    } else {
      const std::int32_t count = team::compact_row(
          team, n, [&](std::int64_t i) { return weight(i) > 0; }, [](std::int64_t i) { return i; },
          team::list_capacity);
      std::vector<std::int64_t> ids(team.scratch().list, team.scratch().list + count);
      std::vector<double> weights;
      for (const std::int64_t id : ids) {
        weights.push_back(
            team::on_holder(team, id, [&] { return static_cast<double>(weight(id)); }));
      }
      const std::int64_t which = forking_source::categorical(
          team, a, count, [&](std::int64_t k) { return weights[static_cast<std::size_t>(k)]; });
      return which < 0 ? which : ids[static_cast<std::size_t>(which)];
    }
  }
};

/// Texts in tokens of the toy world.
inline law_of_texts narrowed(const law_of_texts& wide) {
  law_of_texts narrow;
  for (const auto& [key, p] : wide) {
    text of = key;
    for (token& t : of) { t = t > 0 ? t / spread : t; }
    narrow[of] += p;
  }
  return narrow;
}

}  // namespace hunch::test
