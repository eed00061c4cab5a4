// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <mpi.h>

#include <hunch/collective/collective.hpp>
#include <hunch/core/message.hpp>

namespace hunch::collective {

/// Ranks that are processes, by MPI; not part of hunch.hpp, since it needs <mpi.h>. Each rank sends
/// its message to every other: one hop, the least there is for the few ranks and few bytes of a
/// step, and MPI_Allgather knows neither failed nor silent ranks.
///
/// It waits by polling, so that a rank keeps a processor busy. MPI is initialised before and
/// finalised after it, and lets the threads that use it call. Where not all send the same number of
/// bytes, the first rank that differs from rank 0 is named on all. A rank that comes too late may
/// still complete the round, and finds the others silent in the next.
///
/// Open MPI asks the receiver before it sends more than 4 KiB within a machine; with
/// `--mca btl_vader_eager_limit 65536` such messages take a third of the time.
class mpi {
 public:
  /// All of `ranks` construct it; it uses a duplicate.
  explicit mpi(MPI_Comm ranks, std::chrono::milliseconds timeout = std::chrono::seconds(30));
  ~mpi();
  mpi(const mpi&) = delete;
  mpi& operator=(const mpi&) = delete;

  std::int32_t size() const { return static_cast<std::int32_t>(peers_.size()); }
  std::int32_t rank() const { return rank_; }

  /// Allocates only where more than 32 KiB are sent, and more than ever before.
  void all_gather(const void* mine, std::size_t bytes, void* all);
  void fail() noexcept;

 private:
  using clock = std::chrono::steady_clock;
  using reason = collective_error::reason;
  static constexpr std::string_view owner = "hunch::collective::mpi";

  /// A round begins with this, and what there is to send behind it, if that is not more than
  /// `short_bytes`. All receive as much as that may be: Open MPI 4.1 writes all of a message, even
  /// where there is room for less. What is longer follows when all have said that they send it.
  struct header {
    std::uint64_t round;
    std::uint64_t bytes;
    std::uint64_t failed;  ///< or 1, and there is nothing to send
  };
  static constexpr std::size_t short_bytes = std::size_t(1) << 15;
  static constexpr std::size_t room = short_bytes + 64;
  static_assert(sizeof(header) + short_bytes <= room);

  struct fault : detail::round_fault {
    int code;  ///< MPI's, where that is why
  };
  /// What goes on with another rank.
  struct peer {
    MPI_Request receive = MPI_REQUEST_NULL;
    MPI_Request send = MPI_REQUEST_NULL;
    bool heard = false;
  };

  static void demand(int code, std::string_view call);
  static std::string text(int code);

  peer& of(std::int32_t rank) { return peers_[static_cast<std::size_t>(rank)]; }
  template <class F>
  void each_other(const F& f) const {
    for (std::int32_t rank = 0; rank < size(); ++rank) {
      if (rank != rank_) { f(rank); }
    }
  }
  template <class Done>
  bool in_time(const Done& done) const;

  void begin(const header& head);
  bool exchange(std::byte* messages, std::size_t apart, std::size_t most, std::size_t bytes,
                int tag);
  bool settled(MPI_Request& request, std::int32_t rank);
  std::optional<detail::round_fault> judged() const;
  std::int32_t missing() const;
  void check(int code, std::int32_t rank);
  [[noreturn]] void break_off(detail::round_fault why, int code = MPI_SUCCESS);
  collective_error broken() const;

  std::int32_t rank_ = 0;
  std::chrono::milliseconds timeout_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  std::uint64_t round_ = 0;
  std::vector<peer> peers_;  ///< of each rank, this one too
  /// What each rank sends, first and then, in its own place what this one does.
  std::unique_ptr<std::byte[]> first_;
  std::unique_ptr<std::byte[]> long_;
  std::size_t long_bytes_ = 0;
  std::optional<fault> broken_;
};

static_assert(Collective<mpi>);

inline std::string mpi::text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) { return "unknown error"; }
  return std::string(text, static_cast<std::size_t>(length));
}

inline void mpi::demand(int code, std::string_view call) {
  if (code != MPI_SUCCESS) {
    throw std::runtime_error(message({owner, ": ", call, ": ", text(code)}));
  }
}

inline mpi::mpi(MPI_Comm ranks, std::chrono::milliseconds timeout)
    : timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365))) {
  if (timeout <= timeout.zero()) { refusal{owner}({"no time to wait"}); }
  int size = 0;
  int rank = 0;
  demand(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  demand(MPI_Comm_rank(ranks, &rank), "MPI_Comm_rank");
  rank_ = rank;
  peers_.resize(static_cast<std::size_t>(size));
  first_.reset(new std::byte[peers_.size() * room]);
  demand(MPI_Comm_dup(ranks, &ranks_), "MPI_Comm_dup");
  demand(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

inline mpi::~mpi() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) { return; }
  bool busy = false;
  for (peer& p : peers_) {
    for (MPI_Request* request : {&p.receive, &p.send}) {
      int done = 1;
      if (*request != MPI_REQUEST_NULL) { MPI_Test(request, &done, MPI_STATUS_IGNORE); }
      busy = busy || done == 0;
    }
  }
  // A send cannot be withdrawn, nor a message of which the first bytes are here: MPI may read and
  // write this memory for as long as there is a process.
  if (busy) {
    static_cast<void>(first_.release());
    static_cast<void>(long_.release());
  }
  // MPI may wait for all ranks here, and some are not to be waited for.
  if (!broken_) { MPI_Comm_free(&ranks_); }
}

/// Polls until done() says so; false when the time is up. A clock is looked at rarely, and others
/// are let onto the processor only after what a fast answer takes.
template <class Done>
bool mpi::in_time(const Done& done) const {
  constexpr std::int32_t many = 1 << 12;
  const auto deadline = clock::now() + timeout_;
  for (std::int32_t polls = 1; !done(); polls = std::min(polls + 1, many)) {
    if (polls % 64 == 0 && clock::now() > deadline) { return false; }
    if (polls == many) { std::this_thread::yield(); }
  }
  return true;
}

inline collective_error mpi::broken() const {
  const int code = broken_->code;
  return collective_error(owner, broken_->why, broken_->rank,
                          code == MPI_SUCCESS ? std::string() : text(code));
}

/// What is under way is withdrawn, as far as it can be; what MPI says to that changes nothing.
inline void mpi::break_off(detail::round_fault why, int code) {
  broken_ = fault{why, code};
  for (peer& p : peers_) {
    if (p.receive == MPI_REQUEST_NULL) { continue; }
    MPI_Cancel(&p.receive);
    int done = 0;
    for (int polls = 0; polls < 100 && done == 0; ++polls) {
      if (MPI_Test(&p.receive, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) { break; }
    }
  }
  throw broken();
}

inline void mpi::check(int code, std::int32_t rank) {
  if (code != MPI_SUCCESS) { break_off({reason::silent, rank}, code); }
}

/// Asks for one request at a time, for then MPI says plainly to which an error belongs.
inline bool mpi::settled(MPI_Request& request, std::int32_t rank) {
  if (request == MPI_REQUEST_NULL) { return true; }
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), rank);
  return done != 0;
}

/// Sends `bytes` of the own message to each other rank and receives at most `most` of its, to
/// messages that lie `apart`. Whether all is done in time.
inline bool mpi::exchange(std::byte* messages, std::size_t apart, std::size_t most,
                          std::size_t bytes, int tag) {
  each_other([&](std::int32_t from) {
    of(from).heard = false;
    check(MPI_Irecv(messages + static_cast<std::size_t>(from) * apart, static_cast<int>(most),
                    MPI_BYTE, from, tag, ranks_, &of(from).receive),
          from);
  });
  each_other([&](std::int32_t to) {
    check(MPI_Isend(messages + static_cast<std::size_t>(rank_) * apart, static_cast<int>(bytes),
                    MPI_BYTE, to, tag, ranks_, &of(to).send),
          to);
  });
  return in_time([&] {
    bool done = true;
    each_other([&](std::int32_t other) {
      peer& p = of(other);
      p.heard = settled(p.receive, other);
      done = settled(p.send, other) && p.heard && done;
    });
    return done;
  });
}

/// The first rank from which nothing has come, or else that has not taken what it was sent.
inline std::int32_t mpi::missing() const {
  const auto first = [&](MPI_Request peer::*request) {
    return std::find_if(peers_.begin(), peers_.end(),
                        [&](const peer& p) { return p.*request != MPI_REQUEST_NULL; });
  };
  auto found = first(&peer::receive);
  if (found == peers_.end()) { found = first(&peer::send); }
  return static_cast<std::int32_t>(found - peers_.begin());
}

/// Judges what has been heard of a round.
inline std::optional<detail::round_fault> mpi::judged() const {
  std::optional<std::uint64_t> bytes;
  std::optional<detail::round_fault> failed;
  for (std::int32_t rank = 0; rank < size(); ++rank) {
    const std::size_t at = static_cast<std::size_t>(rank);
    if (rank != rank_ && !peers_[at].heard) { continue; }
    header head;
    std::memcpy(&head, first_.get() + at * room, sizeof head);
    if (head.round != round_) { return detail::round_fault{reason::mismatched, rank}; }
    if (head.failed != 0) {
      if (!failed) { failed = {reason::failed, rank}; }
    } else if (head.bytes != bytes.value_or(head.bytes)) {
      return detail::round_fault{reason::mismatched, rank};
    } else {
      bytes = head.bytes;
    }
  }
  return failed;
}

/// Goes through a round as far as its first messages. Throws what is wrong with it; what has failed
/// is over for all ranks.
inline void mpi::begin(const header& head) {
  std::memcpy(first_.get() + static_cast<std::size_t>(rank_) * room, &head, sizeof head);
  const std::size_t behind = head.bytes <= short_bytes ? head.bytes : 0;
  const bool complete = exchange(first_.get(), room, room, sizeof head + behind, 0);
  const std::optional<detail::round_fault> wrong = judged();
  // Ranks that have seen what does not match may be silent because of it.
  if (wrong && wrong->why == reason::mismatched) { break_off(*wrong); }
  if (!complete) { break_off({reason::silent, missing()}); }
  ++round_;
  if (wrong) { throw collective_error(owner, wrong->why, wrong->rank); }
}

inline void mpi::all_gather(const void* mine, std::size_t bytes, void* all) {
  if (broken_) { throw broken(); }
  if (bytes > INT_MAX) { refusal{owner}({bytes, " bytes are more than MPI counts to"}); }
  const std::size_t own = static_cast<std::size_t>(rank_);
  const std::byte* messages = first_.get() + sizeof(header);
  std::size_t apart = room;
  if (bytes <= short_bytes) {
    detail::move_bytes(first_.get() + own * room + sizeof(header), mine, bytes);
    begin({round_, bytes, 0});
  } else {
    if (bytes > long_bytes_) {
      long_.reset(new std::byte[bytes * peers_.size()]);
      long_bytes_ = bytes;
    }
    detail::move_bytes(long_.get() + own * bytes, mine, bytes);
    begin({round_, bytes, 0});
    if (!exchange(long_.get(), bytes, bytes, bytes, 1)) { break_off({reason::silent, missing()}); }
    messages = long_.get();
    apart = bytes;
  }
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    detail::move_bytes(static_cast<std::byte*>(all) + rank * bytes, messages + rank * apart, bytes);
  }
}

inline void mpi::fail() noexcept {
  if (broken_) { return; }
  try {
    begin({round_, 0, 1});
  } catch (const std::exception&) {
    // It is this failure that comes back; what is worse is said by the next all_gather.
  }
}

}  // namespace hunch::collective
