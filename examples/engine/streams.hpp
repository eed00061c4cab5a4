// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/drafted_states.hpp>
#include <engine/model.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

struct stream_weights;

/// Speculative streams of a target, which outlives them (Bhendawade et al. 2024, arXiv:2402.11131):
/// rows beside the rows of tokens in the target's top layers. While they are there, the target's
/// passes have as many streams as are asked for. Its logits are bitwise what they are without.
///
/// With x the residual of a row after the layers below, and n = x / rms(x), stream j begins as
/// x + up_j silu(down n) + embedding_j, or x + up_j down n + embedding_j as in the paper (see
/// `stream_config::linear_map`), at the position j + 1 after its row. It attends to what
/// its row attends to, to its row, and to the streams before it. Each product of a layer has an
/// adapter, b a, that only streams go through. The target's last norm makes of it the state s_j.
///
/// What is drafted from is s_j + u_j silu(r [s_j; E(root)]): the pass that made a stream did not
/// know the token that the target then emitted. (As Hydra's heads know what was drafted: Ankner et
/// al. 2024, arXiv:2402.05109.) Without the weights of this map it is s_j, as in the paper.
class speculative_streams {
 public:
  /// \param weights "streams.down.weight" [r, hidden], "streams.up.weight" [streams hidden, r], or
  ///        [hidden, r] where all streams begin with one map,
  ///        "streams.embedding.weight" [streams, hidden], and of each layer i from the lowest,
  ///        "streams.layers.<i>.<p>.a.weight" [s, inputs] and ".b.weight" [outputs, s] for p in
  ///        query_key_value, output, gate, up (with the a of gate) and down; perhaps
  ///        "streams.root.down.weight" [t, 2 hidden], "streams.root.up.weight" [streams hidden, t].
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if there
  ///         are too many streams or layers, the target's sizes are others, or it has streams.
  speculative_streams(const stream_config& shape, const checkpoint& weights, model& target);
  speculative_streams(speculative_streams&&) noexcept;
  speculative_streams& operator=(speculative_streams&&) = delete;
  ~speculative_streams();

  /// Reads `config.json` and the safetensors files of a directory.
  static speculative_streams load(const std::filesystem::path& directory, model& target);

  std::int32_t vocab_size() const;
  std::int32_t hidden_size() const;
  /// How many streams there are.
  std::int32_t heads() const;
  /// What a router reads: the state that the head is about to read.
  std::int32_t context_width() const { return hidden_size(); }
  /// The target's layers that they run through.
  int layers() const;
  std::size_t weight_bytes() const;

  /// The order of the target's head over shortlists: one for all that draft with it.
  void set_head_layout(const hunch::vocab_layout& layout);
  std::uint64_t head_order() const;

  /// What is drafted from. A row is bitwise the same alone and among others, with any number of
  /// threads. \throws std::out_of_range for tokens outside the vocabulary,
  ///         std::invalid_argument for more states than there are streams.
  drafted_states forward(const hunch::head_inputs& inputs);

  /// Writes the logits of the listed rows over their shortlists. Throws like `model::head`.
  void head(const drafted_states& states, const hunch::head_rows<float>& rows);

 private:
  void compute(const hunch::head_inputs& inputs, int thread);

  model::implementation* of_;
  std::unique_ptr<stream_weights> weights_;
};

static_assert(hunch::DraftHeads<speculative_streams>);

}  // namespace engine
