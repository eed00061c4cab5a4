// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/collective/collective.hpp>
#include <hunch/core/message.hpp>
#include <hunch/team/row_shards.hpp>

namespace hunch {

/// How the rows of a model's logits are divided among the ranks of a collective: rank r computes
/// the tokens [first(r), end(r)), one rank after the other, as uneven as they like, or none.
///
/// Of a row each rank verifies whole tiles of 4,096 tokens: those whose first token it computes.
/// Where shards end within a tile, its other part is sent there with each pass, see
/// `sharded_target`; shards of `whole_tiles` send nothing.
class vocab_shards {
 public:
  /// Collective. \param first \param end the tokens of this rank.
  /// \throws std::invalid_argument on all ranks, naming one whose shard does not begin where the
  /// one before it ends, or which has another vocabulary.
  template <Collective C>
  vocab_shards(C& collective, std::int32_t first, std::int32_t end, std::int32_t vocab_size)
      : rank_(collective.rank()), vocab_size_(vocab_size) {
    const auto ranks = static_cast<std::size_t>(collective.size());
    const given mine{first, end, vocab_size};
    std::vector<given> all(ranks);
    collective.all_gather(&mine, sizeof mine, all.data());
    const refusal refuse{"hunch::vocab_shards"};
    std::int32_t last = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const given& of = all[r];
      if (of.vocab_size != all[0].vocab_size) {
        refuse({"rank ", r, " has rows of ", of.vocab_size, " tokens, and rank 0 of ",
                all[0].vocab_size});
      }
      if (of.first != last || of.end < of.first || of.end > of.vocab_size) {
        refuse({"rank ", r, " has the tokens from ", of.first, " to ", of.end,
                ", and those of the ranks before it end at ", last});
      }
      last = of.end;
      begins_.push_back(of.first);
      first_tile_.push_back(tile_from(of.first));
    }
    if (last != all[0].vocab_size) {
      refuse({"the shards end at token ", last, " of ", all[0].vocab_size});
    }
    begins_.push_back(last);
    first_tile_.push_back(team::tiles_of(last));
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::int32_t tiles = first_tile_[r + 1] - first_tile_[r];
      most_tiles_ = kernel::larger(most_tiles_, tiles);
      const std::int32_t sent = kernel::smaller(begins_[r + 1], begin_of_held(r)) - begins_[r];
      most_sent_ = kernel::larger(most_sent_, sent);
    }
  }

  /// The tokens of rank `rank` if all ranks have whole tiles, as equally many as there are.
  static team::element_range whole_tiles(std::int32_t vocab_size, std::int32_t ranks,
                                         std::int32_t rank) {
    const std::int64_t tiles = team::tiles_of(vocab_size);
    const auto begin = [&](std::int64_t of) {
      return kernel::smaller(of * tiles / ranks * team::tile_elements, std::int64_t{vocab_size});
    };
    return {begin(rank), begin(rank + 1)};
  }

  std::int32_t ranks() const { return static_cast<std::int32_t>(begins_.size()) - 1; }
  std::int32_t rank() const { return rank_; }
  std::int32_t vocab_size() const { return vocab_size_; }
  std::int32_t first(std::int32_t rank) const { return begins_[static_cast<std::size_t>(rank)]; }
  std::int32_t end(std::int32_t rank) const { return first(rank + 1); }
  /// The most tokens of a row that a rank sends because their tile begins on another.
  std::int32_t most_sent() const { return most_sent_; }

  /// The tiles that each rank verifies; a view of this object, which stays where it is.
  team::row_shards tiles() const {
    return {.first_tile = first_tile_.data(),
            .ranks = ranks(),
            .rank = rank_,
            .most_tiles = most_tiles_,
            .size = vocab_size_};
  }

 private:
  struct given {
    std::int32_t first;
    std::int32_t end;
    std::int32_t vocab_size;
  };

  /// The first tile that does not begin before a token.
  static std::int32_t tile_from(std::int32_t t) { return team::tiles_of(t); }
  std::int32_t begin_of_held(std::size_t rank) const {
    const std::int64_t begin = first_tile_[rank] * team::tile_elements;
    return static_cast<std::int32_t>(kernel::smaller(begin, std::int64_t{vocab_size_}));
  }

  std::int32_t rank_;
  std::int32_t vocab_size_;
  std::vector<std::int32_t> begins_;      ///< [ranks + 1]
  std::vector<std::int32_t> first_tile_;  ///< [ranks + 1]
  std::int32_t most_tiles_ = 0;
  std::int32_t most_sent_ = 0;
};

}  // namespace hunch
