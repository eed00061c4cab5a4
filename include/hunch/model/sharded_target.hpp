// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/collective/collective.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/core/message.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/row_shards.hpp>

namespace hunch {

/// A target whose head is divided over the vocabulary, as one that `executor::sharded` verifies.
///
/// The model is this rank's: `vocab_size()` is that of the whole vocabulary, and `logits(i)` of a
/// pass is a row of the logits of the tokens [shards.first(rank), shards.end(rank)) alone. All
/// else, hidden states, statuses, caches, is the same on all ranks, which read the same rows.
///
/// Where a shard ends within a tile of 4,096 tokens, a pass ends with an exchange: the other part
/// of the tile, up to 16 KiB of each wanted row, goes to the rank that computes its first token,
/// and rows are copied for it. Shards of `vocab_shards::whole_tiles` exchange and copy nothing.
///
/// What a pass of one rank throws, all ranks learn in their next exchange, so that they can repeat
/// the step.
///
/// \tparam M a `TargetModel` of which the host reads the logits, or a reference to one.
template <class M, Collective C>
class sharded_target {
  using model = std::remove_reference_t<M>;
  using inner_evaluation = evaluation_of<model>;
  using real = model_logit<model>;

 public:
  static constexpr bool gives_shards = true;
  static constexpr bool has_one_state = hunch::has_one_state<model>;

  /// What a pass returns: the model's evaluation, whose rows have the size of the vocabulary. Of
  /// these only what this rank verifies is there.
  class evaluation {
   public:
    evaluation(inner_evaluation&& of, sharded_target& target)
        : of_(std::forward<inner_evaluation>(of)), target_(&target) {}

    hunch::status status(std::int32_t i) { return of_.status(i); }
    row_view<real> logits(std::int32_t i) { return target_->row(of_, i); }
    auto hidden(std::int32_t i) requires requires(inner_evaluation& e) { e.hidden(i); }
    { return of_.hidden(i); }
    auto stream(std::int32_t i, std::int32_t j) requires requires(inner_evaluation& e) {
      e.stream(i, j);
    }
    { return of_.stream(i, j); }
    /// The model's own.
    inner_evaluation& inner() { return of_; }

   private:
    inner_evaluation of_;
    sharded_target* target_;
  };

  /// \param collective and \param shards outlive this.
  sharded_target(M&& model, C& collective, const vocab_shards& shards)
      : model_(std::forward<M>(model)), collective_(&collective), shards_(&shards) {
    if (model_.vocab_size() != shards.vocab_size()) {
      refusal{"hunch::sharded_target"}({"the model has ", model_.vocab_size(),
                                        " tokens, and the shards are of ", shards.vocab_size()});
    }
  }

  std::int32_t vocab_size() const { return shards_->vocab_size(); }

  evaluation evaluate(const rows& asked) {
    try {
      evaluation of(model_.evaluate(asked), *this);
      if (shards_->most_sent() > 0) { complete_tiles(asked, of.inner()); }
      return of;
    } catch (const collective_error&) { throw; } catch (...) {
      collective_->fail();
      throw;
    }
  }
  void commit(const kept_rows& kept) noexcept { model_.commit(kept); }

 private:
  std::int32_t first() const { return shards_->first(shards_->rank()); }
  std::int32_t end() const { return shards_->end(shards_->rank()); }

  /// Row i from element 0 on, of which this rank has some.
  row_view<real> row(inner_evaluation& of, std::int32_t i) {
    const auto from = [](real* data, std::int64_t element) {
      // Not as a pointer: there is no array of which this would be an element.
      return reinterpret_cast<real*>(reinterpret_cast<std::uintptr_t>(data) -
                                     static_cast<std::uintptr_t>(element) * sizeof(real));
    };
    if (shards_->most_sent() == 0) { return {from(of.logits(i).data, first()), vocab_size()}; }
    const team::element_range held = shards_->tiles().held();
    const auto at = static_cast<std::size_t>(place_[static_cast<std::size_t>(i)]);
    return {from(whole_.data() + at * static_cast<std::size_t>(held.size()), held.begin),
            vocab_size()};
  }

  /// Copies the wanted rows, and puts parts of tiles where the tiles begin.
  void complete_tiles(const rows& asked, inner_evaluation& of) {
    const team::element_range held = shards_->tiles().held();
    const auto width = static_cast<std::size_t>(held.size());
    const auto each = static_cast<std::size_t>(shards_->most_sent());
    place_.resize(static_cast<std::size_t>(asked.size));
    std::size_t count = 0;
    for (std::int32_t i = 0; i < asked.size; ++i) {
      const bool wanted = asked.wanted[i] != 0 && of.status(i) == hunch::status::ok;
      place_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(count);
      count += wanted ? 1 : 0;
    }
    whole_.resize(count * width);
    sent_.resize(count * each);
    received_.resize(count * each * static_cast<std::size_t>(shards_->ranks()));
    const auto copy = [](real* to, const real* from, std::int64_t n) {
      if (n > 0) { std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(real)); }
    };
    const team::element_range own{first(), end()};
    const team::element_range stays = held.within(own);
    const std::int64_t leaves = kernel::smaller(held.begin, own.end) - own.begin;
    std::size_t k = 0;
    for (std::int32_t i = 0; i < asked.size; ++i) {
      if (asked.wanted[i] == 0 || of.status(i) != hunch::status::ok) { continue; }
      const row_view<real> row = of.logits(i);
      copy(whole_.data() + k * width + (stays.begin - held.begin),
           row.data + (stays.begin - own.begin), stays.size());
      copy(sent_.data() + k * each, row.data, leaves);
      ++k;
    }
    collective_->all_gather(sent_.data(), sent_.size() * sizeof(real), received_.data());
    for (std::int32_t r = 0; r < shards_->ranks(); ++r) {
      const team::element_range here = held.within({shards_->first(r), shards_->end(r)});
      if (r == shards_->rank()) { continue; }
      for (k = 0; k < count; ++k) {
        const real* const from =
            received_.data() + (static_cast<std::size_t>(r) * count + k) * each;
        copy(whole_.data() + k * width + (here.begin - held.begin),
             from + (here.begin - shards_->first(r)), here.size());
      }
    }
  }

  M model_;
  C* collective_;
  const vocab_shards* shards_;
  std::vector<std::int32_t> place_;  ///< [rows] of wanted rows in `whole_`
  std::vector<real> whole_;          ///< [wanted, held]
  std::vector<real> sent_;           ///< [wanted, most_sent]
  std::vector<real> received_;       ///< [ranks, wanted, most_sent]
};

template <class M, Collective C>
sharded_target(M&&, C&, const vocab_shards&) -> sharded_target<M, C>;

}  // namespace hunch
