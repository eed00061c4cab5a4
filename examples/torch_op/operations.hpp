// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/flashinfer.hpp>
#include <hunch/interop/sglang.hpp>
#include <hunch/interop/sglang_tree.hpp>
#include <hunch/interop/text_census.hpp>
#include <hunch/interop/vllm_logits.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>
#include "cluster_choices.hpp"
#include "list_head.hpp"
#include "logit_trees.hpp"
#include "tree_nodes.hpp"

/// \file
/// What the files with schemas and those for CUDA agree on. One is torch without kernels, the
/// others are kernels without torch, so that nvcc never reads torch's headers.

struct CUstream_st;  // cudaStream_t points to one; torch's CPU build has no header that says so
namespace hunch::executor {
class cuda;
}

namespace hunch_torch {

namespace flashinfer = hunch::interop::flashinfer;
namespace sglang = hunch::interop::sglang;
namespace vllm = hunch::interop::vllm;

using chains = flashinfer::chain_arguments<float>;
/// \tparam Logit float, or a type of 16 bits.
template <class Logit>
struct ragged_chains {
  vllm::logits_arguments<Logit> arguments;
  bool block_verification = false;
};
/// Prompts of new texts, or tokens that go on texts.
struct tokens_of_texts {
  hunch::interop::counted_texts texts;
  bool begins = false;
};
using sampled_trees = sglang::target_only_arguments<float>;
using greedy_trees = sglang::greedy_arguments;
using tree_choices = sglang::build_tree_arguments;

/// An operation and its tensors: plain structs of sizes and pointers.
using operation =
    std::variant<chains, ragged_chains<float>, ragged_chains<hunch::bfloat16>,
                 ragged_chains<hunch::float16>, sampled_trees, greedy_trees, tree_choices,
                 tokens_of_texts, logit_trees<float>, logit_trees<hunch::bfloat16>,
                 logit_trees<hunch::float16>, tree_nodes, list_head<float>,
                 list_head<hunch::bfloat16>, list_head<hunch::float16>, cluster_choices>;

/// Launches an operation on an executor.
template <hunch::Executor E>
struct launch_on {
  E& executor;

  void operator()(const chains& a) const { flashinfer::chain_speculative_sampling(executor, a); }
  template <class Logit>
  void operator()(const ragged_chains<Logit>& a) const {
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
  template <class Logit>
  void operator()(const logit_trees<Logit>& a) const {
    verify_logit_trees(executor, a);
  }
  void operator()(const tree_nodes& a) const { describe_trees(executor, a); }
  template <class Weight>
  void operator()(const list_head<Weight>& a) const {
    multiply_lists(executor, a);
  }
  void operator()(const cluster_choices& a) const { choose_for_rows(executor, a); }
  void operator()(const tokens_of_texts& a) const {
    if (a.begins) {
      hunch::interop::begin_texts(executor, a.texts);
    } else {
      hunch::interop::count_tokens(executor, a.texts);
    }
  }
};

/// The same on a device, by kernels of a file of their own.
template <class Operation>
void launch_kernels(hunch::executor::cuda& executor, const Operation& what);

/// Launches an operation on a stream of the current device. Defined in device.cu.
void launch_on_stream(CUstream_st* stream, const operation& what);

}  // namespace hunch_torch
