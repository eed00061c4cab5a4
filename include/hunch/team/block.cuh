// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cub/block/block_scan.cuh>
#include <cub/thread/thread_operators.cuh>
#include <cub/util_ptx.cuh>
#include <cub/warp/warp_reduce.cuh>

#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/cooperative.hpp>
#include <hunch/team/detail/crew.hpp>
#include <hunch/team/detail/device_crew.cuh>
#include <hunch/team/detail/tensor_warp.cuh>
#include <hunch/team/team.hpp>
#include <hunch/team/tile_sums.hpp>

namespace hunch::team {

namespace detail {

/// A value of a type that is known only at the call.
template <std::size_t Size>
struct alignas(16) value_slot {
  unsigned char bytes[Size];

  template <class T>
  __device__ void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= Size);
    reinterpret_cast<T&>(bytes) = value;
  }
  template <class T>
  __device__ const T& get() const {
    return reinterpret_cast<const T&>(bytes);
  }
};

/// What the threads of a block share.
template <int Threads>
struct block_storage {
  value_slot<32> warps[2][Threads / 32];
  value_slot<32> posted[2];
  value_slot<sizeof(summed)> last_sums[Threads / 32];
  double crews[Threads];
  shared_scratch scratch;
  alignas(16) unsigned char terms[term_bytes];
  typename cub::BlockScan<std::int32_t, Threads, cub::BLOCK_SCAN_WARP_SCANS>::TempStorage scan;
};

/// A thread block as the machine of a `cooperative` team; its workers are warps.
template <int Threads, int Loads>
class block_threads {
  static_assert(Threads % 32 == 0 && Threads > 0 && Threads <= 1024,
                "hunch: a block is made of whole warps, at most 32");

 public:
  using storage = block_storage<Threads>;
  using worker_type = device_warp;
  using crew_type = device_crew<Threads, Loads>;
  static constexpr int loads = Loads;

  __device__ explicit block_threads(storage& shared) : shared_(&shared) {
    // Not by `remember`: the address of a warp's own would stay in a register.
    if (threadIdx.x < workers()) { shared.last_sums[threadIdx.x].put(summed{}); }
    __syncthreads();
  }

  __device__ static constexpr std::int32_t parts() { return 1; }
  __device__ static constexpr std::int32_t part() { return 0; }
  __device__ static constexpr std::int32_t threads() { return Threads; }
  __device__ static std::int32_t thread() { return static_cast<std::int32_t>(threadIdx.x); }
  __device__ static constexpr std::int32_t workers() { return Threads / 32; }
  // Of a number without a sign, for which a compiler keeps no register.
  __device__ static std::int32_t worker() { return static_cast<std::int32_t>(threadIdx.x / 32); }
  __device__ static constexpr std::int32_t crews() { return Threads / crew_type::size; }
  __device__ static std::int32_t crew() {
    return static_cast<std::int32_t>(threadIdx.x / crew_type::size);
  }
  __device__ static constexpr std::int32_t crew_size() { return crew_type::size; }
  __device__ static std::int32_t crew_thread() { return crew_type::thread(); }

  __device__ static void sync() { __syncthreads(); }
  __device__ static void sync_part() { __syncthreads(); }

  template <class Element>
  __device__ static void ask_for(const Element* from, const Element* to) {
    constexpr std::uintptr_t line = 128;
    const auto begin = reinterpret_cast<std::uintptr_t>(from) / line * line;
    const auto end = reinterpret_cast<std::uintptr_t>(to);
    HUNCH_ROLLED
    for (std::uintptr_t at = begin + static_cast<std::uintptr_t>(crew_thread()) * line; at < end;
         at += static_cast<std::uintptr_t>(crew_size()) * line) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    }
  }
  __device__ static void begin_groups(std::int32_t, std::int32_t) { __syncthreads(); }
  __device__ void tell_sum(std::int32_t, std::int32_t g, double sum) const {
    shared_->scratch.groups[g] = sum;
  }
  __device__ void tell_top(std::int32_t, std::int32_t g, std::int64_t top) const {
    shared_->scratch.tops[g] = top;
  }
  __device__ static void end_groups(std::int32_t) { __syncthreads(); }
  template <class T>
  __device__ void post(std::int32_t phase, const T& value) const {
    if (threadIdx.x == 0) { shared_->posted[phase].put(value); }
    __syncthreads();
  }
  template <class T>
  __device__ T posted(std::int32_t phase, std::int32_t) const {
    return shared_->posted[phase].template get<T>();
  }

  __device__ shared_scratch& scratch() const { return shared_->scratch; }
  __device__ shared_scratch& scratch(std::int32_t) const { return shared_->scratch; }
  __device__ value_slot<32>& slot(std::int32_t, std::int32_t phase) const {
    return shared_->posted[phase];
  }
  template <class Real>
  __device__ Real* terms() const {
    return reinterpret_cast<Real*>(shared_->terms);
  }

  template <class F>
  __device__ auto tile(std::int64_t begin, std::int64_t end, const F& f) const {
    return crew_sum<loads>(of_crew(), begin, end, f);
  }
  template <class F>
  __device__ two_sums tile_both(std::int64_t begin, std::int64_t end, const F& f) const {
    return crew_sum_both(of_crew(), begin, end, f);
  }
  template <class Terms>
  __device__ auto soft_tile(std::int64_t begin, std::int64_t end, const Terms& terms,
                            frame_of<Terms>& likely) const {
    return crew_soft_total(of_crew(), begin, end, terms, likely);
  }
  __device__ static double from_first(double value) { return __shfl_sync(all_threads, value, 0); }
  // In memory: it would be ten registers beside all that a body does.
  __device__ const summed& last_sum() const {
    return shared_->last_sums[worker()].template get<summed>();
  }
  __device__ void remember(const summed& what) const {
    __syncwarp();  // the last one has been read
    if (threadIdx.x % 32 == 0) { shared_->last_sums[worker()].put(what); }
    __syncwarp();
  }
  /// One barrier.
  template <class T, class Op>
  __device__ T combine(T mine, const Op& op) {
    using reducer = cub::WarpReduce<T>;
    typename reducer::TempStorage none;  // shuffles need no memory
    const T of_warp = reducer(none).Reduce(mine, op);
    if constexpr (workers() == 1) { return from_first_of(of_warp); }
    value_slot<32>(&warps)[workers()] = next_slots();
    if (threadIdx.x % 32 == 0) { warps[worker()].put(of_warp); }
    __syncthreads();
    const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
    const std::int32_t read = lane < workers() ? lane : 0;
    return from_first_of(
        reducer(none).Reduce(warps[read].template get<T>(), op, static_cast<int>(workers())));
  }

  __device__ std::int32_t scan(std::int32_t mine, std::int32_t& before) {
    using scanner = cub::BlockScan<std::int32_t, Threads, cub::BLOCK_SCAN_WARP_SCANS>;
    std::int32_t total = 0;
    scanner(shared_->scan).ExclusiveSum(mine, before, total);
    return total;
  }

  /// By halves: an addition of 64 bits to shared memory would be a loop.
  __device__ static void add(std::int64_t& to, std::int64_t value) {
    auto* const half = reinterpret_cast<unsigned*>(&to);
    const auto low = static_cast<unsigned>(value);
    const unsigned before = atomicAdd(half, low);
    const unsigned high = static_cast<unsigned>(value >> 32) + (before + low < low ? 1u : 0u);
    if (high != 0) { atomicAdd(half + 1, high); }
  }
  __device__ static void count(std::int64_t& to) {
    atomicAdd(reinterpret_cast<unsigned*>(&to), 1u);
  }
  /// Neighbouring bins are a thread's, and that whose bins it is among tells the others.
  __device__ found_bin first_reaching(const std::int64_t* sums, std::int64_t wanted) {
    constexpr int each = (list_capacity + Threads - 1) / Threads;
    const std::int32_t first = thread() * each;
    std::int64_t own = 0;
    HUNCH_UNROLLED
    for (int b = 0; b < each; ++b) { own += first + b < list_capacity ? sums[first + b] : 0; }
    std::int64_t upto = own;
    HUNCH_UNROLLED
    for (int offset = 1; offset < 32; offset *= 2) {
      const std::int64_t other = __shfl_up_sync(all_threads, upto, offset);
      upto += static_cast<std::int32_t>(threadIdx.x % 32) >= offset ? other : 0;
    }
    value_slot<32>(&warps)[workers()] = next_slots();
    if (threadIdx.x % 32 == 31) { warps[worker()].put(upto); }
    __syncthreads();
    found_bin found;
    for (std::int32_t w = 0; w < workers(); ++w) {
      const std::int64_t of_warp = warps[w].template get<std::int64_t>();
      upto += w < worker() ? of_warp : 0;
      found.before += of_warp;
    }
    if (found.before < wanted) { return found; }  // of all bins
    value_slot<32>& told = next_slots()[0];
    if (upto - own < wanted && upto >= wanted) {
      found.before = upto - own;
      found.bin = first;
      while (found.before + sums[found.bin] < wanted) { found.before += sums[found.bin++]; }
      found.within = sums[found.bin];
      told.put(found);
    }
    __syncthreads();
    return told.template get<found_bin>();
  }

 protected:
  storage* shared_;

 private:
  /// Values of the warps have two sets of slots, which take turns: a barrier lies between their
  /// being read and being written again.
  __device__ value_slot<32> (&next_slots())[Threads / 32] {
    phase_ ^= 1;
    return shared_->warps[phase_];
  }
  template <class T>
  __device__ static T from_first_of(const T& value) {
    return cub::ShuffleIndex<32>(value, 0, all_threads);
  }
  __device__ crew_type of_crew() const {
    return crew_type{shared_->crews + crew() * crew_type::size};
  }

  std::int32_t phase_ = 0;
};

}  // namespace detail

/// A team of one CUDA thread block of `Threads` threads (a multiple of 32, one-dimensional).
///
/// Every thread of the block makes it. `storage` belongs in shared memory, declared by the kernel
/// that wraps the body.
/// \tparam Loads loads that a thread has under way while it reads a row, a power of two.
template <int Threads, int Loads = default_loads>
class block : public cooperative<detail::block_threads<Threads, Loads>> {
  using machine = detail::block_threads<Threads, Loads>;

 public:
  using storage = typename machine::storage;

  __device__ explicit block(storage& shared) : cooperative<machine>(machine(shared)) {}
};

}  // namespace hunch::team
