// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <hunch/core/logit.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/model/rows.hpp>
#include "hash.hpp"
#include "toy_model.hpp"
#include "toy_world.hpp"

namespace hunch::test {

/// The logits for a position of a canvas: a hash of the whole canvas, the position, and the canvas
/// that a cache was filled from, if there is one.
struct canvas_world {
  toy_world rows;
  token mask = 1;
  row_editor edit = nullptr;
  std::uint64_t fixed_rows = 0;  ///< of eight rows, those that do not depend on the canvas

  std::uint64_t hash(std::span<const token> canvas, std::int32_t position,
                     std::uint64_t cached) const {
    const std::uint64_t at = mix(static_cast<std::uint64_t>(position) + 1);
    const std::uint64_t all = mix(hash_of(canvas) ^ at ^ mix(cached));
    return all % 8 < fixed_rows ? at : all;
  }
  std::vector<double> logits(std::span<const token> canvas, std::int32_t position,
                             std::uint64_t cached = 0) const {
    const std::uint64_t h = hash(canvas, position, cached);
    std::vector<double> row = rows.logits(h);
    if (edit != nullptr) { edit(h, rows.vocab, row.data()); }
    return row;
  }
};

enum class cache_kind {
  none,
  of_blocks,  ///< a `BlockCachedModel`
  unsaid,     ///< a cache that goes stale, filled when a block is first seen, of a model that does
              ///< not say so: what such a model is decoded like without care
};

/// A masked model. It checks every word of the contract of `canvases`.
/// \tparam Shift its output row at a position is about so many positions further on.
template <class Real = double, cache_kind Cache = cache_kind::none, std::int32_t Shift = 0>
class toy_masked {
 public:
  static constexpr bool caches_blocks = Cache == cache_kind::of_blocks;

  /// The logits of a pass.
  class evaluation {
   public:
    row_view<Real> logits(std::int32_t i) {
      std::vector<Real>& row = rows_[static_cast<std::size_t>(i)];
      return {row.data(), static_cast<std::int32_t>(row.size())};
    }

   private:
    friend toy_masked;
    std::vector<std::vector<Real>> rows_;
  };

  explicit toy_masked(canvas_world world, std::int32_t max_positions = 64)
      : world_(world), max_positions_(max_positions) {}

  std::int32_t vocab_size() const { return world_.rows.vocab; }
  token mask_token() const { return world_.mask; }
  std::int32_t max_positions() const { return max_positions_; }

  evaluation evaluate(const diffusion::canvases& asked) {
    if (failures != nullptr) { failures->call(); }
    passes.emplace_back();
    evaluation e;
    require(asked.token_count == asked.first[asked.size], "the number of tokens");
    require(asked.wanted_count == asked.first_wanted[asked.size], "the number of wanted positions");
    for (std::int32_t i = 0; i < asked.size; ++i) {
      check(asked, i);
      const row_view<const token> row = asked.canvas(i);
      const std::span<const token> canvas(row.data, static_cast<std::size_t>(row.size));
      passes.back().emplace_back(canvas.begin(), canvas.end());
      const std::uint64_t cached = cache_for(asked, i, canvas);
      for (const std::int32_t position : wanted(asked, i)) {
        const std::vector<double> logits = world_.logits(canvas, position + Shift, cached);
        std::vector<Real>& out = e.rows_.emplace_back();
        for (const double x : logits) {
          out.push_back(to_logit<Real>(static_cast<real_of<Real>>(x)));
        }
      }
    }
    if (failures != nullptr) { failures->call(); }  // with everything done
    return e;
  }

  void release(std::int32_t slot) noexcept { caches_.erase(slot); }

  const canvas_world& world() const { return world_; }
  bool keeps_anything() const { return !caches_.empty(); }

  bool drafts = false;  ///< a draft model, whose canvases are committed texts with drafts
  failure_plan* failures = nullptr;
  std::vector<std::vector<std::vector<token>>> passes;  ///< the canvases of each pass

 private:
  struct cache {
    std::int32_t known = -1;
    std::uint64_t hash = 0;
  };

  static std::vector<std::int32_t> wanted(const diffusion::canvases& asked, std::int32_t i) {
    const row_view<const std::int32_t> w = asked.wanted_of(i);
    return {w.data, w.data + w.size};
  }

  void check(const diffusion::canvases& asked, std::int32_t i) const {
    const row_view<const token> canvas = asked.canvas(i);
    require(canvas.size > 1 && canvas.size <= max_positions_, "length of a canvas");
    const std::int32_t known = asked.known[i];
    const std::int32_t end = asked.block_end[i];
    require(known > 0 && known < end && end <= canvas.size, "block of a canvas");
    for (std::int32_t p = 0; p < known; ++p) { require(canvas[p] != world_.mask, "known prefix"); }
    const bool first = i == 0 || asked.slot[i] != asked.slot[i - 1];
    bool masks = false;
    for (std::int32_t p = known; p < end; ++p) { masks = masks || canvas[p] == world_.mask; }
    require(!first || masks || drafts, "the block of the committed text has no mask");
    for (std::int32_t j = 0; first && j < i; ++j) {
      require(asked.slot[j] != asked.slot[i], "canvases of a request are not adjacent");
    }
    if (!first) { check_draft(asked, i); }
    std::int32_t before = 0;
    require(asked.wanted_of(i).size > 0, "nothing is wanted of a canvas");
    for (const std::int32_t row : wanted(asked, i)) {
      const std::int32_t position = row + Shift;
      require(position > before && position < canvas.size, "order of wanted positions");
      require(canvas[position] == world_.mask, "a wanted position is unmasked");
      require(!caches_blocks || (position >= known && position < end), "wanted beyond the block");
      before = position;
    }
    require(asked.opens[i] == 0 || caches_blocks, "opens, of a model without a cache");
  }

  /// One more token than a canvas before, and no two canvases of a request alike.
  void check_draft(const diffusion::canvases& asked, std::int32_t i) const {
    bool one_more = false;
    for (std::int32_t j = i - 1; j >= 0 && asked.slot[j] == asked.slot[i]; --j) {
      require(asked.canvas(j).size == asked.canvas(i).size && asked.known[i] == asked.known[j],
              "a draft's canvas");
      require(asked.opens[i] == 0 && asked.opens[j] == 0, "a draft under a new cache");
      std::int32_t differ = 0, unmasked = 0;
      for (std::int32_t p = 0; p < asked.canvas(i).size; ++p) {
        if (asked.canvas(i)[p] == asked.canvas(j)[p]) { continue; }
        ++differ;
        unmasked += asked.canvas(j)[p] == world_.mask ? 1 : 0;
        require(!caches_blocks || p < asked.block_end[i], "a draft beyond the block");
      }
      require(differ > 0, "a canvas comes twice");
      one_more = one_more || (differ == 1 && unmasked == 1);
    }
    require(one_more, "a canvas is not one draft more than one before");
  }

  std::uint64_t cache_for(const diffusion::canvases& asked, std::int32_t i,
                          std::span<const token> canvas) {
    if constexpr (Cache == cache_kind::none) {
      return 0;
    } else {
      cache& kept = caches_[asked.slot[i]];
      const bool fills = caches_blocks ? asked.opens[i] != 0 : kept.known != asked.known[i];
      if (fills) { kept = {asked.known[i], hash_of(canvas)}; }
      require(kept.known == asked.known[i], "a cache of another block");
      return kept.hash;
    }
  }

  canvas_world world_;
  std::int32_t max_positions_;
  std::map<std::int32_t, cache> caches_;
};

}  // namespace hunch::test
