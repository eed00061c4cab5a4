// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/crew.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/tile_sums.hpp>

namespace hunch::team {

/// The operations of a team of many threads, written once for thread blocks, for clusters of them
/// and for simulated ones; see `Team`.
///
/// The threads stand in parts, each with a scratch of its own. What is to be in the scratch is put
/// into that of every part, or made by every part for itself where that is less work than to wait
/// for the others; so a body reads what is near, and the bits are the same. Nobody reads the
/// scratch of another part, and every operation that has written to one ends with a barrier of the
/// whole team: when it returns, a part may end.
///
/// A `Machine` is what differs. In it, a crew is the threads of a part that sum a tile together,
/// see crew.hpp; all of them call `tile`, `tile_both`, `soft_tile` and `from_first`.
///
/// 1. `m.parts()`, `m.part()`; `m.threads()` of a part, `m.thread()`; `m.workers()` of a part,
///    `m.worker()`; `m.crews()` of a part, `m.crew()`; `m.crew_size()` threads of a crew,
///    `m.crew_thread()`; a thread has `Machine::loads` elements under way.
/// 2. `m.sync()` is a barrier of the team, `m.sync_part()` one of the part. `m.arrive()` and then
///    `m.wait()` are a barrier of the team in two halves, and no other one of the team between
///    them: what a thread does there need not wait for the others.
/// 3. `m.scratch()` is the part's own, `m.scratch(p)` that of part p; `m.slot(p, phase, i)`, for
///    phase 0 and 1 and i < `m.parts()`, takes and gives a value: `put(v)`, `get<T>()`.
/// 4. `m.tile(begin, end, f)` is the canonical sum of a tile, `m.tile_both` that of both terms and
///    `m.soft_tile(begin, end, terms, likely)` its `soft_total`: sums on the crew's first thread,
///    the largest key on all. `m.from_first(v)` is that thread's v, on the first `m.parts()` of
///    them. `Machine::worker_type` is what bodies see of a worker, see worker.hpp.
/// 5. `m.combine(v, op)` combines the threads of a part and `m.scan(v, before)` is the total and
///    sets what is before, on all threads of the part.
/// 6. `Machine::add(to, v)` adds v >= 0 to an integer in the scratch that others add to, too,
///    `Machine::count(to)` less than 2^32 times 1 in all; `m.first_reaching(sums, wanted)`, of the
///    scratch, is that of canonical.hpp, on all threads.
/// 7. `m.remember(s)` makes s what `m.last_sum()` is; all threads of a part say the same.
template <class Machine>
class cooperative {
 public:
  using worker_type = typename Machine::worker_type;

  HUNCH_HOST_DEVICE explicit cooperative(const Machine& machine) : machine_(machine) {}

  HUNCH_HOST_DEVICE std::int32_t size() const { return machine_.parts() * machine_.threads(); }
  HUNCH_HOST_DEVICE std::int32_t rank() const {
    return machine_.part() * machine_.threads() + machine_.thread();
  }
  HUNCH_HOST_DEVICE void sync() { machine_.sync(); }

  template <class F>
  HUNCH_HOST_DEVICE void for_each(std::int64_t n, F&& f) {
    for (std::int64_t i = rank(); i < n; i += size()) { f(i); }
    machine_.sync();
  }

  template <class F>
  HUNCH_HOST_DEVICE void for_each_worker(std::int32_t n, F&& f) {
    worker_type worker;
    const std::int32_t step = machine_.workers() * machine_.parts();
    for (std::int32_t i = machine_.worker() * machine_.parts() + machine_.part(); i < n;
         i += step) {
      f(worker, i);
    }
    machine_.sync();
  }

  template <class T, class F, class Op>
  HUNCH_HOST_DEVICE T reduce(std::int64_t n, T identity, F&& f, Op&& op) {
    // Few elements are combined by every part for itself: sooner than one hears of another.
    if (machine_.parts() == 1 || n <= list_capacity) {
      return machine_.combine(detail::fold_share<Machine::loads>(
                                  n, machine_.thread(), machine_.threads(), identity, f, op),
                              op);
    }
    const T of_part = machine_.combine(
        detail::fold_share<Machine::loads>(n, rank(), size(), identity, f, op), op);
    tell_parts(of_part);
    T result = identity;
    for (std::int32_t p = 0; p < machine_.parts(); ++p) { result = op(result, posted<T>(p)); }
    return result;
  }

  template <class T, class Gate, class Keep, class F, class Op>
  HUNCH_HOST_DEVICE T reduce_where(std::int64_t n, T identity, Gate&& gate, Keep&& keep, F&& f,
                                   Op&& op) {
    return reduce(
        n, identity,
        [&](std::int64_t i) {
          return keep(i, gate(i / gate_elements)) ? static_cast<T>(f(i)) : identity;
        },
        op);
  }

  template <class F>
  HUNCH_HOST_DEVICE double sum(std::int64_t n, F&& f) {
    arrival others(machine_);  // the group sums of the last call have been read
    machine_.remember({});
    for_each_group(n, [&](std::int32_t g) {
      double group = 0.0;
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) {
        group += static_cast<double>(machine_.tile(begin, end, f));
      });
      others.wait();
      share(group, [g](shared_scratch& to, double value) { to.groups[g] = value; });
    });
    others.wait();
    machine_.sync();
    double total = 0.0;
    for (std::int32_t g = 0; g < groups_of(n); ++g) { total += scratch().groups[g]; }
    return total;
  }

  template <class F>
  HUNCH_HOST_DEVICE two_sums sum_both(std::int64_t n, F&& f) {
    arrival others(machine_);  // the sums of the last call have been read
    machine_.remember({});
    for_each_group(n, [&](std::int32_t g) {
      two_sums group{0.0, 0.0};
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) {
        const two_sums tile = machine_.tile_both(begin, end, f);
        group.first += tile.first;
        group.second += tile.second;
      });
      others.wait();
      share(group.first, [g](shared_scratch& to, double value) { to.groups[g] = value; });
      share(group.second, [g](shared_scratch& to, double value) { to.lanes[g] = value; });
    });
    others.wait();
    machine_.sync();
    two_sums total{0.0, 0.0};
    for (std::int32_t g = 0; g < groups_of(n); ++g) {
      total.first += scratch().groups[g];
      total.second += scratch().lanes[g];
    }
    return total;
  }

  template <class Terms>
  HUNCH_HOST_DEVICE auto soft_sum(std::int64_t n, const Terms& terms) {
    using key = decltype(terms.lowest);
    arrival others(machine_);  // the group sums of the last call have been read
    machine_.remember({});
    // At first that of a logit of 0, as of most rows; then that of the tile before.
    frame_of<Terms> likely{};
    for_each_group(n, [&](std::int32_t g) {
      soft_total<key> group{terms.lowest, 0.0};
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) {
        if constexpr (Totalled<Terms>) {
          const soft_total<key> tile = terms.tiles[begin / tile_elements];
          group.add(tile.top, tile.sum, terms);
        } else {
          const soft_total<key> tile = machine_.soft_tile(begin, end, terms, likely);
          group.add(tile.top, tile.sum, terms);
        }
      });
      others.wait();
      share(group.sum, [g, top = group.top](shared_scratch& to, double value) {
        to.tops[g] = top;
        to.groups[g] = value;
      });
    });
    others.wait();
    machine_.sync();
    const std::int32_t groups = groups_of(n);
    shared_scratch& own = machine_.scratch();
    const auto all = fold_groups<key>(groups, own, terms);
    machine_.sync_part();
    const double inverse = terms.inverse(all.top);
    HUNCH_ROLLED
    for (std::int32_t g = machine_.thread(); g < groups; g += machine_.threads()) {
      own.groups[g] = std::fma(scaled_group(g, own, all.top, terms), inverse, -0.0);
    }
    machine_.sync_part();
    return all;
  }

  /// Each part for itself: a tile is little.
  template <class F>
  HUNCH_HOST_DEVICE void lanes(std::int64_t begin, std::int64_t end, F&& f) {
    machine_.sync_part();  // the lanes of the last call have been read
    for (std::int32_t l = machine_.thread(); l < lane_count; l += machine_.threads()) {
      using function = std::remove_cvref_t<F>;
      constexpr std::int32_t ahead = detail::elements_ahead<function>(Machine::loads);
      using real = decltype(f(begin));
      double sum = 0.0;
      std::int64_t i = begin + l;
      for (; i + (ahead - 1) * lane_count < end; i += ahead * lane_count) {
        real terms[ahead];
        HUNCH_UNROLLED
        for (std::int32_t k = 0; k < ahead; ++k) { terms[k] = f(i + k * lane_count); }
        HUNCH_UNROLLED
        for (std::int32_t k = 0; k < ahead; ++k) { sum += static_cast<double>(terms[k]); }
      }
      for (; i < end; i += lane_count) { sum += static_cast<double>(f(i)); }
      machine_.scratch().lanes[l] = sum;
    }
    machine_.sync_part();
    shared_scratch& own = machine_.scratch();
    for (std::int32_t s = machine_.thread(); s < strand_count; s += machine_.threads()) {
      own.strands[s] = strand_sum(own.lanes, s);
    }
    machine_.sync_part();
  }

  /// Each part for itself.
  template <class F>
  HUNCH_HOST_DEVICE void tiles(std::int64_t n, std::int64_t first, std::int32_t count, F&& f) {
    machine_.sync_part();  // the lanes of the last call have been read
    for (std::int32_t k = machine_.crew(); k < count; k += machine_.crews()) {
      const std::int64_t begin = (first + k) * tile_elements;
      const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
      const auto sum = static_cast<double>(machine_.tile(begin, end, f));
      if (machine_.crew_thread() == 0) { machine_.scratch().lanes[k] = sum; }
    }
    machine_.sync_part();
  }

  template <class F>
  HUNCH_HOST_DEVICE void fill(std::int32_t n, F&& f) {
    machine_.sync();  // the list of the last call has been read
    for (std::int32_t i = rank(); i < n; i += size()) {
      const auto value = static_cast<std::int64_t>(f(i));
      for (std::int32_t p = 0; p < machine_.parts(); ++p) { machine_.scratch(p).list[i] = value; }
    }
    machine_.sync();
  }

  /// Each part for itself: all know the value.
  HUNCH_HOST_DEVICE void put(std::int32_t i, std::int64_t value) {
    machine_.sync_part();  // this element of the list has been read
    if (machine_.thread() == 0) { machine_.scratch().list[i] = value; }
    machine_.sync_part();
  }

  template <class Keep, class F>
  HUNCH_HOST_DEVICE std::int32_t compact(std::int64_t n, Keep&& keep, F&& f,
                                         std::int32_t capacity) {
    std::int32_t mine = 0;
    for (std::int64_t i = rank(); i < n; i += size()) { mine += keep(i) ? 1 : 0; }
    machine_.sync_part();  // the list of the last call has been read, here
    std::int32_t at = 0;
    std::int32_t total = machine_.scan(mine, at);
    if (machine_.parts() > 1) {
      tell_parts(total);  // after it, by all parts
      total = 0;
      for (std::int32_t p = 0; p < machine_.parts(); ++p) {
        at += p < machine_.part() ? posted<std::int32_t>(p) : 0;
        total += posted<std::int32_t>(p);
      }
    }
    for (std::int64_t i = rank(); i < n; i += size()) {
      if (!keep(i)) { continue; }
      if (at < capacity) {
        const auto value = static_cast<std::int64_t>(f(i));
        for (std::int32_t p = 0; p < machine_.parts(); ++p) {
          machine_.scratch(p).list[at] = value;
        }
      }
      ++at;
    }
    machine_.sync();
    return total;
  }

  template <class F>
  HUNCH_HOST_DEVICE void fill_by_worker(std::int32_t n, F&& f) {
    machine_.sync();  // the list of the last call has been read
    const auto put = [this](std::int32_t k, std::int64_t value) {
      for (std::int32_t p = 0; p < machine_.parts(); ++p) { machine_.scratch(p).list[k] = value; }
    };
    for_each_worker(n, [&](worker_type& worker, std::int32_t i) { f(worker, i, put); });
  }

  /// Each part for itself: these are few elements.
  template <class Bin, class Amount>
  HUNCH_HOST_DEVICE found_bin find_bin(std::int64_t n, std::int64_t wanted, Bin&& bin,
                                       Amount&& amount) {
    std::int64_t* const sums = machine_.scratch().list;
    machine_.sync_part();  // the list of the last call has been read
    for (std::int32_t b = machine_.thread(); b < list_capacity; b += machine_.threads()) {
      sums[b] = 0;
    }
    machine_.sync_part();
    for (std::int64_t i = machine_.thread(); i < n; i += machine_.threads()) {
      const std::int32_t b = bin(i);
      if (b < 0) { continue; }
      if constexpr (std::is_same_v<std::remove_cvref_t<Amount>, one_each>) {
        Machine::count(sums[b]);
      } else {
        Machine::add(sums[b], amount(i));
      }
    }
    machine_.sync_part();
    return machine_.first_reaching(sums, wanted);
  }

  template <class T>
  HUNCH_HOST_DEVICE T broadcast(T value, std::int32_t from) {
    phase_ ^= 1;
    if (rank() == from) {
      for (std::int32_t p = 0; p < machine_.parts(); ++p) {
        machine_.slot(p, phase_, 0).put(value);
      }
    }
    machine_.sync();
    return posted<T>(0);
  }

  HUNCH_HOST_DEVICE const shared_scratch& scratch() const { return machine_.scratch(); }
  HUNCH_HOST_DEVICE const summed& last_sum() const { return machine_.last_sum(); }
  HUNCH_HOST_DEVICE void remember(const summed& what) { machine_.remember(what); }

 protected:
  HUNCH_HOST_DEVICE Machine& machine() { return machine_; }

 private:
  /// A barrier whose second half comes as late as possible: before the first write for others.
  class arrival {
   public:
    HUNCH_HOST_DEVICE explicit arrival(Machine& machine) : machine_(machine) { machine.arrive(); }
    HUNCH_HOST_DEVICE void wait() {
      if (!waited_) { machine_.wait(); }
      waited_ = true;
    }

   private:
    Machine& machine_;
    bool waited_ = false;
  };

  /// Calls use(g) for the groups of this crew; few groups are spread over all parts.
  template <class Use>
  HUNCH_HOST_DEVICE void for_each_group(std::int64_t n, Use&& use) {
    const std::int32_t groups = groups_of(n);
    const std::int32_t step = machine_.crews() * machine_.parts();
    for (std::int32_t g = machine_.crew() * machine_.parts() + machine_.part(); g < groups;
         g += step) {
      use(g);
    }
  }

  /// Calls write(scratch, value) for the scratch of each part, with the value of the crew's first
  /// thread.
  template <class Write>
  HUNCH_HOST_DEVICE void share(double value, Write&& write) {
    const double shared = machine_.from_first(value);
    for (std::int32_t p = machine_.crew_thread(); p < machine_.parts(); p += machine_.crew_size()) {
      write(machine_.scratch(p), shared);
    }
  }

  /// Puts a value that all threads of this part have where each part finds it. Slots of two phases
  /// take turns: a barrier lies between their being read and being written again.
  template <class T>
  HUNCH_HOST_DEVICE void tell_parts(const T& value) {
    phase_ ^= 1;
    for (std::int32_t p = machine_.thread(); p < machine_.parts(); p += machine_.threads()) {
      machine_.slot(p, phase_, machine_.part()).put(value);
    }
    machine_.sync();
  }
  template <class T>
  HUNCH_HOST_DEVICE T posted(std::int32_t part) {
    return machine_.slot(machine_.part(), phase_, part).template get<T>();
  }

  Machine machine_;
  std::int32_t phase_ = 0;
};

}  // namespace hunch::team
