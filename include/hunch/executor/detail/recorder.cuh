// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include <cuda_runtime.h>

#include <hunch/core/config.hpp>
#include <hunch/executor/cuda_error.cuh>
#include <hunch/executor/executor.hpp>

/// \file
/// Steps as graphs.

namespace hunch::executor::detail {

/// Whether a step is repeated: said to the WHILE node around it, by the body that knows, so that no
/// kernel is launched for that; or in memory, to a host that reads it.
struct loop_condition {
  repeat_flag flag;
  bool has_node = false;
  cudaGraphConditionalHandle node{};

  HUNCH_HOST_DEVICE void set(bool more) const {
#if defined(__CUDA_ARCH__)
    if (has_node) { return cudaGraphSetConditional(node, more ? 1u : 0u); }
#endif
    flag.set(more);
  }
};

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

/// What a step launches on a stream goes into a graph.
template <class Step>
void capture(cudaStream_t stream, cudaGraph_t into, Step& step, const loop_condition& again) {
  check(cudaStreamBeginCaptureToGraph(stream, into, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCaptureToGraph");
  capture_guard guard(stream);
  step(again);
  guard.end("cudaStreamEndCapture");
}

/// One step.
template <class Step>
graph record_step(cudaStream_t stream, Step& step, const loop_condition& again) {
  cudaGraph_t raw = nullptr;
  check(cudaGraphCreate(&raw, 0), "cudaGraphCreate");
  graph out(raw);
  capture(stream, out.get(), step, again);
  return out;
}

/// A WHILE node around one step. Its condition is true when the graph is launched.
template <class Step>
graph record_loop(cudaStream_t stream, Step& step, loop_condition again) {
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
  again.has_node = true;
  again.node = handle;
  capture(stream, parameters.conditional.phGraph_out[0], step, again);
  return out;
}

}  // namespace hunch::executor::detail
