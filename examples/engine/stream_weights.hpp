// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/config.hpp>
#include <engine/packed_matrix.hpp>

/// \file
/// What streams have of their own beside the weights of their target.

namespace engine {

/// b a x, added to what a product makes of x.
struct adapter {
  stored_matrix a;  ///< [rank, inputs]
  stored_matrix b;  ///< [outputs, rank]
};

struct stream_weights {
  stream_config shape;
  stored_matrix down;             ///< [rank, hidden]
  stored_matrix up;               ///< [streams * hidden_stride, rank], padded with zeros
  std::vector<float> embeddings;  ///< [streams, hidden_stride]
  std::vector<float> ones;        ///< [hidden_stride] a norm without weights
  /// Of the layers from the lowest that streams run through.
  struct layer {
    adapter query_key_value;
    adapter output;
    adapter gate_up;  ///< its outputs in the order of those of the target's layer
    adapter down;
  };
  std::vector<layer> layers;
  int rank_stride = 0;  ///< of the largest rank

  stored_matrix root_down;             ///< [rank, 2 hidden], or nothing: streams know no root
  std::vector<stored_matrix> root_up;  ///< [streams] of [hidden, rank]
  bool know_roots() const { return !root_up.empty(); }

  // Of a pass.
  aligned_buffer<float> normed;  ///< [outputs, hidden_stride]
  aligned_buffer<float> inner;   ///< [rows, rank_stride]
  aligned_buffer<float> begun;   ///< [outputs, streams, hidden_stride]

  // Of a draft.
  aligned_buffer<float> states;   ///< [inputs, streams, hidden_stride]
  aligned_buffer<float> joined;   ///< [states, inputs, joined_stride] each with its root after it
  aligned_buffer<float> reduced;  ///< [states, inputs, root_stride]
  int joined_stride = 0;
  int root_stride = 0;
};

}  // namespace engine
