// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>
#if !defined(HUNCH_NO_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

#include <hunch/executor/cuda_error.cuh>
#include <hunch/executor/detail/known_kernels.cuh>
#include <hunch/executor/detail/launch.cuh>
#include <hunch/executor/detail/recorder.cuh>
#include <hunch/executor/detail/stream_order.cuh>
#include <hunch/executor/device_memory.cuh>
#include <hunch/executor/executor.hpp>

/// \file
/// Bodies on a CUDA device. Compile with nvcc. Define HUNCH_NO_NVTX to leave out the named ranges
/// that profilers show.

namespace hunch::executor {

/// How a loop is repeated on the device.
enum class looping {
  on_device,  ///< recorded in a graph whose WHILE node repeats the step: the host does nothing
  graphs,     ///< recorded, launched once per step by the host, which reads whether to go on
  launches,   ///< nothing is recorded
};

/// Runs bodies on a CUDA stream, one thread block each, or a cluster of up to eight where a launch
/// has few bodies that read rows and the device has clusters: the same bits, sooner. Errors of the
/// runtime are thrown as `cuda_error`; errors of rows are data, as everywhere.
///
/// `buffer` is pinned host memory that the device reaches, `resident` memory of the device, from
/// the `device_memory` that is named, else `stream_ordered_memory`. A loop is recorded once for
/// every shape that it is given; a batch that grows or shrinks within a shape changes nothing but
/// data, because everything that a step reads lies at fixed addresses.
///
/// Copies share the stream and what was recorded. One thread at a time may use it.
class cuda {
  struct state;

 public:
  /// On a stream of its own, on the current device, which stays current while this is used.
  explicit cuda(looping how = looping::on_device, std::shared_ptr<device_memory> memory = nullptr)
      : shared_(std::make_shared<state>(made_stream(), true, how, std::move(memory))) {
    add_side();
  }
  /// On a stream of the caller, who keeps it alive for as long as this and what was made with it.
  /// It must not be the legacy default stream if loops are to be recorded.
  explicit cuda(cudaStream_t stream, looping how = looping::on_device,
                std::shared_ptr<device_memory> memory = nullptr)
      : shared_(std::make_shared<state>(stream, false, how, std::move(memory))) {
    add_side();
  }

  cudaStream_t stream() const { return shared_->stream; }

  /// n values that are value-initialised. \throws cuda_error where there is no memory.
  template <class T>
  class buffer {
    static_assert(std::is_trivially_destructible_v<T>);

   public:
    buffer(cuda&, std::size_t n) : size_(n) {
      if (n == 0) { return; }
      void* raw = nullptr;
      detail::check(cudaHostAlloc(&raw, n * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable),
                    "cudaHostAlloc");
      data_.reset(static_cast<T*>(raw));
      std::uninitialized_value_construct_n(data_.get(), n);
    }
    T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

   private:
    struct free_pinned {
      void operator()(T* data) const { cudaFreeHost(data); }
    };
    std::size_t size_;
    std::unique_ptr<T, free_pinned> data_;
  };

  /// n values, set to bytes of 0 in order with launches. \throws cuda_error likewise.
  template <class T>
  class resident {
    static_assert(std::is_trivially_destructible_v<T>);

   public:
    resident(cuda& executor, std::size_t n)
        : size_(n), data_(nullptr, give_back{executor.shared_, n * sizeof(T)}) {
      if (n == 0) { return; }
      void* const raw = executor.shared_->memory->allocate(n * sizeof(T), executor.stream());
      data_.reset(static_cast<T*>(raw));
      detail::check(cudaMemsetAsync(raw, 0, n * sizeof(T), executor.stream()), "cudaMemsetAsync");
    }
    T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

   private:
    struct give_back {
      std::shared_ptr<state> to;  // whose stream, too, lives as long as its memory
      std::size_t bytes;
      void operator()(T* data) const { to->memory->deallocate(data, bytes, to->stream); }
    };
    std::size_t size_;
    std::unique_ptr<T, give_back> data_;
  };

  /// Does not wait; the body is copied. A count below 1 launches nothing.
  /// \param body trivially copyable, at most 4 KiB.
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body>, "hunch: a body is copied to the device");
    static_cast<void>(&detail::is_known<Body>);
    if (count <= 0) { return; }
    const auto& by_block = limits_of(detail::run_body<Body>);
    if constexpr (reads_rows<Body>) {
      const auto& by_cluster = limits_of(detail::run_body_by_cluster<Body>);
      const std::int32_t blocks =
          detail::launch_limits::blocks_of_cluster(count, by_block, by_cluster);
      if (blocks > 1) {
        return launch_as(detail::run_body_by_cluster<Body>, count, blocks, by_cluster, body);
      }
    }
    launch_as(detail::run_body<Body>, count, 1, by_block, body);
  }

  /// Whether a launch may be put on the device before the one in front of it has ended, where the
  /// device can do that: it waits there, and saves most of what a launch costs. Yes, unless told
  /// otherwise. Nothing documents that the body of a conditional node may have such edges, and
  /// driver 580 takes them; if you record into one, say no where the graph can not be instantiated,
  /// and record it again, as `repeat` does.
  void let_overlap(bool allowed) noexcept {
    shared_->may_overlap = allowed;
    if (shared_->side != nullptr) { shared_->side->let_overlap(allowed); }
  }

  /// Blocks that are on the device at once when `body` is launched.
  template <class Body>
  std::int32_t teams_at_once(const Body&) {
    return limits_of(detail::run_body<Body>).blocks;
  }

  /// An executor on another stream, whose launches come after those that this one was given so
  /// far, and beside later ones until `join`. The same one every time; a recorded step may have
  /// many. That executor has no other one beside it.
  cuda& fork() {
    state& own = *shared_;
    if (own.side == nullptr) { return *this; }
    own.forked.signal(stream(), own.side->stream());
    own.side->shared_->overlaps = false;
    return *own.side;
  }
  /// Later launches come after those of the forked executor. An error of the runtime, which has
  /// then failed for good, shows in the next call.
  void join() noexcept {
    if (shared_->side == nullptr) { return; }
    shared_->joined.try_signal(shared_->side->stream(), stream());
    shared_->overlaps = false;
  }

  /// Loads the kernels of all bodies that the program has code to launch: the first launch of a
  /// kernel may wait for the device, and must not come while the stream is captured. `repeat` does
  /// it before it records a loop; call it before you capture the stream yourself.
  void prepare() {
    shared_->loaded = detail::known_kernels::load(shared_->loaded, shared_->limits, stream());
  }

  void synchronize() { detail::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  /// Waits for the copy, and so for what was launched before: pinned memory, such as a `buffer`,
  /// would be read later.
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    if (n == 0) { return; }
    detail::check(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyHostToDevice, stream()),
                  "cudaMemcpyAsync");
    synchronize();
  }
  /// Waits likewise.
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    if (n == 0) { return; }
    detail::check(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream()),
                  "cudaMemcpyAsync");
    synchronize();
  }

  /// Records the step when a shape is met for the first time, or calls it with `looping::launches`.
  /// Returns at once with `looping::on_device`, else when the loop has ended.
  template <class Step>
  void repeat(std::uint64_t shape, Step&& step, std::int32_t* again) {
    const detail::loop_condition flag{.flag = {again}};
    if (shared_->how == looping::launches) {
      do { step(flag); } while (read(again) != 0);
      return;
    }
    auto found = shared_->recorded.find({shape, again});
    if (found == shared_->recorded.end()) {
      prepare();
      cudaGraphExec_t executable = nullptr;
      if (recorded(step, flag, &executable) != cudaSuccess) {
        cudaGetLastError();  // it is not to be the next call's
        const one_after_another in_loop(*this);
        detail::check(recorded(step, flag, &executable), "cudaGraphInstantiate");
      }
      found = shared_->recorded.emplace(std::pair{shape, again}, executable).first;
    }
    do {
      detail::check(cudaGraphLaunch(found->second.get(), stream()), "cudaGraphLaunch");
    } while (shared_->how == looping::graphs && read(again) != 0);
  }

  /// Drops what was recorded of loops with this `again`, whose memory may be another's afterwards.
  void forget(const std::int32_t* again) noexcept {
    std::erase_if(shared_->recorded, [=](const auto& of) { return of.first.second == again; });
  }

  /// A named range for profilers, from here to the end of the scope.
  class range {
   public:
#if defined(HUNCH_NO_NVTX)
    explicit range(const char*) {}
#else
    explicit range(const char* name) { nvtxRangePushA(name); }
    ~range() { nvtxRangePop(); }
#endif
    range(const range&) = delete;
    range& operator=(const range&) = delete;
  };

 protected:
  template <class... Arguments>
  const detail::launch_limits::of_kernel& limits_of(void (*kernel)(Arguments...)) {
    return shared_->limits.of(kernel, stream());
  }
  /// Launches `count` bodies, by as many blocks each.
  template <class... Arguments>
  void launch_as(void (*kernel)(Arguments...), std::int32_t count, std::int32_t blocks,
                 const detail::launch_limits::of_kernel& limits, const Arguments&... arguments) {
    state& own = *shared_;
    detail::body_launch how(count, blocks, stream());
    if (limits.is_for_clusters && own.overlaps && own.may_overlap) { how.overlap(); }
    own.overlaps = true;
    detail::check(cudaLaunchKernelEx(&how.config(), kernel, arguments...), "cudaLaunchKernelEx");
  }

 private:
  struct state {
    state(cudaStream_t s, bool owns, looping l, std::shared_ptr<device_memory> m)
        : how(l),
          stream(s),
          owns_stream(owns),
          memory(m != nullptr ? std::move(m) : std::make_shared<stream_ordered_memory>()) {}
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state() {
      recorded.clear();
      if (owns_stream) { cudaStreamDestroy(stream); }
    }

    looping how;
    cudaStream_t stream;
    bool owns_stream;
    std::shared_ptr<device_memory> memory;
    bool may_overlap = true;
    bool overlaps = true;  ///< not after another stream: a kernel waits only for one of its own
    std::unique_ptr<cuda> side;
    detail::order_of_streams forked;
    detail::order_of_streams joined;
    detail::launch_limits limits;
    std::size_t loaded = 0;  ///< of the program's kernels
    std::map<std::pair<std::uint64_t, const std::int32_t*>, detail::executable> recorded;
  };

  explicit cuda(std::shared_ptr<state> shared) : shared_(std::move(shared)) {}

  /// Instantiates the step as the executor repeats it.
  template <class Step>
  cudaError_t recorded(Step& step, const detail::loop_condition& flag, cudaGraphExec_t* made) {
    const detail::graph graph = shared_->how == looping::on_device
                                    ? detail::record_loop(stream(), step, flag)
                                    : detail::record_step(stream(), step, flag);
    return cudaGraphInstantiate(made, graph.get(), 0);
  }

  /// While it lives no launches overlap.
  class one_after_another {
   public:
    explicit one_after_another(cuda& of) : of_(of), before_(of.shared_->may_overlap) {
      of_.let_overlap(false);
    }
    one_after_another(const one_after_another&) = delete;
    one_after_another& operator=(const one_after_another&) = delete;
    ~one_after_another() { of_.let_overlap(before_); }

   private:
    cuda& of_;
    bool before_;
  };

  /// Not in `fork`: nothing is made while a stream is captured.
  void add_side() {
    state& own = *shared_;
    own.side.reset(new cuda(std::make_shared<state>(made_stream(), true, own.how, own.memory)));
  }
  static cudaStream_t made_stream() {
    cudaStream_t made = nullptr;
    detail::check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
    return made;
  }

  std::int32_t read(const std::int32_t* again) {
    std::int32_t value = 0;
    download(&value, again, 1);
    return value;
  }

  std::shared_ptr<state> shared_;
};

static_assert(ResidentExecutor<cuda>);

}  // namespace hunch::executor
