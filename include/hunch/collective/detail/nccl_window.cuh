// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <hunch/collective/peer_memory.hpp>
#include <hunch/core/cuda_error.cuh>

namespace hunch::detail {

/// to[r] = where a kernel of this rank finds rank r's part of a window. Before NCCL 2.29 only
/// devices are told. A template, since a header may not define any other kernel.
template <class Window>
__global__ void find_peers(Window window, int ranks, void** to) {
  for (int r = static_cast<int>(threadIdx.x); r < ranks; r += static_cast<int>(blockDim.x)) {
    to[r] = ncclGetPeerPointer(window, 0, r);
  }
}

/// Symmetric memory of a communicator.
class nccl_window final : public collective::peer_memory {
 public:
  /// \param aborted whether the communicator, and all that it had, is gone
  nccl_window(ncclComm_t ranks, std::size_t bytes, std::shared_ptr<const bool> aborted)
      : ranks_(ranks), bytes_(bytes), aborted_(std::move(aborted)) {
    if (ncclMemAlloc(&own_, bytes) != ncclSuccess) {
      throw std::runtime_error("hunch::collective::nccl: ncclMemAlloc: there is no memory");
    }
  }
  ~nccl_window() override {
    if (window_ != nullptr && !*aborted_) { ncclCommWindowDeregister(ranks_, window_); }
    ncclMemFree(own_);
  }
  nccl_window(const nccl_window&) = delete;
  nccl_window& operator=(const nccl_window&) = delete;

  void* of(std::int32_t rank) const override { return peers_[static_cast<std::size_t>(rank)]; }

  /// Collective; on a communicator that does not block it may be under way when it returns.
  ncclResult_t open() {
    return ncclCommWindowRegister(ranks_, own_, bytes_, &window_, NCCL_WIN_COLL_SYMMETRIC);
  }
  /// When it is open. Sets it to 0, and finds that of each rank.
  void find_all(std::int32_t ranks, cudaStream_t stream) {
    if (window_ == nullptr || ncclTeamLsa(ranks_).nRanks < ranks) {
      throw std::runtime_error(
          "hunch::collective::nccl: not all ranks reach the memory of all others");
    }
    peers_.resize(static_cast<std::size_t>(ranks));
    const std::size_t size = peers_.size() * sizeof(void*);
    void* found = nullptr;
    check(cudaMallocAsync(&found, size, stream), "cudaMallocAsync");
    find_peers<<<1, 32, 0, stream>>>(window_, ranks, static_cast<void**>(found));
    check(cudaGetLastError(), "find_peers");
    check(cudaMemcpyAsync(peers_.data(), found, size, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
    check(cudaFreeAsync(found, stream), "cudaFreeAsync");
    check(cudaMemsetAsync(own_, 0, bytes_, stream), "cudaMemsetAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

 private:
  ncclComm_t ranks_;
  std::size_t bytes_;
  std::shared_ptr<const bool> aborted_;
  void* own_ = nullptr;
  ncclWindow_t window_ = nullptr;
  std::vector<void*> peers_;
};

}  // namespace hunch::detail
