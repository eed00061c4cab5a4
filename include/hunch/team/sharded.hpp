// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/row_shards.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/team.hpp>
#include <hunch/team/tile_sums.hpp>

namespace hunch::team {

/// Elements of a row of a tree that its children stand for: who holds them tells all others, with
/// whatever is exchanged next.
struct told_elements {
  const void* row = nullptr;
  std::int32_t element_bytes = 0;         ///< at most 8
  const std::int32_t* tokens = nullptr;   ///< [nodes] the element of each node
  const std::int32_t* parents = nullptr;  ///< [nodes]
  std::int32_t node = 0;                  ///< whose children are told
  std::int32_t nodes = 0;
  std::uint64_t* to = nullptr;  ///< [nodes] out: of each child the bits of its element
};

/// A team of one rank, which works with those of other ranks on rows that are divided among them:
/// see over_row.hpp. Each holds whole tiles of a row. They exchange the sums of these, a few
/// numbers for a reduction, and the short list of a cut, and add them in the canonical order; so
/// the bits are those of one rank that has all of it, whatever the shards.
///
/// All ranks run the same body for the same row or sequence, and so come to the same exchanges. A
/// body branches on what its ranks share only.
///
/// \tparam Inner a team without parts: it needs `own()`, its scratch, and the sums of single
///         tiles, `tiles`, `tiles_both` and `soft_tiles`.
/// \tparam Link how ranks exchange messages, see `Link` below; collective among the threads of a
///         rank. `l.outbox(words)` is room for the message of this rank, of as many words on all
///         ranks; `l.exchange(inner, words)` sends it, and then `l.from(r)` is that of rank r, up
///         to the next `outbox`.
template <Team Inner, class Link>
class sharded {
 public:
  static constexpr bool spans_ranks = true;
  static constexpr bool is_one_thread = team::is_one_thread<Inner>;
  using worker_type = typename Inner::worker_type;

  HUNCH_HOST_DEVICE sharded(Inner& inner, Link& link, const row_shards& shards)
      : inner_(&inner), link_(&link), shards_(shards) {}

  // What is not over a row each rank does for itself.
  HUNCH_HOST_DEVICE std::int32_t size() const { return inner_->size(); }
  HUNCH_HOST_DEVICE std::int32_t rank() const { return inner_->rank(); }
  HUNCH_HOST_DEVICE void sync() { inner_->sync(); }
  template <class F>
  HUNCH_HOST_DEVICE void for_each(std::int64_t n, const F& f) {
    inner_->for_each(n, f);
  }
  template <class F>
  HUNCH_HOST_DEVICE void for_each_worker(std::int32_t n, F&& f) {
    inner_->for_each_worker(n, f);
  }
  template <class T, class F, class Op>
  HUNCH_HOST_DEVICE T reduce(std::int64_t n, T identity, const F& f, const Op& op) {
    return inner_->reduce(n, identity, f, op);
  }
  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE auto lanes(std::int64_t begin, std::int64_t end,
                                                      const F& f) {
    return inner_->lanes(begin, end, f);
  }
  template <class F>
  HUNCH_HOST_DEVICE void fill(std::int32_t n, const F& f) {
    inner_->fill(n, f);
  }
  HUNCH_HOST_DEVICE void put(std::int32_t i, std::int64_t value) { inner_->put(i, value); }
  template <class Keep, class F>
  HUNCH_HOST_DEVICE std::int32_t compact(std::int64_t n, const Keep& keep, const F& f,
                                         std::int32_t capacity) {
    return inner_->compact(n, keep, f, capacity);
  }
  template <class F>
  HUNCH_HOST_DEVICE void fill_by_worker(std::int32_t n, F&& f) {
    inner_->fill_by_worker(n, f);
  }
  template <class Bin, class Amount>
  HUNCH_HOST_DEVICE found_bin find_bin(std::int64_t n, std::int64_t wanted, const Bin& bin,
                                       const Amount& amount) {
    return inner_->find_bin(n, wanted, bin, amount);
  }
  template <class T>
  HUNCH_HOST_DEVICE T broadcast(T value, std::int32_t from) {
    return inner_->broadcast(value, from);
  }
  HUNCH_HOST_DEVICE const shared_scratch& scratch() const { return inner_->scratch(); }
  HUNCH_HOST_DEVICE const summed& last_sum() const { return inner_->last_sum(); }
  HUNCH_HOST_DEVICE void remember(const summed& what) { inner_->remember(what); }

  // What is over a row.
  template <class F>
  HUNCH_HOST_DEVICE double sum(std::int64_t n, const F& f) {
    inner_->remember({});
    exchange(shards_.most_tiles, [&](std::uint64_t* out) {
      for_own_tiles([&](std::int32_t first, std::int32_t count) {
        inner_->tiles(n, first, count, f);
        put_words(out + (first - begin()), count, inner_->scratch().lanes);
      });
    });
    take_groups(n, 1, 0);
    return total_of_groups(n);
  }

  template <class F>
  HUNCH_HOST_DEVICE two_sums sum_both(std::int64_t n, const F& f) {
    inner_->remember({});
    exchange(2 * shards_.most_tiles, [&](std::uint64_t* out) {
      for_own_tiles([&](std::int32_t first, std::int32_t count) {
        inner_->tiles_both(n, first, count, f);
        const shared_scratch& own = inner_->scratch();
        std::uint64_t* const of_first = out + 2 * (first - begin());
        inner_->for_each(count, [&own, of_first](std::int64_t k) {
          std::uint64_t* const to = of_first + 2 * k;
          to[0] = kernel::bit_cast<std::uint64_t>(own.lanes[k]);
          to[1] = kernel::bit_cast<std::uint64_t>(own.groups[k]);
        });
      });
    });
    two_sums all{};
    take_groups(n, 2, 1);
    all.second = total_of_groups(n);
    inner_->sync();  // every thread has read them
    take_groups(n, 2, 0);
    all.first = total_of_groups(n);
    return all;
  }

  template <class Terms>
  HUNCH_HOST_DEVICE auto soft_sum(std::int64_t n, const Terms& terms) {
    using key = decltype(terms.lowest);
    inner_->remember({});
    exchange(2 * shards_.most_tiles, [&](std::uint64_t* out) { put_soft_tiles(n, terms, out); });
    const std::int32_t groups = groups_of(n);
    shared_scratch& own = inner_->own();
    inner_->for_each(groups, [&, this](std::int64_t g) {
      soft_total<key> group{terms.lowest, 0.0};
      for_tiles_of(n, static_cast<std::int32_t>(g), 2, [&](const std::uint64_t* tile) {
        group.add(static_cast<key>(kernel::bit_cast<std::int64_t>(tile[0])),
                  kernel::bit_cast<double>(tile[1]), terms);
      });
      own.tops[g] = group.top;
      own.groups[g] = group.sum;
    });
    const auto all = fold_groups<key>(groups, own, terms);
    const double inverse = terms.inverse(all.top);
    inner_->sync();  // every thread has read the groups
    inner_->for_each(groups, [&](std::int64_t g) {
      const auto at = static_cast<std::int32_t>(g);
      own.groups[g] = std::fma(scaled_group(at, own, all.top, terms), inverse, -0.0);
    });
    return all;
  }

  template <class F>
  HUNCH_HOST_DEVICE void tiles(std::int64_t n, std::int64_t first, std::int32_t count, const F& f) {
    const auto from = static_cast<std::int32_t>(first);
    const std::int32_t begin = kernel::larger(from, this->begin());
    const std::int32_t end = kernel::smaller(from + count, this->end());
    exchange(count, [&](std::uint64_t* out) {
      if (begin >= end) { return; }
      inner_->tiles(n, begin, end - begin, f);
      put_words(out + (begin - from), end - begin, inner_->scratch().lanes);
    });
    shared_scratch& own = inner_->own();
    inner_->for_each(count, [=, this, &own](std::int64_t k) {
      const std::int32_t holder = shards_.holder(from + static_cast<std::int32_t>(k));
      own.lanes[k] = kernel::bit_cast<double>(link_->from(holder)[k]);
    });
  }

  template <class T, class Gate, class Keep, class F, class Op>
  HUNCH_HOST_DEVICE T reduce_where(std::int64_t, T identity, const Gate& gate, const Keep& keep,
                                   const F& f, const Op& op) {
    const element_range own = held();
    const auto kept = [&, begin = own.begin](std::int64_t i, const auto& value) {
      return keep(begin + i, value);
    };
    return merge(
        inner_->reduce_where(own.size(), identity, shifted<Gate>{gate, own.begin / gate_elements},
                             kept, shifted<F>{f, own.begin}, op),
        op);
  }

  // For over_row.hpp.
  HUNCH_HOST_DEVICE element_range held() const { return shards_.held(); }

  /// What each rank has, combined: op is associative and commutative.
  template <class T, class Op>
  HUNCH_HOST_DEVICE T merge(const T& mine, const Op& op) {
    tell_value(mine);
    T all = value_of<T>(0);
    HUNCH_ROLLED
    for (std::int32_t r = 1; r < shards_.ranks; ++r) { all = op(all, value_of<T>(r)); }
    return all;
  }

  /// The first n elements of the list, each the sum of what the ranks have there.
  HUNCH_HOST_DEVICE void add_up_list(std::int32_t n) {
    exchange(n, [&](std::uint64_t* out) {
      const std::int64_t* const list = inner_->scratch().list;
      inner_->for_each(n, [=](std::int64_t k) { out[k] = static_cast<std::uint64_t>(list[k]); });
    });
    std::int64_t* const list = inner_->own().list;
    inner_->for_each(n, [=, this](std::int64_t k) {
      std::int64_t sum = 0;
      HUNCH_ROLLED
      for (std::int32_t r = 0; r < shards_.ranks; ++r) {
        sum += static_cast<std::int64_t>(link_->from(r)[k]);
      }
      list[k] = sum;
    });
  }

  template <class F>
  HUNCH_HOST_DEVICE auto on_holder(std::int64_t i, const F& f) {
    const std::int32_t holder = shards_.holder(static_cast<std::int32_t>(i / tile_elements));
    decltype(f()) value{};
    if (holder == shards_.rank) { value = f(); }
    tell_value(value);
    return value_of<decltype(f())>(holder);
  }

  /// Two exchanges: how many there are, and if they have room, which.
  template <class Keep, class F>
  HUNCH_HOST_DEVICE std::int32_t compact_row(const Keep& keep, const F& f, std::int32_t capacity) {
    const element_range own = held();
    const std::int32_t mine = inner_->compact(own.size(), shifted<Keep>{keep, own.begin},
                                              shifted<F>{f, own.begin}, capacity);
    tell_value(mine);
    std::int32_t total = 0;
    std::int32_t most = 0;
    HUNCH_ROLLED
    for (std::int32_t r = 0; r < shards_.ranks; ++r) {
      const auto count = value_of<std::int32_t>(r);
      total += count;
      most = kernel::larger(most, count);
    }
    if (total == 0 || total > capacity) { return total; }
    exchange(most + 1, [&](std::uint64_t* out) {
      const std::int64_t* const list = inner_->scratch().list;
      if (rank() == 0) { out[0] = static_cast<std::uint64_t>(mine); }
      inner_->for_each(mine,
                       [=](std::int64_t k) { out[1 + k] = static_cast<std::uint64_t>(list[k]); });
    });
    std::int64_t* to = inner_->own().list;
    HUNCH_ROLLED
    for (std::int32_t r = 0; r < shards_.ranks; ++r) {
      const std::uint64_t* const of = link_->from(r);
      const auto count = static_cast<std::int32_t>(of[0]);
      inner_->for_each(count,
                       [=](std::int64_t k) { to[k] = static_cast<std::int64_t>(of[1 + k]); });
      to += count;
    }
    return total;
  }

  /// What each rank does for itself.
  HUNCH_HOST_DEVICE Inner& inner() { return *inner_; }
  HUNCH_HOST_DEVICE std::int32_t ranks() const { return shards_.ranks; }
  /// The message of a rank in the last exchange.
  HUNCH_HOST_DEVICE const std::uint64_t* from(std::int32_t of) const { return link_->from(of); }

  /// Exchanges messages of so many words, which put(out) writes; collective.
  template <class Put>
  HUNCH_HOST_DEVICE void exchange(std::int32_t words, const Put& put) {
    const told_elements told = told_;
    std::int32_t children = 0;
    for (std::int32_t i = told.node + 1; i < told.nodes; ++i) {
      children += told.parents[i] == told.node ? 1 : 0;
    }
    std::uint64_t* const out = link_->outbox(words + children);
    put(out);
    if (children > 0) { put_told(told, out + words); }
    link_->exchange(*inner_, words + children);
    if (children > 0) { take_told(told, words); }
    told_ = {};
  }

  /// Adds such elements to the next message.
  HUNCH_HOST_DEVICE void tell_with_next(const told_elements& what) { told_ = what; }

 private:
  HUNCH_HOST_DEVICE std::int32_t begin() const { return shards_.begin(shards_.rank); }
  HUNCH_HOST_DEVICE std::int32_t end() const { return shards_.end(shards_.rank); }

  template <class T>
  static constexpr std::int32_t words_of = (sizeof(T) + 7) / 8;

  template <class T>
  HUNCH_HOST_DEVICE void tell_value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    exchange(words_of<T>, [&](std::uint64_t* out) {
      if (rank() != 0) { return; }
      std::uint64_t words[words_of<T>] = {};
      std::memcpy(words, &value, sizeof(T));
      for (std::int32_t k = 0; k < words_of<T>; ++k) { out[k] = words[k]; }
    });
  }
  template <class T>
  HUNCH_HOST_DEVICE T value_of(std::int32_t of) const {
    std::uint64_t words[words_of<T>];
    for (std::int32_t k = 0; k < words_of<T>; ++k) { words[k] = link_->from(of)[k]; }
    T value;
    std::memcpy(&value, words, sizeof(T));
    return value;
  }

  /// use(i, at) for the nodes i whose elements are told, `at` counts them.
  template <class Use>
  HUNCH_HOST_DEVICE void for_told(const told_elements& told, const Use& use) const {
    inner_->for_each(told.nodes - told.node - 1, [=](std::int64_t k) {
      const std::int32_t i = told.node + 1 + static_cast<std::int32_t>(k);
      if (told.parents[i] != told.node) { return; }
      std::int32_t at = 0;
      for (std::int32_t j = told.node + 1; j < i; ++j) {
        at += told.parents[j] == told.node ? 1 : 0;
      }
      use(i, at);
    });
  }
  HUNCH_HOST_DEVICE void put_told(const told_elements& told, std::uint64_t* out) const {
    for_told(told, [=, own = held()](std::int32_t i, std::int32_t at) {
      const std::int64_t element = told.tokens[i];
      std::uint64_t bits = 0;
      if (own.contains(element)) {
        std::memcpy(&bits, static_cast<const char*>(told.row) + element * told.element_bytes,
                    static_cast<std::size_t>(told.element_bytes));
      }
      out[at] = bits;
    });
  }
  HUNCH_HOST_DEVICE void take_told(const told_elements& told, std::int32_t words) const {
    for_told(told, [=, this](std::int32_t i, std::int32_t at) {
      const std::int64_t element = told.tokens[i];
      const bool exists = element >= 0 && element < shards_.size;
      const std::int32_t holder =
          exists ? shards_.holder(static_cast<std::int32_t>(element / tile_elements)) : 0;
      told.to[i] = link_->from(holder)[words + at];
    });
  }

  /// use(first, count) for the tiles of this rank, as many at a time as there are lanes.
  template <class Use>
  HUNCH_HOST_DEVICE void for_own_tiles(const Use& use) const {
    for (std::int32_t first = begin(); first < end(); first += lane_count) {
      use(first, kernel::smaller(end() - first, lane_count));
    }
  }
  HUNCH_HOST_DEVICE void put_words(std::uint64_t* out, std::int32_t count, const double* values) {
    inner_->for_each(count,
                     [=](std::int64_t k) { out[k] = kernel::bit_cast<std::uint64_t>(values[k]); });
  }
  template <class Terms>
  HUNCH_HOST_DEVICE void put_soft_tiles(std::int64_t n, const Terms& terms, std::uint64_t* out) {
    for_own_tiles([&](std::int32_t first, std::int32_t count) {
      std::uint64_t* const to = out + 2 * (first - begin());
      if constexpr (Totalled<Terms>) {
        inner_->for_each(count, [=, &terms](std::int64_t k) {
          put_soft(to + 2 * k, terms.tiles[first + k].top, terms.tiles[first + k].sum);
        });
      } else {
        inner_->soft_tiles(n, first, count, terms);
        const shared_scratch& own = inner_->scratch();
        inner_->for_each(
            count, [=, &own](std::int64_t k) { put_soft(to + 2 * k, own.tops[k], own.lanes[k]); });
      }
    });
  }
  HUNCH_HOST_DEVICE static void put_soft(std::uint64_t* out, std::int64_t top, double sum) {
    out[0] = static_cast<std::uint64_t>(top);
    out[1] = kernel::bit_cast<std::uint64_t>(sum);
  }

  /// use(words) with what the holder of each tile of group g has told of it, `each` words.
  template <class Use>
  HUNCH_HOST_DEVICE void for_tiles_of(std::int64_t n, std::int32_t g, std::int32_t each,
                                      const Use& use) const {
    tiles_of_group(n, g, [&](std::int64_t first, std::int64_t) {
      const auto tile = static_cast<std::int32_t>(first / tile_elements);
      const std::int32_t holder = shards_.holder(tile);
      use(link_->from(holder) + std::int64_t{each} * (tile - shards_.begin(holder)));
    });
  }
  /// The sums of the groups from word `which` of each tile.
  HUNCH_HOST_DEVICE void take_groups(std::int64_t n, std::int32_t each, std::int32_t which) {
    shared_scratch& own = inner_->own();
    inner_->for_each(groups_of(n), [&, this](std::int64_t g) {
      const auto at = static_cast<std::int32_t>(g);
      double sum = 0.0;
      for_tiles_of(n, at, each, [&](const std::uint64_t* tile) {
        sum += kernel::bit_cast<double>(tile[which]);
      });
      own.groups[g] = sum;
    });
  }
  HUNCH_HOST_DEVICE double total_of_groups(std::int64_t n) const {
    double total = 0.0;
    for (std::int32_t g = 0; g < groups_of(n); ++g) { total += inner_->scratch().groups[g]; }
    return total;
  }

  Inner* inner_;
  Link* link_;
  row_shards shards_;
  told_elements told_;
};

}  // namespace hunch::team
