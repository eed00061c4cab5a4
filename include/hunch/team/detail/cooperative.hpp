// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
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
/// 2. `m.sync()` is a barrier of the team, `m.sync_part()` one of the part.
/// 3. `m.scratch()` is the part's own, `m.scratch(p)` that of part p; `m.slot(p, phase)`, for
///    phase 0 and 1, takes and gives a value: `put(v)`, `get<T>()`.
///    Between `m.begin_groups(groups, each)` and `m.end_groups(groups)` part g % `m.parts()` calls
///    `m.tell_sum(p, g, sum)` and, where `each` is two, `m.tell_top(p, g, top)` for each group g
///    below `groups` and each part p, and after them `groups` and `tops` are in its scratch.
///    `m.post(phase, v)`, which all threads of a part call with its v, and then
///    `m.posted<T>(phase, p)` do that for a value of each part. Both order what lies in the
///    scratch, and nothing else: they are no barrier of the team.
/// 4. `m.tile(begin, end, f)` is the canonical sum of a tile, `m.tile_both` that of both terms and
///    `m.soft_tile(begin, end, terms, likely)` its `soft_total`: sums on the crew's first thread,
///    the largest key on all. `m.from_first(v)` is that thread's v, on the first `m.parts()` of
///    them. `Machine::worker_type` is what bodies see of a worker, see worker.hpp.
/// 5. `m.combine(v, op)` combines the threads of a part and `m.scan(v, before)` is the total and
///    sets what is before, on all threads of the part.
/// 6. `Machine::add(to, v)` adds v >= 0 to an integer in the scratch that others add to, too,
///    `Machine::count(to)` less than 2^32 times 1 in all; `m.first_reaching(sums, wanted)`, of the
///    scratch, is that of canonical.hpp, on all threads.
/// 7. `m.terms<R>()` is room for `term_bytes` of R, that of the part.
/// 8. `m.remember(s)` makes s what `m.last_sum()` is; all threads of a part say the same.
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
    const std::int32_t groups = groups_of(n);
    machine_.begin_groups(groups, 1);  // the group sums of the last call have been read
    machine_.remember({});
    for_each_group(n, [&](std::int32_t g) {
      double group = 0.0;
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) {
        group += static_cast<double>(machine_.tile(begin, end, f));
      });
      share(g, group);
    });
    machine_.end_groups(groups);
    return fold_groups(groups,
                       [](const shared_scratch& own, std::int32_t g) { return own.groups[g]; });
  }

  template <class F>
  HUNCH_HOST_DEVICE two_sums sum_both(std::int64_t n, F&& f) {
    const std::int32_t groups = groups_of(n);
    machine_.begin_groups(groups, 2);  // the sums of the last call have been read
    machine_.remember({});
    for_each_group(n, [&](std::int32_t g) {
      two_sums group{0.0, 0.0};
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t end) {
        const two_sums tile = machine_.tile_both(begin, end, f);
        group.first += tile.first;
        group.second += tile.second;
      });
      share(g, group.first);
      const double second = machine_.from_first(group.second);
      share_beside(g, kernel::bit_cast<std::int64_t>(second));
    });
    machine_.end_groups(groups);
    return {fold_groups(groups,
                        [](const shared_scratch& own, std::int32_t g) { return own.groups[g]; }),
            fold_groups(groups, [](const shared_scratch& own, std::int32_t g) {
              return kernel::bit_cast<double>(own.tops[g]);
            })};
  }

  template <class Terms>
  HUNCH_HOST_DEVICE auto soft_sum(std::int64_t n, const Terms& terms) {
    using key = decltype(terms.lowest);
    const std::int32_t groups = groups_of(n);
    machine_.begin_groups(groups, 2);  // the group sums of the last call have been read
    machine_.remember({});
    // At first that of a logit of 0, as of most rows; then that of the tile before.
    frame_of<Terms> likely{};
    ask_for_first_tile(n, terms);
    for_each_group(n, [&](std::int32_t g) {
      ask_for_group(n, g + machine_.crews() * machine_.parts(), terms);
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
      share(g, group.sum);
      share_beside(g, group.top);
    });
    machine_.end_groups(groups);
    // Each group by one thread, in the frame of the largest; in order they are only added.
    shared_scratch& own = machine_.scratch();
    soft_total<key> all{terms.lowest, 0.0};
    for (std::int32_t g = 0; g < groups; ++g) {
      const auto top = static_cast<key>(own.tops[g]);
      all.top = top > all.top ? top : all.top;
    }
    for_own_groups(groups,
                   [&](std::int32_t g) { own.groups[g] = scaled_group(g, own, all.top, terms); });
    machine_.sync_part();
    all.sum = fold_groups(
        groups, [](const shared_scratch& from, std::int32_t g) { return from.groups[g]; });
    machine_.sync_part();
    const double inverse = terms.inverse(all.top);
    for_own_groups(groups,
                   [&](std::int32_t g) { own.groups[g] = std::fma(own.groups[g], inverse, -0.0); });
    machine_.sync_part();
    return all;
  }

  /// Each part for itself: a tile is little. All threads compute, and those that have a lane add.
  template <class F>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE auto lanes(std::int64_t begin, std::int64_t end,
                                                      const F& f) {
    using real = decltype(f(begin));
    constexpr std::int32_t room = term_bytes / sizeof(real);
    real* const terms = machine_.template terms<real>();
    shared_scratch& own = machine_.scratch();
    const auto count = static_cast<std::int32_t>(end - begin);
    for (std::int32_t first = 0; first < count; first += room) {
      const std::int32_t last = first + room < count ? first + room : count;
      machine_.sync_part();  // what was there before has been read
      put_terms(begin, first, last, f, terms);
      machine_.sync_part();
      for (std::int32_t l = machine_.thread(); l < lane_count; l += machine_.threads()) {
        double sum = first == 0 ? 0.0 : own.lanes[l];
        HUNCH_ROLLED
        for (std::int32_t i = l; i < last - first; i += lane_count) {
          sum += static_cast<double>(terms[i]);
        }
        own.lanes[l] = sum;
      }
    }
    machine_.sync_part();
    for (std::int32_t s = machine_.thread(); s < strand_count; s += machine_.threads()) {
      own.strands[s] = strand_sum(own.lanes, s);
    }
    machine_.sync_part();
    if constexpr (room >= tile_elements) {
      return [terms, begin](std::int64_t i) { return terms[i - begin]; };
    } else {
      return f;
    }
  }

  /// Each part for itself.
  template <class F>
  HUNCH_HOST_DEVICE void tiles(std::int64_t n, std::int64_t first, std::int32_t count, F&& f) {
    machine_.sync_part();  // the lanes of the last call have been read
    for_crew_tiles(n, first, count, [&](std::int32_t k, std::int64_t begin, std::int64_t end) {
      const auto sum = static_cast<double>(machine_.tile(begin, end, f));
      if (machine_.crew_thread() == 0) { machine_.scratch().lanes[k] = sum; }
    });
    machine_.sync_part();
  }

  /// Of both terms: of the first in the lanes, of the second in the groups.
  template <class F>
  HUNCH_HOST_DEVICE void tiles_both(std::int64_t n, std::int64_t first, std::int32_t count, F&& f) {
    machine_.sync_part();  // what was there before has been read
    for_crew_tiles(n, first, count, [&](std::int32_t k, std::int64_t begin, std::int64_t end) {
      const two_sums sums = machine_.tile_both(begin, end, f);
      if (machine_.crew_thread() == 0) {
        machine_.scratch().lanes[k] = sums.first;
        machine_.scratch().groups[k] = sums.second;
      }
    });
    machine_.sync_part();
  }
  /// The totals of `soft_sum`: largest keys in the tops, sums in the lanes.
  template <class Terms>
  HUNCH_HOST_DEVICE void soft_tiles(std::int64_t n, std::int64_t first, std::int32_t count,
                                    const Terms& terms) {
    machine_.sync_part();  // what was there before has been read
    frame_of<Terms> likely{};
    for_crew_tiles(n, first, count, [&](std::int32_t k, std::int64_t begin, std::int64_t end) {
      const auto total = machine_.soft_tile(begin, end, terms, likely);
      if (machine_.crew_thread() == 0) {
        machine_.scratch().tops[k] = total.top;
        machine_.scratch().lanes[k] = total.sum;
      }
    });
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
      for (std::int32_t p = 0; p < machine_.parts(); ++p) { machine_.slot(p, phase_).put(value); }
    }
    machine_.sync();
    return machine_.slot(machine_.part(), phase_).template get<T>();
  }

  HUNCH_HOST_DEVICE const shared_scratch& scratch() const { return machine_.scratch(); }
  /// The same, for `team::sharded`, by threads that have it to themselves.
  HUNCH_HOST_DEVICE shared_scratch& own() { return machine_.scratch(); }
  HUNCH_HOST_DEVICE const summed& last_sum() const { return machine_.last_sum(); }
  HUNCH_HOST_DEVICE void remember(const summed& what) { machine_.remember(what); }

 protected:
  HUNCH_HOST_DEVICE Machine& machine() { return machine_; }

 private:
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

  /// Calls use(k, begin, end) for the tiles first + k of a row that are this crew's, k < count.
  template <class Use>
  HUNCH_HOST_DEVICE void for_crew_tiles(std::int64_t n, std::int64_t first, std::int32_t count,
                                        Use&& use) {
    for (std::int32_t k = machine_.crew(); k < count; k += machine_.crews()) {
      const std::int64_t begin = (first + k) * tile_elements;
      use(k, begin, begin + tile_elements < n ? begin + tile_elements : n);
    }
  }

  /// Asks for what a thread reads of its first tile after its first loads.
  template <class Terms>
  HUNCH_HOST_DEVICE void ask_for_first_tile(std::int64_t n, const Terms& terms) {
    if constexpr (!Totalled<Terms>) {
      const std::int64_t first = std::int64_t{machine_.crew()} * machine_.parts() + machine_.part();
      const std::int64_t begin = first * tiles_per_group(n) * tile_elements;
      const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
      const std::int64_t from = begin + std::int64_t{Machine::loads} * lane_count;
      if (from < end) { machine_.ask_for(terms.elements + from, terms.elements + end); }
    }
  }
  /// Asks for the first tile of a group, which comes after the one that is read next.
  template <class Terms>
  HUNCH_HOST_DEVICE void ask_for_group(std::int64_t n, std::int32_t g, const Terms& terms) {
    if constexpr (!Totalled<Terms>) {
      const std::int64_t begin = std::int64_t{g} * tiles_per_group(n) * tile_elements;
      const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
      if (begin < end) { machine_.ask_for(terms.elements + begin, terms.elements + end); }
    }
  }

  /// terms[i - first] = f(begin + i) for i in [first, last), by the threads of a part.
  template <class F, class Real>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void put_terms(std::int64_t begin, std::int32_t first,
                                                          std::int32_t last, const F& f,
                                                          Real* terms) const {
    constexpr std::int32_t ahead = kernel::smaller(detail::elements_ahead<F>(Machine::loads), 8);
    const std::int32_t step = machine_.threads();
    std::int32_t i = first + machine_.thread();
    HUNCH_ROLLED
    for (; i + (ahead - 1) * step < last; i += ahead * step) {
      Real term[ahead];
      HUNCH_UNROLLED
      for (std::int32_t k = 0; k < ahead; ++k) { term[k] = f(begin + (i + k * step)); }
      HUNCH_UNROLLED
      for (std::int32_t k = 0; k < ahead; ++k) { terms[i + k * step - first] = term[k]; }
    }
    HUNCH_ROLLED
    for (; i < last; i += step) { terms[i - first] = f(begin + i); }
  }

  /// Calls use(g) for the groups of this thread of a part.
  template <class Use>
  HUNCH_HOST_DEVICE void for_own_groups(std::int32_t groups, Use&& use) {
    HUNCH_ROLLED
    for (std::int32_t g = machine_.thread(); g < groups; g += machine_.threads()) { use(g); }
  }

  /// The sum of what the groups have, in order.
  template <class Value>
  HUNCH_HOST_DEVICE double fold_groups(std::int32_t groups, const Value& value) const {
    const shared_scratch& own = machine_.scratch();
    double total = 0.0;
    for (std::int32_t g = 0; g < groups; ++g) { total += value(own, g); }
    return total;
  }

  /// Tells each part the sum of a group, which the first thread of this crew has.
  HUNCH_HOST_DEVICE void share(std::int32_t g, double sum) {
    const double shared = machine_.from_first(sum);
    for (std::int32_t p = machine_.crew_thread(); p < machine_.parts(); p += machine_.crew_size()) {
      machine_.tell_sum(p, g, shared);
    }
  }
  /// And what goes with it, which all threads of the crew have that tell.
  HUNCH_HOST_DEVICE void share_beside(std::int32_t g, std::int64_t beside) {
    for (std::int32_t p = machine_.crew_thread(); p < machine_.parts(); p += machine_.crew_size()) {
      machine_.tell_top(p, g, beside);
    }
  }

  /// Puts a value that all threads of this part have where each part finds it. What was put before
  /// the last time may be overwritten.
  template <class T>
  HUNCH_HOST_DEVICE void tell_parts(const T& value) {
    phase_ ^= 1;
    machine_.post(phase_, value);
  }
  template <class T>
  HUNCH_HOST_DEVICE T posted(std::int32_t part) {
    return machine_.template posted<T>(phase_, part);
  }

  Machine machine_;
  std::int32_t phase_ = 0;
};

}  // namespace hunch::team
