// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>
#if !defined(HUNCH_NO_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

#include <hunch/executor/executor.hpp>
#include <hunch/team/block.cuh>
#include <hunch/team/cluster.cuh>

/// \file
/// Bodies on a CUDA device. Compile with nvcc. Define HUNCH_NO_NVTX to leave out the named ranges
/// that profilers show.

namespace hunch::executor {

/// An error of the CUDA runtime.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(cudaError_t code, const char* what)
      : std::runtime_error(std::string("hunch::executor::cuda: ") + what + ": " +
                           cudaGetErrorString(code)),
        code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// How a loop is repeated on the device.
enum class looping {
  on_device,  ///< recorded in a graph whose WHILE node repeats the step: the host does nothing
  graphs,     ///< recorded, launched once per step by the host, which reads whether to go on
  launches,   ///< nothing is recorded
};

/// Threads of a block.
inline constexpr int cuda_threads = 512;

namespace detail {

inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) { throw cuda_error(code, what); }
}

// One block of a multiprocessor's registers is enough of a demand: a thread that has several loads
// in flight, or the state of a verification rule in registers, needs more than a share of two.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, 1) run_body(const __grid_constant__ Body body) {
  __shared__ typename team::block<cuda_threads>::storage storage;
  team::block<cuda_threads> team(storage);
  body(team, static_cast<std::int32_t>(blockIdx.x));
}

/// The same by a cluster. In code for devices that have none it is empty and not launched.
template <class Body>
__global__ void __launch_bounds__(cuda_threads, 1)
    run_body_by_cluster(const __grid_constant__ Body body) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __shared__ typename team::cluster<cuda_threads>::storage storage;
  team::cluster<cuda_threads> team(storage);
  body(team, static_cast<std::int32_t>(blockIdx.x / team::portable_cluster));
#endif
}

/// How `count` bodies are launched by clusters. `attribute` is part of it.
inline cudaLaunchConfig_t cluster_launch(std::int32_t count, cudaStream_t stream,
                                         cudaLaunchAttribute& attribute) {
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {team::portable_cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(count) * team::portable_cluster);
  config.blockDim = dim3(cuda_threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

/// A template so that several files of a program may hold it.
template <class Handle>
__global__ void decide_on_device(Handle handle, const std::int32_t* again) {
  cudaGraphSetConditional(handle, *again != 0 ? 1u : 0u);
}

struct destroy_graph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
struct destroy_executable {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroy_graph>;
using executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, destroy_executable>;

/// Makes one stream wait for another, with an event that is made once.
class order_of_streams {
 public:
  order_of_streams() = default;
  order_of_streams(const order_of_streams&) = delete;
  order_of_streams& operator=(const order_of_streams&) = delete;
  ~order_of_streams() {
    if (event_ != nullptr) { cudaEventDestroy(event_); }
  }
  /// What `second` is given from now on comes behind what `first` was given.
  void signal(cudaStream_t first, cudaStream_t second) {
    check(try_signal(first, second), "the order of two streams");
  }
  cudaError_t try_signal(cudaStream_t first, cudaStream_t second) noexcept {
    cudaError_t result = cudaSuccess;
    if (event_ == nullptr) { result = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); }
    if (result == cudaSuccess) { result = cudaEventRecord(event_, first); }
    if (result == cudaSuccess) { result = cudaStreamWaitEvent(second, event_, 0); }
    return result;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Ends a capture that an exception has left open.
class capture_guard {
 public:
  explicit capture_guard(cudaStream_t stream) : stream_(stream) {}
  ~capture_guard() {
    cudaGraph_t left = nullptr;
    if (open_) { cudaStreamEndCapture(stream_, &left); }
  }
  void end(const char* what) {
    open_ = false;
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream_, &captured), what);
  }

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace detail

/// Runs bodies on a CUDA stream, one thread block each, or a cluster of eight where a launch has
/// few bodies that read rows and the device has clusters: the same bits, sooner. Errors of the
/// runtime are thrown as `cuda_error`; errors of rows are data, as everywhere.
///
/// `buffer` is pinned host memory that the device reaches, `resident` memory of the device. A loop
/// is recorded once for every shape that it is given; a batch that grows or shrinks within a shape
/// changes nothing but data, because everything that a step reads lies at fixed addresses.
///
/// Copies share the stream and what was recorded. One thread at a time may use it.
class cuda {
 public:
  /// On a stream of its own.
  explicit cuda(looping how = looping::on_device) : shared_(std::make_shared<state>(how)) {
    detail::check(cudaStreamCreateWithFlags(&shared_->stream, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
    shared_->owns_stream = true;
  }
  /// On a stream of the caller, who keeps it alive. It must not be the legacy default stream if
  /// loops are to be recorded.
  explicit cuda(cudaStream_t stream, looping how = looping::on_device)
      : shared_(std::make_shared<state>(how)) {
    shared_->stream = stream;
  }

  cudaStream_t stream() const { return shared_->stream; }

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

  template <class T>
  class resident {
    static_assert(std::is_trivially_destructible_v<T>);

   public:
    resident(cuda& executor, std::size_t n) : size_(n) {
      if (n == 0) { return; }
      void* raw = nullptr;
      detail::check(cudaMalloc(&raw, n * sizeof(T)), "cudaMalloc");
      data_.reset(static_cast<T*>(raw));
      detail::check(cudaMemsetAsync(raw, 0, n * sizeof(T), executor.stream()), "cudaMemsetAsync");
    }
    T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

   private:
    struct free_device {
      void operator()(T* data) const { cudaFree(data); }
    };
    std::size_t size_;
    std::unique_ptr<T, free_device> data_;
  };

  /// \param body trivially copyable, at most 4 KiB.
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body>, "hunch: a body is copied to the device");
    if (count <= 0) { return; }
    if constexpr (reads_rows<Body>) {
      if (count <= shared_->cluster_limit(detail::run_body_by_cluster<Body>)) {
        cudaLaunchAttribute attribute{};
        const cudaLaunchConfig_t config = detail::cluster_launch(count, stream(), attribute);
        return detail::check(cudaLaunchKernelEx(&config, detail::run_body_by_cluster<Body>, body),
                             "cudaLaunchKernelEx");
      }
    }
    detail::run_body<Body><<<static_cast<unsigned>(count), cuda_threads, 0, stream()>>>(body);
    detail::check(cudaGetLastError(), "launch");
  }

  /// Blocks that are on the device at once when `body` is launched.
  template <class Body>
  std::int32_t teams_at_once(const Body&) {
    return shared_->resident_blocks(detail::run_body<Body>);
  }

  /// An executor on another stream, whose launches come behind those that this one was given so
  /// far, and beside later ones until `join`. The same one every time; a recorded step may have
  /// many.
  cuda& fork() {
    state& own = *shared_;
    if (own.side == nullptr) { own.side = std::make_unique<cuda>(); }
    own.forked.signal(stream(), own.side->stream());
    return *own.side;
  }
  /// Later launches come behind those of the forked executor, if there is one. An error of the
  /// runtime, which has then failed for good, shows in the next call.
  void join() noexcept {
    if (shared_->side != nullptr) { shared_->joined.try_signal(shared_->side->stream(), stream()); }
  }

  void synchronize() { detail::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  /// Copies of pageable memory return when that memory is free again.
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    if (n == 0) { return; }
    detail::check(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyHostToDevice, stream()),
                  "cudaMemcpyAsync");
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    if (n == 0) { return; }
    detail::check(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream()),
                  "cudaMemcpyAsync");
    synchronize();
  }

  template <class Step>
  void repeat(std::uint64_t shape, Step&& step, const std::int32_t* again) {
    if (shared_->how == looping::launches) {
      do { step(); } while (read(again) != 0);
      return;
    }
    auto found = shared_->recorded.find({shape, again});
    if (found == shared_->recorded.end()) {
      const bool on_device = shared_->how == looping::on_device;
      const detail::graph graph = on_device ? record_loop(step, again) : record_step(step);
      cudaGraphExec_t executable = nullptr;
      detail::check(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate");
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

 private:
  struct state {
    explicit state(looping l) : how(l) {}
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    /// Bodies of a launch up to which each gets a cluster; asked once for each kernel. 0 where the
    /// device has no clusters, or the code was compiled for one that has none.
    template <class... Arguments>
    std::int32_t cluster_limit(void (*kernel)(Arguments...)) {
      const auto key = reinterpret_cast<const void*>(kernel);
      const auto found = cluster_limits.find(key);
      if (found != cluster_limits.end()) { return found->second; }
      cudaFuncAttributes compiled{};
      detail::check(cudaFuncGetAttributes(&compiled, key), "cudaFuncGetAttributes");
      std::int32_t limit = 0;
      if (compiled.ptxVersion >= 90 && compiled.binaryVersion >= 90) {
        int at_once = 0;
        cudaLaunchAttribute attribute{};
        const cudaLaunchConfig_t config = detail::cluster_launch(1, stream, attribute);
        detail::check(cudaOccupancyMaxActiveClusters(&at_once, kernel, &config),
                      "cudaOccupancyMaxActiveClusters");
        limit = std::min(at_once, processors() / team::portable_cluster);
      }
      cluster_limits.emplace(key, limit);
      return limit;
    }
    /// Blocks of a kernel that fit on the device; asked once for each.
    template <class... Arguments>
    std::int32_t resident_blocks(void (*kernel)(Arguments...)) {
      const auto key = reinterpret_cast<const void*>(kernel);
      const auto found = block_limits.find(key);
      if (found != block_limits.end()) { return found->second; }
      int each = 0;
      detail::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, cuda_threads, 0),
                    "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      const std::int32_t limit = std::max(1, each * processors());
      block_limits.emplace(key, limit);
      return limit;
    }
    static int processors() {
      int device = 0;
      int count = 0;
      detail::check(cudaGetDevice(&device), "cudaGetDevice");
      detail::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                    "cudaDeviceGetAttribute");
      return count;
    }
    ~state() {
      recorded.clear();
      if (owns_stream) { cudaStreamDestroy(stream); }
    }

    looping how;
    cudaStream_t stream = nullptr;
    bool owns_stream = false;
    std::unique_ptr<cuda> side;
    detail::order_of_streams forked;
    detail::order_of_streams joined;
    std::map<const void*, std::int32_t> cluster_limits;
    std::map<const void*, std::int32_t> block_limits;
    std::map<std::pair<std::uint64_t, const std::int32_t*>, detail::executable> recorded;
  };

  std::int32_t read(const std::int32_t* again) {
    std::int32_t value = 0;
    download(&value, again, 1);
    return value;
  }

  /// One step.
  template <class Step>
  detail::graph record_step(Step& step) {
    cudaGraph_t raw = nullptr;
    detail::check(cudaGraphCreate(&raw, 0), "cudaGraphCreate");
    detail::graph graph(raw);
    capture(graph.get(), step);
    return graph;
  }

  /// A WHILE node around one step. Its condition is true when the graph is launched.
  template <class Step>
  detail::graph record_loop(Step& step, const std::int32_t* again) {
    cudaGraph_t raw = nullptr;
    detail::check(cudaGraphCreate(&raw, 0), "cudaGraphCreate");
    detail::graph graph(raw);
    cudaGraphConditionalHandle handle{};
    detail::check(
        cudaGraphConditionalHandleCreate(&handle, graph.get(), 1, cudaGraphCondAssignDefault),
        "cudaGraphConditionalHandleCreate");
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional.handle = handle;
    parameters.conditional.type = cudaGraphCondTypeWhile;
    parameters.conditional.size = 1;
    cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
    detail::check(cudaGraphAddNode(&node, graph.get(), nullptr, nullptr, 0, &parameters),
                  "cudaGraphAddNode");
#else
    detail::check(cudaGraphAddNode(&node, graph.get(), nullptr, 0, &parameters),
                  "cudaGraphAddNode");
#endif
    capture(parameters.conditional.phGraph_out[0], [&] {
      step();
      detail::decide_on_device<<<1, 1, 0, stream()>>>(handle, again);
      detail::check(cudaGetLastError(), "launch");
    });
    return graph;
  }

  template <class Step>
  void capture(cudaGraph_t into, Step&& step) {
    detail::check(cudaStreamBeginCaptureToGraph(stream(), into, nullptr, nullptr, 0,
                                                cudaStreamCaptureModeThreadLocal),
                  "cudaStreamBeginCaptureToGraph");
    detail::capture_guard guard(stream());
    step();
    guard.end("cudaStreamEndCapture");
  }

  std::shared_ptr<state> shared_;
};

static_assert(ResidentExecutor<cuda>);

}  // namespace hunch::executor
