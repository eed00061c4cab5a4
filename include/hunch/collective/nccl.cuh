// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>

#include <hunch/collective/collective.hpp>
#include <hunch/collective/detail/nccl_window.cuh>
#include <hunch/collective/peer_memory.hpp>
#include <hunch/core/cuda_error.cuh>
#include <hunch/core/message.hpp>

namespace hunch::collective {

/// Ranks with a device each, by NCCL 2.28 or newer. Compile with nvcc.
///
/// What `Collective` asks for goes through the host's memory, to the device and back, and waits for
/// the stream: it is for set-up and for what hosts have to tell each other. Kernels tell each other
/// what they find by `share`, see `executor::sharded_cuda`.
///
/// It waits by polling. NCCL does not know which rank is silent: the lowest other one is named. A
/// broken collective has aborted its communicator, which nobody uses or destroys then.
class nccl {
 public:
  /// All of `ranks` construct it, on the device of the communicator, which is current. \param
  /// stream for what is sent; nothing else is captured there while it is used. Both, and the
  /// device, stay the caller's.
  nccl(ncclComm_t ranks, cudaStream_t stream,
       std::chrono::milliseconds timeout = std::chrono::seconds(30));
  nccl(const nccl&) = delete;
  nccl& operator=(const nccl&) = delete;

  std::int32_t size() const { return size_; }
  std::int32_t rank() const { return rank_; }

  /// Allocates only where more than 4 KiB are sent, and more than ever before.
  void all_gather(const void* mine, std::size_t bytes, void* all);
  void fail() noexcept;

  /// The same for memory of the device, in the order of the stream; does not wait, and may be
  /// captured. That a rank is silent shows when somebody waits for the stream, and nobody breaks
  /// off.
  void all_gather_async(const void* mine, std::size_t bytes, void* all) {
    demand(ncclAllGather(mine, all, bytes, ncclInt8, ranks_, stream_), "ncclAllGather");
  }

  /// See `SharesMemory`: a window of symmetric memory, which is given up before the communicator.
  /// \throws std::runtime_error on all ranks where not all reach each other by loads and stores.
  std::shared_ptr<const peer_memory> share(std::size_t bytes);

 private:
  using clock = std::chrono::steady_clock;
  using reason = collective_error::reason;
  static constexpr std::string_view owner = "hunch::collective::nccl";

  /// A round begins with this, and what there is to send behind it, if it fits in `room`: as many
  /// bytes on all ranks, for NCCL does not notice where they differ. What is longer follows when
  /// all have said that they send it.
  struct header {
    std::uint64_t round;
    std::uint64_t bytes;
    std::uint64_t failed;  ///< or 1, and there is nothing to send
  };
  static constexpr std::size_t room = 4096;
  static constexpr std::size_t short_bytes = room - sizeof(header);

  /// Where messages lie on their way: that of this rank, and behind it those of all.
  struct messages {
    struct free_pinned {
      void operator()(std::byte* data) const { cudaFreeHost(data); }
    };
    struct free_device {
      void operator()(std::byte* data) const { cudaFree(data); }
    };
    std::size_t bytes = 0;  ///< of each, at most
    std::unique_ptr<std::byte, free_pinned> host;
    std::unique_ptr<std::byte, free_device> device;

    void make(std::size_t each, std::int32_t ranks);
    std::byte* of(std::int32_t rank, std::size_t each) const {
      return host.get() + (static_cast<std::size_t>(rank) + 1) * each;
    }
  };
  struct destroy_event {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };

  std::int32_t lowest_other() const { return rank_ == 0 && size_ > 1 ? 1 : 0; }
  void demand(ncclResult_t result, std::string_view call);
  void begin(const header& head);
  void gather(const messages& through, std::size_t bytes);
  std::optional<detail::round_fault> judged() const;
  template <class Done>
  void wait_until(const Done& done);
  [[noreturn]] void break_off(detail::round_fault why, std::string_view detail);
  void require_use() const {
    if (broken_) { throw collective_error(owner, broken_->why, broken_->rank, said_); }
  }

  ncclComm_t ranks_;
  cudaStream_t stream_;
  std::chrono::milliseconds timeout_;
  std::int32_t size_ = 0;
  std::int32_t rank_ = 0;
  std::uint64_t round_ = 0;
  messages first_;
  messages long_;
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy_event> sent_;
  std::optional<detail::round_fault> broken_;
  std::string said_;
  std::shared_ptr<bool> aborted_ = std::make_shared<bool>(false);
};

static_assert(SharesMemory<nccl>);

inline void nccl::messages::make(std::size_t each, std::int32_t ranks) {
  const std::size_t all = each * (static_cast<std::size_t>(ranks) + 1);
  void* raw = nullptr;
  hunch::detail::check(cudaHostAlloc(&raw, all, cudaHostAllocPortable), "cudaHostAlloc");
  host.reset(static_cast<std::byte*>(raw));
  hunch::detail::check(cudaMalloc(&raw, all), "cudaMalloc");
  device.reset(static_cast<std::byte*>(raw));
  bytes = each;
}

inline nccl::nccl(ncclComm_t ranks, cudaStream_t stream, std::chrono::milliseconds timeout)
    : ranks_(ranks),
      stream_(stream),
      timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365))) {
  if (timeout <= timeout.zero()) { refusal{owner}({"no time to wait"}); }
  demand(ncclCommCount(ranks, &size_), "ncclCommCount");
  demand(ncclCommUserRank(ranks, &rank_), "ncclCommUserRank");
  first_.make(room, size_);
  cudaEvent_t made = nullptr;
  hunch::detail::check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming),
                       "cudaEventCreateWithFlags");
  sent_.reset(made);
}

/// Polls until done() says so. Breaks off where NCCL reports an error, or the time is up.
template <class Done>
void nccl::wait_until(const Done& done) {
  const auto deadline = clock::now() + timeout_;
  while (!done()) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(ranks_, &state);
    for (const ncclResult_t found : {asked, state}) {
      if (found == ncclSuccess || found == ncclInProgress) { continue; }
      break_off({reason::silent, lowest_other()}, ncclGetErrorString(found));
    }
    if (clock::now() > deadline) {
      break_off({reason::silent, lowest_other()}, "or another one: NCCL does not say which");
    }
    std::this_thread::yield();
  }
}

/// A call on a communicator that does not block may be under way when it returns.
inline void nccl::demand(ncclResult_t result, std::string_view call) {
  if (result == ncclInProgress) {
    wait_until([&] {
      return ncclCommGetAsyncError(ranks_, &result) == ncclSuccess && result != ncclInProgress;
    });
  }
  if (result != ncclSuccess) {
    throw std::runtime_error(message({owner, ": ", call, ": ", ncclGetErrorString(result)}));
  }
}

inline void nccl::break_off(detail::round_fault why, std::string_view detail) {
  broken_ = why;
  said_ = detail;
  *aborted_ = true;
  ncclCommAbort(ranks_);
  throw collective_error(owner, why.why, why.rank, detail);
}

/// Sends so many bytes of the own message to all ranks, and waits for theirs.
inline void nccl::gather(const messages& through, std::size_t bytes) {
  const std::size_t all = bytes * static_cast<std::size_t>(size_);
  std::byte* const device = through.device.get();
  std::byte* const host = through.host.get();
  hunch::detail::check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
                       "cudaMemcpyAsync");
  all_gather_async(device, bytes, device + bytes);
  hunch::detail::check(
      cudaMemcpyAsync(host + bytes, device + bytes, all, cudaMemcpyDeviceToHost, stream_),
      "cudaMemcpyAsync");
  hunch::detail::check(cudaEventRecord(sent_.get(), stream_), "cudaEventRecord");
  wait_until([this] {
    const cudaError_t state = cudaEventQuery(sent_.get());
    if (state != cudaErrorNotReady) { hunch::detail::check(state, "cudaEventQuery"); }
    return state == cudaSuccess;
  });
}

/// Judges the first messages of a round.
inline std::optional<detail::round_fault> nccl::judged() const {
  std::optional<std::uint64_t> bytes;
  std::optional<detail::round_fault> failed;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    header head;
    std::memcpy(&head, first_.of(rank, room), sizeof head);
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
inline void nccl::begin(const header& head) {
  std::memcpy(first_.host.get(), &head, sizeof head);
  gather(first_, room);
  const std::optional<detail::round_fault> wrong = judged();
  if (wrong && wrong->why == reason::mismatched) { break_off(*wrong, {}); }
  ++round_;
  if (wrong) { throw collective_error(owner, wrong->why, wrong->rank); }
}

inline void nccl::all_gather(const void* mine, std::size_t bytes, void* all) {
  require_use();
  const bool is_short = bytes <= short_bytes;
  if (!is_short && bytes > long_.bytes) { long_.make(bytes, size_); }
  detail::move_bytes(is_short ? first_.host.get() + sizeof(header) : long_.host.get(), mine, bytes);
  begin({round_, bytes, 0});
  if (!is_short) { gather(long_, bytes); }
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    const std::byte* const from =
        is_short ? first_.of(rank, room) + sizeof(header) : long_.of(rank, bytes);
    detail::move_bytes(static_cast<std::byte*>(all) + static_cast<std::size_t>(rank) * bytes, from,
                       bytes);
  }
}

inline void nccl::fail() noexcept {
  if (broken_) { return; }
  try {
    begin({round_, 0, 1});
  } catch (const std::exception&) {
    // It is this failure that comes back; what is worse is said by the next all_gather.
  }
}

inline std::shared_ptr<const peer_memory> nccl::share(std::size_t bytes) {
  require_use();
  auto made = std::make_shared<detail::nccl_window>(ranks_, bytes, aborted_);
  demand(made->open(), "ncclCommWindowRegister");
  made->find_all(size_, stream_);
  all_gather(nullptr, 0, nullptr);  // now it is 0 everywhere
  return made;
}

}  // namespace hunch::collective
