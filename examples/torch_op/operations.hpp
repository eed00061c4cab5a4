// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include <hunch/executor/executor.hpp>
#include <hunch/interop/flashinfer.hpp>
#include <hunch/interop/sglang.hpp>
#include <hunch/interop/sglang_tree.hpp>
#include <hunch/interop/vllm_logits.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>

/// \file
/// What ops.cpp and device.cu agree on. One of them is torch without kernels, the other is kernels
/// without torch, so that nvcc never reads torch's headers.

struct CUstream_st;  // cudaStream_t points to one; torch's CPU build has no header that says so

namespace hunch_torch {

namespace flashinfer = hunch::interop::flashinfer;
namespace sglang = hunch::interop::sglang;
namespace vllm = hunch::interop::vllm;

using chains = flashinfer::chain_arguments<float>;
struct ragged_chains {
  vllm::logits_arguments<float> arguments;
  bool block_verification = false;
};
using sampled_trees = sglang::target_only_arguments<float>;
using greedy_trees = sglang::greedy_arguments;
using tree_choices = sglang::build_tree_arguments;

/// An operation and its tensors: plain structs of sizes and pointers.
using operation = std::variant<chains, ragged_chains, sampled_trees, greedy_trees, tree_choices>;

/// Launches an operation on an executor.
template <hunch::Executor E>
struct launch_on {
  E& executor;

  void operator()(const chains& a) const { flashinfer::chain_speculative_sampling(executor, a); }
  void operator()(const ragged_chains& a) const {
    if (a.block_verification) {
      vllm::rejection_sample(executor, a.arguments, hunch::verifier::block{});
    } else {
      vllm::rejection_sample(executor, a.arguments, hunch::verifier::rejection{});
    }
  }
  void operator()(const sampled_trees& a) const {
    sglang::tree_speculative_sampling_target_only(executor, a);
  }
  void operator()(const greedy_trees& a) const { sglang::verify_tree_greedy(executor, a); }
  void operator()(const tree_choices& a) const { sglang::build_tree_kernel_efficient(executor, a); }
};

/// Launches an operation on a stream of the current device. Defined in device.cu.
void launch_on_stream(CUstream_st* stream, const operation& what);

}  // namespace hunch_torch
