// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cooperative_groups.h>

#include <hunch/core/config.hpp>
#include <hunch/core/opaque.hpp>
#include <hunch/team/block.cuh>
#include <hunch/team/canonical.hpp>
#include <hunch/team/detail/cooperative.hpp>

namespace hunch::team {

/// Blocks that a cluster may have on every device that knows clusters.
inline constexpr int portable_cluster = 8;

namespace detail {

/// Words that the blocks of a cluster tell each other. Two exchanges take turns: a block begins one
/// when it has heard of all others in the one before, and who told it then had read all of that
/// before. So each block tells something in each exchange, whether it has a group or not.
struct cluster_inbox {
  static constexpr std::int32_t words = 2 * max_groups;

  std::uint64_t words_of[2][words];
  std::uint64_t told[2];  ///< barriers in memory, which count bytes
};

/// A thread block cluster as the machine of a `cooperative` team. A block writes to the shared
/// memory of the others and never reads it.
///
/// A barrier of a cluster makes what was written to any memory known to all of it, and takes two
/// thirds of a microsecond. What sums tell is counted where it arrives instead.
template <int Threads, int Loads>
class cluster_threads : public block_threads<Threads, Loads> {
  using block = block_threads<Threads, Loads>;

 public:
  struct storage : block::storage {
    cluster_inbox inbox;
  };

  __device__ explicit cluster_threads(storage& shared) : block(shared), inbox_(&shared.inbox) {}

  // Earlier devices have no clusters; kernels are compiled for them all the same, in a program for
  // several architectures, and not launched there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  // Both are read each time: else they would lie in registers beside all that a body does.
  __device__ static std::int32_t parts() {
    std::int32_t count = 0;
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(count));
    return count;
  }
  __device__ static std::int32_t part() {
    std::int32_t rank = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
  }
  __device__ static void sync() { cooperative_groups::this_cluster().sync(); }

  /// By all threads, before one block tells another anything. A barrier, but for what was written
  /// elsewhere.
  __device__ void open_inbox() {
    if (threadIdx.x < 2) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(near(inbox_->told[threadIdx.x]))
                   : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  }

  __device__ void begin_groups(std::int32_t groups, std::int32_t each) {
    const std::int32_t silent = parts() > groups ? parts() - groups : 0;
    expect(groups * each + silent);
    if (part() >= groups && threadIdx.x < static_cast<unsigned>(parts())) {
      tell(static_cast<std::int32_t>(threadIdx.x), part(), 0);  // where no group's sum is
    }
  }
  __device__ void tell_sum(std::int32_t p, std::int32_t g, double sum) const {
    tell(p, g, static_cast<std::uint64_t>(__double_as_longlong(sum)));
  }
  __device__ void tell_top(std::int32_t p, std::int32_t g, std::int64_t top) const {
    tell(p, max_groups + g, static_cast<std::uint64_t>(top));
  }
  __device__ void end_groups(std::int32_t groups) {
    const std::uint64_t* const from = all_told();
    shared_scratch& own = scratch();
    // Where sums alone are told, tops may be anything.
    for (auto g = static_cast<std::int32_t>(threadIdx.x); g < groups; g += Threads) {
      own.groups[g] = __longlong_as_double(static_cast<long long>(from[g]));
      own.tops[g] = static_cast<std::int64_t>(from[max_groups + g]);
    }
    __syncthreads();
  }

  template <class T>
  __device__ void post(std::int32_t, const T& value) {
    constexpr std::int32_t each = words_of<T>;
    static_assert(std::is_trivially_copyable_v<T> &&
                  each * portable_cluster <= cluster_inbox::words);
    expect(each * parts());
    if (threadIdx.x < static_cast<unsigned>(parts())) {
      std::uint64_t words[each] = {};
      memcpy(words, &value, sizeof(T));
      HUNCH_UNROLLED
      for (std::int32_t i = 0; i < each; ++i) {
        tell(static_cast<std::int32_t>(threadIdx.x), part() * each + i, words[i]);
      }
    }
    all_told();
  }
  template <class T>
  __device__ T posted(std::int32_t, std::int32_t p) const {
    constexpr std::int32_t each = words_of<T>;
    T value;
    memcpy(&value, inbox_->words_of[(turn_ - 1) & 1] + p * each, sizeof(T));
    return value;
  }

 private:
  template <class T>
  static constexpr auto words_of =
      static_cast<std::int32_t>((sizeof(T) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));

  template <class T>
  __device__ static unsigned near(const T& own) {
    return static_cast<unsigned>(__cvta_generic_to_shared(&own));
  }
  /// The address of the same in part p.
  __device__ static unsigned far(unsigned own, std::int32_t p) {
    unsigned there = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(p));
    return there;
  }
  /// Begins an exchange. After it all threads of the block have read what the one before has told.
  __device__ void expect(std::int32_t words) {
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                       near(inbox_->told[turn_ & 1])),
                   "r"(words * static_cast<std::int32_t>(sizeof(std::uint64_t)))
                   : "memory");
    }
  }
  __device__ void tell(std::int32_t p, std::int32_t word, std::uint64_t value) const {
    const std::int32_t turn = turn_ & 1;
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
            far(near(inbox_->words_of[turn][word]), p)),
        "l"(value), "r"(far(near(inbox_->told[turn]), p))
        : "memory");
  }
  /// Waits for the words of this exchange, and returns them.
  __device__ const std::uint64_t* all_told() {
    const std::int32_t turn = turn_ & 1;
    const unsigned told = near(inbox_->told[turn]);
    const unsigned parity = static_cast<unsigned>(turn_) >> 1 & 1u;
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(told), "r"(parity)
          : "memory");
    }
    ++turn_;
    return inbox_->words_of[turn];
  }

  template <class T>
  __device__ static T& at(T& own, std::int32_t p) {
    // Not known before: else the addresses in all parts are computed once, and kept in registers.
    return *cooperative_groups::this_cluster().map_shared_rank(
        &own, static_cast<unsigned>(kernel::opaque(p)));
  }
#else
  __device__ static std::int32_t parts() { return 1; }
  __device__ static std::int32_t part() { return 0; }
  __device__ static void sync() { __trap(); }
  __device__ static void open_inbox() {}

 private:
  template <class T>
  __device__ static T& at(T& own, std::int32_t) {
    return own;
  }
#endif

 public:
  __device__ shared_scratch& scratch() const { return this->shared_->scratch; }
  __device__ shared_scratch& scratch(std::int32_t p) const { return at(this->shared_->scratch, p); }
  __device__ value_slot<32>& slot(std::int32_t p, std::int32_t phase) const {
    return at(this->shared_->posted[phase], p);
  }

 private:
  cluster_inbox* inbox_;
  std::int32_t turn_ = 0;  ///< number of the exchange
};

}  // namespace detail

/// A team of a cluster of thread blocks of `Threads` threads each, for devices of compute
/// capability 9.0 and newer: where there are fewer rows than multiprocessors, several of them read
/// one row.
///
/// Every thread of the cluster makes it; `storage` belongs in the shared memory of each block.
/// Launch with a cluster dimension of at most `portable_cluster`, and as many blocks for each body.
template <int Threads, int Loads = default_loads>
class cluster : public cooperative<detail::cluster_threads<Threads, Loads>> {
  using machine = detail::cluster_threads<Threads, Loads>;

 public:
  using storage = typename machine::storage;

  __device__ explicit cluster(storage& shared) : cooperative<machine>(machine(shared)) {
    // After it all blocks have begun, so that their memory may be written.
    cooperative<machine>::machine().open_inbox();
  }

  /// Which body of the launch it is for.
  __device__ static std::int32_t index() {
    return static_cast<std::int32_t>(blockIdx.x) / machine::parts();
  }
};

}  // namespace hunch::team
