// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <thread>
#include <type_traits>
#include <vector>

#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/cooperative.hpp>
#include <hunch/team/four.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/team.hpp>
#include <hunch/team/tile_sums.hpp>
#include <hunch/team/worker.hpp>

namespace hunch::team {

namespace detail {

/// A function whose values come from its fours where there are four: what a device reads.
template <Vectorised F>
struct through_fours {
  const F& f;
  std::int64_t end;

  auto operator()(std::int64_t i) const {
    const std::int64_t first = i / 4 * 4;
    return first + 4 <= end ? f.four(first)[i - first] : f(i);
  }
};

/// Host threads as the machine of a `cooperative` team; each is a worker.
class host_threads {
 public:
  using worker_type = single_thread;
  static constexpr std::size_t slot_bytes = 64;

  struct alignas(slot_bytes) value_slot {
    std::byte bytes[slot_bytes];

    template <class T>
    void put(const T& value) {
      static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= slot_bytes);
      std::memcpy(bytes, &value, sizeof(T));
    }
    template <class T>
    T get() const {
      T value;
      std::memcpy(&value, bytes, sizeof(T));
      return value;
    }
  };

  /// What the threads of one team share.
  class storage {
   public:
    storage(std::int32_t parts, std::int32_t threads) : threads_(threads), all_(parts * threads) {
      for (std::int32_t p = 0; p < parts; ++p) { parts_.emplace_back(parts, threads); }
    }

   private:
    friend class host_threads;
    struct part {
      part(std::int32_t parts, std::int32_t threads)
          : barrier(threads),
            of_thread(static_cast<std::size_t>(threads)),
            posted(static_cast<std::size_t>(2 * parts)) {}

      std::barrier<> barrier;
      std::vector<value_slot> of_thread;
      std::vector<value_slot> posted;
      shared_scratch scratch;
    };

    std::int32_t threads_;
    std::barrier<> all_;
    std::deque<part> parts_;
  };

  host_threads(storage& shared, std::int32_t rank)
      : shared_(&shared), part_(rank / shared.threads_), thread_(rank % shared.threads_) {}

  std::int32_t parts() const { return static_cast<std::int32_t>(shared_->parts_.size()); }
  std::int32_t part() const { return part_; }
  std::int32_t threads() const { return shared_->threads_; }
  std::int32_t thread() const { return thread_; }
  std::int32_t workers() const { return threads(); }
  std::int32_t worker() const { return thread_; }
  static constexpr std::int32_t worker_size() { return 1; }
  static constexpr std::int32_t worker_thread() { return 0; }

  void sync() { shared_->all_.arrive_and_wait(); }
  void sync_part() { own().barrier.arrive_and_wait(); }

  shared_scratch& scratch() const { return own().scratch; }
  shared_scratch& scratch(std::int32_t p) const { return at(p).scratch; }
  value_slot& slot(std::int32_t p, std::int32_t phase, std::int32_t i) const {
    return at(p).posted[static_cast<std::size_t>(phase * parts() + i)];
  }

  template <class F>
  static auto tile(std::int64_t begin, std::int64_t end, const F& f) {
    return of_tile(begin, end, f, [=](const auto& g) { return tile_sum(begin, end, g); });
  }
  template <class F>
  static two_sums tile_both(std::int64_t begin, std::int64_t end, const F& f) {
    return of_tile(begin, end, f, [=](const auto& g) { return tile_sum_both(begin, end, g); });
  }
  template <class Terms>
  static auto top(std::int64_t begin, std::int64_t end, const Terms& terms) {
    return top_of(begin, end, terms);
  }
  static double from_first(double value) { return value; }
  const summed& last_sum() const { return last_sum_; }
  void remember(const summed& what) { last_sum_ = what; }

  template <class T, class F, class Op>
  static T fold(std::int64_t n, std::int64_t first, std::int64_t step, T value, const F& f,
                const Op& op) {
    const auto add = [&](const auto& g) {
      for (std::int64_t i = first; i < n; i += step) { value = op(value, static_cast<T>(g(i))); }
      return value;
    };
    if constexpr (Vectorised<F>) {
      if (f.is_aligned()) { return add(through_fours<F>{f, n}); }
    }
    return add(f);
  }

  template <class T, class Op>
  T combine(T mine, const Op& op) {
    tell_part(mine);
    T result = posted_by<T>(0);
    for (std::int32_t t = 1; t < threads(); ++t) { result = op(result, posted_by<T>(t)); }
    sync_part();  // before anyone writes its slot again
    return result;
  }
  std::int32_t scan(std::int32_t mine, std::int32_t& before) {
    tell_part(mine);
    std::int32_t total = 0;
    before = 0;
    for (std::int32_t t = 0; t < threads(); ++t) {
      before += t < thread_ ? posted_by<std::int32_t>(t) : 0;
      total += posted_by<std::int32_t>(t);
    }
    sync_part();
    return total;
  }

 private:
  /// sum(f), through fours where f has them.
  template <class F, class Sum>
  static auto of_tile(std::int64_t begin, std::int64_t end, const F& f, const Sum& sum) {
    if constexpr (Patched<F>) {
      if (f.is_plain(begin, end)) { return of_tile(begin, end, plain_part<F>{f}, sum); }
    } else if constexpr (Vectorised<F>) {
      if (f.is_aligned()) { return sum(through_fours<F>{f, end}); }
    }
    return sum(f);
  }

  storage::part& at(std::int32_t p) const { return shared_->parts_[static_cast<std::size_t>(p)]; }
  storage::part& own() const { return at(part_); }
  template <class T>
  void tell_part(const T& value) {
    own().of_thread[static_cast<std::size_t>(thread_)].put(value);
    sync_part();
  }
  template <class T>
  T posted_by(std::int32_t thread) const {
    return own().of_thread[static_cast<std::size_t>(thread)].template get<T>();
  }

  storage* shared_;
  std::int32_t part_;
  std::int32_t thread_;
  summed last_sum_;
};

}  // namespace detail

/// A team of host threads and barriers, for tests: the same bodies run with the same kind of
/// sharing as on a GPU, so a thread sanitizer reports the races that they would have there. Its
/// operations are the text that a GPU runs.
class simulated : public cooperative<detail::host_threads> {
 public:
  using storage = detail::host_threads::storage;

  simulated(storage& shared, std::int32_t rank) : cooperative(detail::host_threads(shared, rank)) {}

  /// Runs body(team, index) for index in [0, count) with `ranks` threads each, one team after the
  /// other. Returns when all are done.
  template <class Body>
  static void launch(std::int32_t ranks, std::int32_t count, const Body& body) {
    launch(1, ranks, count, body);
  }

  /// The same by a simulated cluster: `blocks` parts of `ranks` threads.
  template <class Body>
  static void launch(std::int32_t blocks, std::int32_t ranks, std::int32_t count,
                     const Body& body) {
    storage shared(blocks, ranks);
    const auto run = [&shared, &body, count](std::int32_t rank) {
      simulated team(shared, rank);
      for (std::int32_t index = 0; index < count; ++index) {
        body(team, index);
        team.sync();
      }
    };
    std::vector<std::thread> threads;
    for (std::int32_t rank = 1; rank < blocks * ranks; ++rank) { threads.emplace_back(run, rank); }
    run(0);  // the calling thread is one of them
    for (std::thread& t : threads) { t.join(); }
  }
};

static_assert(Team<simulated>);

}  // namespace hunch::team
