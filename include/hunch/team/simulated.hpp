// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <type_traits>
#include <vector>

#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/cooperative.hpp>
#include <hunch/team/detail/crew.hpp>
#include <hunch/team/detail/ranks.hpp>
#include <hunch/team/soft_sums.hpp>
#include <hunch/team/team.hpp>
#include <hunch/team/tile_sums.hpp>
#include <hunch/team/worker.hpp>

namespace hunch::team {

namespace detail {

/// What a crew of host threads shares.
struct host_crew_memory {
  static constexpr int threads = 4;

  rank_barrier barrier{threads};
  alignas(double) std::byte values[threads * sizeof(double)];
};

/// `Size` host threads as a crew, each of them a warp of its own; see crew.hpp.
template <int Size>
struct host_crew {
  static constexpr int size = Size;
  static constexpr int warp = 1;
  static constexpr int loads = 4;

  host_crew_memory* memory;
  std::int32_t rank;

  std::int32_t thread() const { return rank; }
  void sync() const { memory->barrier.arrive_and_wait(); }
  template <class Real>
  static Real fold(Real value) {
    return value;
  }
  template <class Key>
  static Key largest(Key value) {
    return value;
  }
  template <class T>
  T& between(std::int32_t i) const {
    static_assert(sizeof(T) <= sizeof(double));
    return reinterpret_cast<T*>(memory->values)[i];
  }
};

/// Host threads as the machine of a `cooperative` team. Each is a worker. The four of a part of
/// four are a crew; in other parts each is one, for barriers of threads take long.
class host_threads {
 public:
  using worker_type = single_thread;
  static constexpr std::size_t slot_bytes = 64;
  static constexpr int loads = 4;

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
    /// What the parts tell each other. Two exchanges take turns, as those of blocks do: what is
    /// told is counted where it arrives, and nobody waits for a barrier.
    struct inbox {
      double groups[max_groups];
      std::int64_t tops[max_groups];
      std::vector<value_slot> values;  ///< of each part
      std::atomic<std::int64_t> told{0};
    };
    struct part {
      part(std::int32_t parts, std::int32_t threads)
          : barrier(threads),
            of_thread(static_cast<std::size_t>(threads)),
            crews(static_cast<std::size_t>(threads / host_crew_memory::threads)) {
        for (inbox& i : inboxes) { i.values.resize(static_cast<std::size_t>(parts)); }
      }

      rank_barrier barrier;
      std::vector<value_slot> of_thread;
      value_slot posted[2];
      std::deque<host_crew_memory> crews;
      inbox inboxes[2];
      shared_scratch scratch;
      alignas(16) std::byte terms[term_bytes];
    };

    std::int32_t threads_;
    rank_barrier all_;
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
  std::int32_t crew_size() const {
    return threads() == host_crew_memory::threads ? host_crew_memory::threads : 1;
  }
  std::int32_t crews() const { return threads() / crew_size(); }
  std::int32_t crew() const { return thread_ / crew_size(); }
  std::int32_t crew_thread() const { return thread_ % crew_size(); }

  void sync() { shared_->all_.arrive_and_wait(); }
  void sync_part() { own().barrier.arrive_and_wait(); }

  shared_scratch& scratch() const { return own().scratch; }
  shared_scratch& scratch(std::int32_t p) const { return at(p).scratch; }
  value_slot& slot(std::int32_t p, std::int32_t phase) const { return at(p).posted[phase]; }
  template <class Real>
  Real* terms() const {
    return reinterpret_cast<Real*>(own().terms);
  }

  template <class Element>
  static void ask_for(const Element*, const Element*) {}

  void begin_groups(std::int32_t groups, std::int32_t each) {
    expect(groups * each + std::max(0, parts() - groups));
    if (part_ < groups) { return; }
    // A part without a group says so: see `cluster_inbox`.
    for (std::int32_t p = thread_; p < parts(); p += threads()) { tell(p); }
  }
  void tell_sum(std::int32_t p, std::int32_t g, double sum) const {
    inbox(p, turn_).groups[g] = sum;
    tell(p);
  }
  void tell_top(std::int32_t p, std::int32_t g, std::int64_t top) const {
    inbox(p, turn_).tops[g] = top;
    tell(p);
  }
  void end_groups(std::int32_t groups) {
    const storage::inbox& from = hear();
    for (std::int32_t g = thread_; g < groups; g += threads()) {
      own().scratch.groups[g] = from.groups[g];
      own().scratch.tops[g] = from.tops[g];
    }
    sync_part();
  }
  template <class T>
  void post(std::int32_t, const T& value) {
    expect(parts());
    for (std::int32_t p = thread_; p < parts(); p += threads()) {
      inbox(p, turn_).values[static_cast<std::size_t>(part_)].put(value);
      tell(p);
    }
    hear();
  }
  template <class T>
  T posted(std::int32_t, std::int32_t p) const {
    return inbox(part_, turn_ ^ 1).values[static_cast<std::size_t>(p)].template get<T>();
  }

  template <class F>
  auto tile(std::int64_t begin, std::int64_t end, const F& f) const {
    return by_crew([&](const auto& crew) { return crew_sum<loads>(crew, begin, end, f); });
  }
  template <class F>
  two_sums tile_both(std::int64_t begin, std::int64_t end, const F& f) const {
    return by_crew([&](const auto& crew) { return crew_sum_both(crew, begin, end, f); });
  }
  template <class Terms>
  auto soft_tile(std::int64_t begin, std::int64_t end, const Terms& terms,
                 frame_of<Terms>& likely) const {
    return by_crew(
        [&](const auto& crew) { return crew_soft_total(crew, begin, end, terms, likely); });
  }
  double from_first(double value) const {
    if (crew_size() == 1) { return value; }
    const host_crew<host_crew_memory::threads> crew = own_crew();
    crew.sync();  // what was there before has been read
    if (crew.thread() == 0) { crew.between<double>(0) = value; }
    crew.sync();
    return crew.between<double>(0);
  }
  const summed& last_sum() const { return last_sum_; }
  void remember(const summed& what) { last_sum_ = what; }

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

  static void add(std::int64_t& to, std::int64_t value) {
    std::atomic_ref<std::int64_t>(to).fetch_add(value, std::memory_order_relaxed);
  }
  static void count(std::int64_t& to) { add(to, 1); }
  static found_bin first_reaching(const std::int64_t* sums, std::int64_t wanted) {
    return team::first_reaching(sums, wanted);
  }

 protected:
  /// Begins an exchange. After it all threads of the part have read what the one before has told.
  void expect(std::int32_t words) {
    sync_part();
    due_[turn_] += words;
  }

 private:
  storage::part& at(std::int32_t p) const { return shared_->parts_[static_cast<std::size_t>(p)]; }
  storage::part& own() const { return at(part_); }
  storage::inbox& inbox(std::int32_t p, std::int32_t turn) const { return at(p).inboxes[turn]; }
  void tell(std::int32_t p) const { inbox(p, turn_).told.fetch_add(1, std::memory_order_release); }
  /// Waits for the words of this exchange, and returns them.
  const storage::inbox& hear() {
    const storage::inbox& from = inbox(part_, turn_);
    wait_until([&] { return from.told.load(std::memory_order_acquire) >= due_[turn_]; });
    turn_ ^= 1;
    return from;
  }
  host_crew<host_crew_memory::threads> own_crew() const {
    return {&own().crews[static_cast<std::size_t>(crew())], crew_thread()};
  }
  /// use(crew), that of this thread.
  template <class Use>
  auto by_crew(const Use& use) const {
    return crew_size() == 1 ? use(host_crew<1>{nullptr, 0}) : use(own_crew());
  }
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
  std::int32_t turn_ = 0;         ///< of the exchange
  std::int64_t due_[2] = {0, 0};  ///< words of all exchanges of a turn
  summed last_sum_;
};

}  // namespace detail

/// A team of host threads and barriers, for tests: the same bodies run with the same kind of
/// sharing as on a GPU, so a thread sanitizer reports the races that they would have there. Its
/// operations are the text that a GPU runs. Where nobody watches, its threads take turns; see
/// ranks.hpp.
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
    detail::run_ranks(blocks * ranks, [&shared, &body, count](std::int32_t rank) {
      simulated team(shared, rank);
      for (std::int32_t index = 0; index < count; ++index) {
        body(team, index);
        team.sync();
      }
    });
  }
};

static_assert(Team<simulated>);

}  // namespace hunch::team
