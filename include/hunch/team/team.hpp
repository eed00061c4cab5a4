// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/tile_sums.hpp>

namespace hunch {

namespace detail {

struct any_term {
  HUNCH_HOST_DEVICE float operator()(std::int64_t) const { return 0.0f; }
};
struct any_terms {
  HUNCH_HOST_DEVICE team::two_terms<float> operator()(std::int64_t) const { return {0.0f, 0.0f}; }
};
struct any_count {
  HUNCH_HOST_DEVICE int operator()(std::int64_t) const { return 0; }
};
struct any_op {
  HUNCH_HOST_DEVICE int operator()(int a, int) const { return a; }
};
struct any_put {
  template <class Worker, class Put>
  HUNCH_HOST_DEVICE void operator()(Worker&, std::int32_t, const Put&) const {}
};
struct any_gate {
  HUNCH_HOST_DEVICE bool operator()(std::int64_t, float) const { return false; }
};
struct any_action {
  HUNCH_HOST_DEVICE void operator()(std::int64_t) const {}
  template <class Worker>
  HUNCH_HOST_DEVICE void operator()(Worker&, std::int32_t) const {}
};

}  // namespace detail

namespace team {

/// Whether a team is always a single thread, by `static constexpr bool is_one_thread = true`. A
/// body may then do what saves operations, not what spreads them; its results are the same.
template <class T>
inline constexpr bool is_one_thread = requires {
  requires T::is_one_thread;
};

}  // namespace team

/// The threads that work on one row or one sequence together. A kernel body is a function object
/// that gets a team and leaves all its loops to it; so one text runs as a host thread (`serial`),
/// as a CUDA thread block (`block`), or as host threads with a barrier under a race detector
/// (`simulated`). All operations but `size`, `rank`, `scratch` and `last_sum` are collective.
///
/// 1. `t.size()` ranks, this one is `t.rank()`; `t.sync()` is a barrier that also makes writes to
///    shared memory visible.
/// 2. `t.for_each(n, f)` calls f(i) once for every i in [0, n), each on some rank, with a `sync`
///    after the last.
/// 3. `t.reduce(n, identity, f, op)` combines f(0), ..., f(n - 1); the result is on all ranks. The
///    order is free, so op must be exactly associative and commutative (max, min, integer sums).
///    `t.reduce_where(n, identity, gate, keep, f, op)` combines f(i) only for the i with
///    keep(i, gate(i / team::gate_elements)): for an f that is costly and rarely called.
/// 4. `t.sum(n, f)` adds f(0), ..., f(n - 1) in the canonical order (see canonical.hpp), the same
///    bits on every team; the result is on all ranks, its group sums in `t.scratch().groups`.
///    `t.sum_both(n, f)` adds both members of f(i), `team::two_terms`, in one pass; without group
///    sums. `t.soft_sum(n, terms)` is the largest key and the sum of the weights in its frame, tile
///    by tile, so that the row is read once (see `team::SoftTerms`), or not at all
///    (`team::totalled_terms`); with group sums like `sum`, relative to the weight of that key.
/// 5. `t.lanes(begin, end, f)` sets `t.scratch().lanes` to the sums of the 128 lanes of the tile
///    [begin, end), in double, each in order, and `t.scratch().strands` to those of its strands. It
///    returns a function g with g(i) = f(i) in the tile until the next `lanes`, which knows what
///    has been computed.
///    `t.tiles(n, first, count, f)` sets the lanes to the sums of the tiles first, ..., first +
///    count - 1 of [0, n), at most 128.
/// 6. `t.compact(n, keep, f, capacity)` sets the first elements of `t.scratch().list` to f(i) for
///    the i with keep(i), in any order and as far as there is room, `capacity` of
///    `team::list_capacity`; returns how many there are, on all ranks. `t.fill(n, f)` sets element
///    i of that list to f(i) for the i in [0, n), n <= `team::list_capacity`. `t.put(i, v)` sets
///    element i to v, which all ranks know, and leaves the others.
/// 7. `t.broadcast(v, from)` is rank `from`'s v on all ranks.
/// 8. `t.scratch()` is shared by the ranks, or a copy that those who are near each other share.
/// 9. `t.last_sum()` is what the group sums in the scratch are the sums of: `sum`, `sum_both` and
///    `soft_sum` forget it, and a body that knows may say so to all ranks: `t.remember(s)`.
/// 10. `t.for_each_worker(n, f)` calls f(worker, i) once for every i in [0, n), each by one of the
///    team's workers (see worker.hpp), `typename T::worker_type`, with a `sync` after the last.
/// 11. `t.fill_by_worker(n, f)` calls f(worker, i, put) likewise, where put(k, v), by any of the
///     worker's lanes, sets element k of the list to v. Each is set once; the others are lost.
/// 12. `t.find_bin(n, wanted, bin, amount)` adds amount(i) >= 0 to bin(i) for the i in [0, n), an
///     integer each, and finds the first bin with which the sums, from bin 0 on, reach `wanted` >
///     0: see `team::found_bin`. `team::list_capacity` bins; a negative one is none. Faster where
///     the amount is `team::one_each`. Uses the list.
///
/// Function objects are copied, once for each call or more often, and called as const: what they
/// change they refer to. None but those of `for_each` and `for_each_worker` changes anything.
///
/// Not required: a size that is a power of two, or more than one rank. A body may branch only on
/// collective results and on its arguments; else ranks would wait for each other for ever. And only
/// `sync`, `for_each` and `for_each_worker` are barriers for what a body itself writes: other
/// operations may end before all ranks have begun them.
template <class T>
concept Team = requires(T& t, std::int64_t n, double v) {
  { t.size() } -> std::convertible_to<std::int32_t>;
  { t.rank() } -> std::convertible_to<std::int32_t>;
  t.sync();
  t.for_each(n, detail::any_action{});
  { t.reduce(n, 0, detail::any_count{}, detail::any_op{}) } -> std::same_as<int>;
  {
    t.reduce_where(n, 0, detail::any_term{}, detail::any_gate{}, detail::any_count{},
                   detail::any_op{})
    } -> std::same_as<int>;
  { t.sum(n, detail::any_term{}) } -> std::same_as<double>;
  { t.sum_both(n, detail::any_terms{}) } -> std::same_as<team::two_sums>;
  { t.lanes(n, n, detail::any_term{})(n) } -> std::same_as<float>;
  t.tiles(n, n, 0, detail::any_term{});
  t.fill(0, detail::any_count{});
  t.put(0, n);
  { t.compact(n, detail::any_count{}, detail::any_count{}, 0) } -> std::same_as<std::int32_t>;
  { t.broadcast(v, 0) } -> std::same_as<double>;
  { t.scratch() } -> std::same_as<const team::shared_scratch&>;
  { t.last_sum() } -> std::same_as<const team::summed&>;
  t.remember(team::summed{});
  typename T::worker_type;
  t.for_each_worker(0, detail::any_action{});
  t.fill_by_worker(0, detail::any_put{});
  { t.find_bin(n, n, detail::any_count{}, detail::any_count{}) } -> std::same_as<team::found_bin>;
};

namespace team {

/// Loads that a thread of a device's team has under way while it reads a row.
inline constexpr int default_loads = 16;
/// The same by `static constexpr int loads` of a body, a power of two: more for one that does
/// little else, fewer for one that needs its registers for other things.
template <class Body>
inline constexpr int loads_of = default_loads;
template <class Body>
requires requires { Body::loads; }
inline constexpr int loads_of<Body> = Body::loads;

/// Blocks of a body that a multiprocessor has registers for, by `static constexpr int blocks`: more
/// than one for a body that is to overlap what it computes with what it waits for.
template <class Body>
inline constexpr int blocks_of = 1;
template <class Body>
requires requires { Body::blocks; }
inline constexpr int blocks_of<Body> = Body::blocks;

/// The total of n elements whose group sums a team remembers.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE double remembered_total(T& team, std::int64_t n) {
  double total = 0.0;
  for (std::int32_t g = 0; g < team::groups_of(n); ++g) { total += team.scratch().groups[g]; }
  return total;
}

}  // namespace team

}  // namespace hunch
