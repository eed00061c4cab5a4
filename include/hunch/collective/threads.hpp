// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <hunch/collective/collective.hpp>
#include <hunch/core/message.hpp>

namespace hunch::collective {

/// Ranks that are threads of one process. This is a handle of one rank of a `group`, which outlives
/// it; a rank may have several, one after the other. Where not all send the same number of bytes,
/// the first rank that differs from rank 0 is named on all.
class threads {
 public:
  /// What the ranks share.
  class group {
   public:
    explicit group(std::int32_t ranks,
                   std::chrono::milliseconds timeout = std::chrono::seconds(30));
    group(const group&) = delete;
    group& operator=(const group&) = delete;

    std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }

   private:
    friend threads;

    /// What a rank says in a round.
    struct note {
      std::vector<std::byte> payload;  ///< its room only grows
      std::size_t bytes = 0;
      bool failed = false;
    };
    /// While a rank writes its note of a round, slow ones may read those of the round before, but
    /// no older ones: all have arrived in that round.
    struct alignas(64) member {
      note notes[2];
      std::uint64_t round = 0;  ///< which it takes part in next; under the mutex
    };

    member& of(std::int32_t rank) { return members_[static_cast<std::size_t>(rank)]; }
    std::optional<detail::round_fault> take_part(std::int32_t rank);
    std::optional<detail::round_fault> judged(std::uint64_t round) const;
    std::optional<detail::round_fault> broken();
    void break_off(detail::round_fault why);

    std::vector<member> members_;
    std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::int32_t arrived_ = 0;                      ///< in the round that is not complete
    std::optional<detail::round_fault> faults_[2];  ///< of the last two rounds
    std::optional<detail::round_fault> broken_;     ///< set once
    std::atomic<bool> is_broken_{false};
    std::atomic<std::uint64_t> complete_{0};  ///< rounds
  };

  threads(group& all, std::int32_t rank) : group_(&all), rank_(rank) {
    if (rank < 0 || rank >= all.size()) {
      refusal{owner}({"rank ", rank, " is not one of ", all.size(), " ranks"});
    }
  }

  std::int32_t size() const { return group_->size(); }
  std::int32_t rank() const { return rank_; }

  void all_gather(const void* mine, std::size_t bytes, void* all);
  void fail() noexcept;

 private:
  static constexpr std::string_view owner = "hunch::collective::threads";

  group* group_;
  std::int32_t rank_;
};

static_assert(Collective<threads>);

inline threads::group::group(std::int32_t ranks, std::chrono::milliseconds timeout)
    : members_(static_cast<std::size_t>(std::max(ranks, 0))),
      timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365))) {
  if (ranks < 1) { refusal{owner}({ranks, " ranks"}); }
  if (timeout <= timeout.zero()) { refusal{owner}({"no time to wait"}); }
}

/// Judges a round in which all have arrived.
inline std::optional<detail::round_fault> threads::group::judged(std::uint64_t round) const {
  const note* first = nullptr;
  std::optional<detail::round_fault> fault;
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    const note& said = members_[static_cast<std::size_t>(rank)].notes[round % 2];
    if (said.failed) {
      if (!fault) { fault = {collective_error::reason::failed, rank}; }
    } else if (first == nullptr) {
      first = &said;
    } else if (said.bytes != first->bytes) {
      return detail::round_fault{collective_error::reason::mismatched, rank};
    }
  }
  return fault;
}

/// Asked before a note is written: where nobody waits for the slow ones any more, they may still
/// read an old one.
inline std::optional<detail::round_fault> threads::group::broken() {
  if (!is_broken_.load(std::memory_order_acquire)) { return std::nullopt; }
  return broken_;
}

inline void threads::group::break_off(detail::round_fault why) {
  broken_ = why;
  is_broken_.store(true, std::memory_order_release);
}

/// Says what the note of `rank` says, and waits for the others.
inline std::optional<detail::round_fault> threads::group::take_part(std::int32_t rank) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  std::unique_lock lock(mutex_);
  if (broken_) { return broken_; }
  const std::uint64_t round = of(rank).round++;
  if (++arrived_ == size()) {
    faults_[round % 2] = judged(round);
    if (faults_[round % 2] && faults_[round % 2]->why == collective_error::reason::mismatched) {
      break_off(*faults_[round % 2]);
    }
    arrived_ = 0;
    complete_.store(round + 1, std::memory_order_release);
    lock.unlock();
    changed_.notify_all();
    return faults_[round % 2];
  }
  lock.unlock();
  const auto over = [&] { return complete_.load(std::memory_order_acquire) > round; };
  // A few microseconds: whoever sleeps loses far more.
  for (std::int32_t i = 0; i < 10'000; ++i) {
    if (over()) { return faults_[round % 2]; }
  }
  lock.lock();
  changed_.wait_until(lock, deadline, [&] { return over() || broken_; });
  if (over()) { return faults_[round % 2]; }
  if (!broken_) {
    const auto missing = std::find_if(members_.begin(), members_.end(),
                                      [&](const member& m) { return m.round <= round; });
    break_off(
        {collective_error::reason::silent, static_cast<std::int32_t>(missing - members_.begin())});
    changed_.notify_all();
  }
  return broken_;
}

inline void threads::all_gather(const void* mine, std::size_t bytes, void* all) {
  group::member& member = group_->of(rank_);
  std::optional<detail::round_fault> fault = group_->broken();
  const std::size_t side = member.round % 2;
  if (!fault) {
    group::note& said = member.notes[side];
    if (said.payload.size() < bytes) { said.payload.resize(bytes); }
    detail::move_bytes(said.payload.data(), mine, bytes);
    said.bytes = bytes;
    said.failed = false;
    fault = group_->take_part(rank_);
  }
  if (fault) { throw collective_error(owner, fault->why, fault->rank); }
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    detail::move_bytes(static_cast<std::byte*>(all) + static_cast<std::size_t>(rank) * bytes,
                       group_->of(rank).notes[side].payload.data(), bytes);
  }
}

inline void threads::fail() noexcept {
  if (group_->broken()) { return; }
  group::member& member = group_->of(rank_);
  member.notes[member.round % 2].failed = true;
  group_->take_part(rank_);
}

}  // namespace hunch::collective
