// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include <cuda_runtime.h>

#include <hunch/executor/cuda_error.cuh>

/// \file
/// Steps as graphs.

namespace hunch::executor::detail {

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

/// What step() launches on a stream goes into a graph.
template <class Step>
void capture(cudaStream_t stream, cudaGraph_t into, Step&& step) {
  check(cudaStreamBeginCaptureToGraph(stream, into, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCaptureToGraph");
  capture_guard guard(stream);
  step();
  guard.end("cudaStreamEndCapture");
}

/// One step.
template <class Step>
graph record_step(cudaStream_t stream, Step& step) {
  cudaGraph_t raw = nullptr;
  check(cudaGraphCreate(&raw, 0), "cudaGraphCreate");
  graph out(raw);
  capture(stream, out.get(), step);
  return out;
}

/// A WHILE node around one step. Its condition is true when the graph is launched.
template <class Step>
graph record_loop(cudaStream_t stream, Step& step, const std::int32_t* again) {
  cudaGraph_t raw = nullptr;
  check(cudaGraphCreate(&raw, 0), "cudaGraphCreate");
  graph out(raw);
  cudaGraphConditionalHandle handle{};
  check(cudaGraphConditionalHandleCreate(&handle, out.get(), 1, cudaGraphCondAssignDefault),
        "cudaGraphConditionalHandleCreate");
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
  check(cudaGraphAddNode(&node, out.get(), nullptr, nullptr, 0, &parameters), "cudaGraphAddNode");
#else
  check(cudaGraphAddNode(&node, out.get(), nullptr, 0, &parameters), "cudaGraphAddNode");
#endif
  capture(stream, parameters.conditional.phGraph_out[0], [&] {
    step();
    decide_on_device<<<1, 1, 0, stream>>>(handle, again);
    check(cudaGetLastError(), "launch");
  });
  return out;
}

}  // namespace hunch::executor::detail
