// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include <hunch/team/canonical.hpp>
#include <hunch/team/team.hpp>

namespace hunch::team {

/// A team of one CUDA thread block of `Threads` threads (a multiple of 32, one-dimensional).
///
/// `storage` belongs in shared memory, declared by the kernel that wraps the body. A tile of the
/// canonical sum is one warp's work: thread t holds the lanes 4t, ..., 4t + 3, so that the row is
/// read with 16 bytes per thread and the lanes fold with shuffles.
template <int Threads>
class block {
  static_assert(Threads % 32 == 0 && Threads > 0, "hunch: a block is made of whole warps");
  static constexpr std::size_t slot_bytes = 64;

 public:
  struct storage {
    // Raw bytes, because the type that a reduction works on is known only at the call: CUB's
    // warp-shuffle reduction keeps one value per warp and one aggregate.
    alignas(16) unsigned char bytes[(Threads / 32 + 2) * slot_bytes];
    shared_scratch scratch;
  };

  __device__ explicit block(storage& shared) : shared_(&shared) {}

  __device__ static constexpr std::int32_t size() { return Threads; }
  __device__ std::int32_t rank() const { return static_cast<std::int32_t>(threadIdx.x); }
  __device__ void sync() { __syncthreads(); }

  template <class F>
  __device__ void for_each(std::int64_t n, F&& f) {
    for (std::int64_t i = rank(); i < n; i += Threads) { f(i); }
    __syncthreads();
  }

  template <class T, class F, class Op>
  __device__ T reduce(std::int64_t n, T identity, F&& f, Op&& op) {
    T mine = identity;
    for (std::int64_t i = rank(); i < n; i += Threads) { mine = op(mine, static_cast<T>(f(i))); }
    using reducer = cub::BlockReduce<T, Threads>;
    static_assert(sizeof(typename reducer::TempStorage) <= sizeof(shared_->bytes));
    auto& temporary = reinterpret_cast<typename reducer::TempStorage&>(shared_->bytes);
    const T result = reducer(temporary).Reduce(mine, op);
    __syncthreads();
    return broadcast(result, 0);
  }

  template <class T, class Gate, class Keep, class F, class Op>
  __device__ T reduce_where(std::int64_t n, T identity, Gate&& gate, Keep&& keep, F&& f, Op&& op) {
    return reduce(
        n, identity,
        [&](std::int64_t i) {
          return keep(i, gate(i / team::gate_elements)) ? static_cast<T>(f(i)) : identity;
        },
        op);
  }

  template <class F>
  __device__ double sum(std::int64_t n, F&& f) {
    __syncthreads();  // the group sums of the last call have been read
    last_sum_ = {};
    const std::int32_t groups = groups_of(n);
    const std::int64_t per_group = tiles_per_group(n);
    for (std::int32_t g = rank() / 32; g < groups; g += Threads / 32) {
      double group = 0.0;
      const std::int64_t first = g * per_group;
      const std::int64_t last = first + per_group < tiles_of(n) ? first + per_group : tiles_of(n);
      for (std::int64_t t = first; t < last; ++t) {
        group += static_cast<double>(warp_tile(t * tile_elements, n, f));
      }
      if (rank() % 32 == 0) { shared_->scratch.groups[g] = group; }
    }
    __syncthreads();
    double total = 0.0;
    for (std::int32_t g = 0; g < groups; ++g) { total += shared_->scratch.groups[g]; }
    return total;
  }

  template <class F>
  __device__ two_sums sum_both(std::int64_t n, F&& f) {
    __syncthreads();  // the sums of the last call have been read
    last_sum_ = {};
    const std::int32_t groups = groups_of(n);
    for (std::int32_t g = rank() / 32; g < groups; g += Threads / 32) {
      two_sums group{0.0, 0.0};
      tiles_of_group(n, g, [&](std::int64_t begin, std::int64_t) {
        const two_sums tile = warp_tile_both(begin, n, f);
        group.first += tile.first;
        group.second += tile.second;
      });
      if (rank() % 32 == 0) {
        shared_->scratch.groups[g] = group.first;
        shared_->scratch.lanes[g] = group.second;
      }
    }
    __syncthreads();
    two_sums total{0.0, 0.0};
    for (std::int32_t g = 0; g < groups; ++g) {
      total.first += shared_->scratch.groups[g];
      total.second += shared_->scratch.lanes[g];
    }
    return total;
  }

  template <class Terms>
  __device__ auto soft_sum(std::int64_t n, const Terms& terms) {
    using key = decltype(terms.lowest);
    __syncthreads();  // the group sums of the last call have been read
    last_sum_ = {};
    const std::int64_t per_group = tiles_per_group(n);
    const std::int32_t groups = groups_of(n);
    for (std::int32_t g = rank() / 32; g < groups; g += Threads / 32) {
      soft_total<key> group{terms.lowest, 0.0};
      for (std::int64_t t = g * per_group; t < (g + 1) * per_group && t < tiles_of(n); ++t) {
        const std::int64_t begin = t * tile_elements;
        const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
        const key top = warp_top(begin, end, terms);
        const double sum = top <= terms.lowest
                               ? 0.0
                               : static_cast<double>(warp_tile(begin, n, [&](std::int64_t i) {
                                   return terms.weight(i, top);
                                 }));
        group.add(top, sum, terms.rescale);  // the sum is that of the warp's first thread
      }
      if (rank() % 32 == 0) {
        shared_->scratch.tops[g] = group.top;
        shared_->scratch.groups[g] = group.sum;
      }
    }
    __syncthreads();
    const auto all = fold_groups<key>(groups, shared_->scratch, terms);
    __syncthreads();
    for (std::int32_t g = rank(); g < groups; g += Threads) {
      shared_->scratch.groups[g] = scaled_group(g, shared_->scratch, all.top, terms);
    }
    __syncthreads();
    return all;
  }

  template <class F>
  __device__ void lanes(std::int64_t begin, std::int64_t end, F&& f) {
    __syncthreads();  // the lanes of the last call have been read
    for (std::int32_t l = rank(); l < lane_count; l += Threads) {
      double sum = 0.0;
      for (std::int64_t i = begin + l; i < end; i += lane_count) {
        sum += static_cast<double>(f(i));
      }
      shared_->scratch.lanes[l] = sum;
    }
    __syncthreads();
  }

  template <class Keep, class F, class T>
  __device__ std::int32_t compact(std::int64_t n, Keep&& keep, F&& f, T* list,
                                  std::int32_t capacity) {
    std::int32_t mine = 0;
    for (std::int64_t i = rank(); i < n; i += Threads) { mine += keep(i) ? 1 : 0; }
    using scanner = cub::BlockScan<std::int32_t, Threads, cub::BLOCK_SCAN_WARP_SCANS>;
    static_assert(sizeof(typename scanner::TempStorage) <= sizeof(shared_->bytes));
    __syncthreads();  // the list of the last call has been read
    auto& temporary = reinterpret_cast<typename scanner::TempStorage&>(shared_->bytes);
    std::int32_t at = 0;
    std::int32_t total = 0;
    scanner(temporary).ExclusiveSum(mine, at, total);
    for (std::int64_t i = rank(); i < n; i += Threads) {
      if (!keep(i)) { continue; }
      if (at < capacity) { list[at] = static_cast<T>(f(i)); }
      ++at;
    }
    __syncthreads();
    return total;
  }

  template <class T>
  __device__ T broadcast(T value, std::int32_t from) {
    static_assert(sizeof(T) <= slot_bytes);
    auto& slot = reinterpret_cast<T&>(shared_->bytes);
    if (rank() == from) { slot = value; }
    __syncthreads();
    const T result = slot;
    __syncthreads();
    return result;
  }

  __device__ shared_scratch& scratch() { return shared_->scratch; }
  __device__ summed& last_sum() { return last_sum_; }

 private:
  /// Calls use(j, f(i)) for the elements i of this thread in a tile: of lane j of its four.
  template <class F, class Use>
  __device__ static void warp_terms(std::int64_t begin, std::int64_t n, F&& f, Use&& use) {
    const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
    const std::int64_t mine = 4 * (static_cast<std::int64_t>(threadIdx.x) % 32);
    for (std::int64_t base = begin; base < end; base += lane_count) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (base + mine + j < end) { use(j, f(base + mine + j)); }
      }
    }
  }

  /// `tile_sum` by one warp, in the same order of additions; the result is in its first thread.
  template <class F>
  __device__ static auto warp_tile(std::int64_t begin, std::int64_t n, F&& f) {
    using real = decltype(f(begin));
    real lane[4] = {};
    warp_terms(begin, n, f, [&](int j, real term) { lane[j] += term; });
    return warp_fold(lane);
  }
  template <class F>
  __device__ static two_sums warp_tile_both(std::int64_t begin, std::int64_t n, F&& f) {
    using real = decltype(f(begin).first);
    real first[4] = {};
    real second[4] = {};
    warp_terms(begin, n, f, [&](int j, two_terms<real> term) {
      first[j] += term.first;
      second[j] += term.second;
    });
    return {static_cast<double>(warp_fold(first)), static_cast<double>(warp_fold(second))};
  }

  template <class Real>
  __device__ static Real warp_fold(Real (&lane)[4]) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j) { lane[j] += __shfl_down_sync(0xffffffffu, lane[j], offset); }
    }
    lane[0] += lane[2];
    lane[1] += lane[3];
    return lane[0] + lane[1];
  }

  /// The largest key of a tile, on all threads of a warp.
  template <class Terms>
  __device__ static auto warp_top(std::int64_t begin, std::int64_t end, const Terms& terms) {
    auto top = terms.lowest;
    for (std::int64_t i = begin + threadIdx.x % 32; i < end; i += 32) {
      const auto k = terms.key(i);
      top = k > top ? k : top;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const auto other = __shfl_xor_sync(0xffffffffu, top, offset);
      top = other > top ? other : top;
    }
    return top;
  }

  storage* shared_;
  summed last_sum_;
};

}  // namespace hunch::team
