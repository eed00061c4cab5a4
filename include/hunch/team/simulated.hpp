// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

#include <hunch/team/canonical.hpp>
#include <hunch/team/team.hpp>

namespace hunch::team {

/// A team of N host threads and a barrier, for tests: the same bodies run with the same kind of
/// sharing as on a GPU, so a thread sanitizer reports the races that they would have there.
class simulated {
 public:
  static constexpr std::size_t slot_bytes = 64;

  /// What the ranks of one team share.
  class block {
   public:
    explicit block(std::int32_t ranks)
        : ranks_(ranks), barrier_(ranks), slots_(static_cast<std::size_t>(ranks)) {}

   private:
    friend class simulated;
    struct alignas(slot_bytes) slot {
      std::byte bytes[slot_bytes];
    };

    std::int32_t ranks_;
    std::barrier<> barrier_;
    std::vector<slot> slots_;
    shared_scratch scratch_;
  };

  simulated(block& shared, std::int32_t rank) : shared_(&shared), rank_(rank) {}

  /// Runs body(team, index) for index in [0, count) with `ranks` threads each, one team after the
  /// other. Returns when all are done.
  template <class Body>
  static void launch(std::int32_t ranks, std::int32_t count, const Body& body) {
    block shared(ranks);
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&shared, &body, rank, count] {
        simulated team(shared, rank);
        for (std::int32_t index = 0; index < count; ++index) {
          body(team, index);
          team.sync();
        }
      });
    }
    for (std::thread& t : threads) { t.join(); }
  }

  std::int32_t size() const { return shared_->ranks_; }
  std::int32_t rank() const { return rank_; }
  void sync() { shared_->barrier_.arrive_and_wait(); }

  template <class F>
  void for_each(std::int64_t n, F&& f) {
    for (std::int64_t i = rank_; i < n; i += size()) { f(i); }
    sync();
  }

  template <class T, class F, class Op>
  T reduce(std::int64_t n, T identity, F&& f, Op&& op) {
    T mine = identity;
    for (std::int64_t i = rank_; i < n; i += size()) { mine = op(mine, static_cast<T>(f(i))); }
    put(mine);
    sync();
    T result = identity;
    for (std::int32_t r = 0; r < size(); ++r) { result = op(result, get<T>(r)); }
    sync();  // before anyone writes its slot again
    return result;
  }

  template <class T, class Gate, class Keep, class F, class Op>
  T reduce_where(std::int64_t n, T identity, Gate&& gate, Keep&& keep, F&& f, Op&& op) {
    return reduce(
        n, identity,
        [&](std::int64_t i) {
          return keep(i, gate(i / team::gate_elements)) ? static_cast<T>(f(i)) : identity;
        },
        op);
  }

  template <class F>
  double sum(std::int64_t n, F&& f) {
    sync();  // the group sums of the last call have been read
    last_sum_ = {};
    const std::int32_t groups = groups_of(n);
    for (std::int32_t g = rank_; g < groups; g += size()) {
      scratch().groups[g] = group_sum(n, g, f);
    }
    sync();
    double total = 0.0;
    for (std::int32_t g = 0; g < groups; ++g) { total += scratch().groups[g]; }
    return total;
  }

  template <class F>
  two_sums sum_both(std::int64_t n, F&& f) {
    sync();  // the sums of the last call have been read
    last_sum_ = {};
    const std::int32_t groups = groups_of(n);
    for (std::int32_t g = rank_; g < groups; g += size()) {
      const two_sums group = group_sum_both(n, g, f);
      scratch().groups[g] = group.first;
      scratch().lanes[g] = group.second;
    }
    sync();
    two_sums total{0.0, 0.0};
    for (std::int32_t g = 0; g < groups; ++g) {
      total.first += scratch().groups[g];
      total.second += scratch().lanes[g];
    }
    return total;
  }

  template <class Terms>
  auto soft_sum(std::int64_t n, const Terms& terms) {
    using key = decltype(terms.lowest);
    sync();  // the group sums of the last call have been read
    last_sum_ = {};
    const std::int64_t per_group = tiles_per_group(n);
    const std::int32_t groups = groups_of(n);
    for (std::int32_t g = rank_; g < groups; g += size()) {
      soft_total<key> group{terms.lowest, 0.0};
      for (std::int64_t t = g * per_group; t < (g + 1) * per_group && t < tiles_of(n); ++t) {
        const std::int64_t begin = t * tile_elements;
        const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
        const key top = top_of(begin, end, terms);
        group.add(top, soft_tile(begin, end, top, terms), terms.rescale);
      }
      scratch().tops[g] = group.top;
      scratch().groups[g] = group.sum;
    }
    sync();
    const auto all = fold_groups<key>(groups, scratch(), terms);
    sync();
    for (std::int32_t g = rank_; g < groups; g += size()) {
      scratch().groups[g] = scaled_group(g, scratch(), all.top, terms);
    }
    sync();
    return all;
  }

  template <class F>
  void lanes(std::int64_t begin, std::int64_t end, F&& f) {
    sync();  // the lanes of the last call have been read
    for (std::int32_t l = rank_; l < lane_count; l += size()) {
      double sum = 0.0;
      for (std::int64_t i = begin + l; i < end; i += lane_count) {
        sum += static_cast<double>(f(i));
      }
      scratch().lanes[l] = sum;
    }
    sync();
  }

  template <class Keep, class F, class T>
  std::int32_t compact(std::int64_t n, Keep&& keep, F&& f, T* list, std::int32_t capacity) {
    std::int32_t mine = 0;
    for (std::int64_t i = rank_; i < n; i += size()) { mine += keep(i) ? 1 : 0; }
    put(mine);
    sync();  // also: the list of the last call has been read
    std::int32_t at = 0;
    std::int32_t total = 0;
    for (std::int32_t r = 0; r < size(); ++r) {
      at += r < rank_ ? get<std::int32_t>(r) : 0;
      total += get<std::int32_t>(r);
    }
    for (std::int64_t i = rank_; i < n; i += size()) {
      if (!keep(i)) { continue; }
      if (at < capacity) { list[at] = static_cast<T>(f(i)); }
      ++at;
    }
    sync();
    return total;
  }

  template <class T>
  T broadcast(T value, std::int32_t from) {
    if (rank_ == from) { put(value); }
    sync();
    const T result = get<T>(from);
    sync();
    return result;
  }

  shared_scratch& scratch() { return shared_->scratch_; }
  summed& last_sum() { return last_sum_; }

 private:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= slot_bytes);
    std::memcpy(shared_->slots_[static_cast<std::size_t>(rank_)].bytes, &value, sizeof(T));
  }
  template <class T>
  T get(std::int32_t rank) const {
    T value;
    std::memcpy(&value, shared_->slots_[static_cast<std::size_t>(rank)].bytes, sizeof(T));
    return value;
  }

  block* shared_;
  std::int32_t rank_;
  summed last_sum_;
};

static_assert(Team<simulated>);

}  // namespace hunch::team
