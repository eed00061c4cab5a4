// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <engine/eagle_form.hpp>

/// \file
/// The shape of a Llama-family model.

namespace engine {

/// Rotary position embedding. The defaults are plain RoPE.
struct rope_config {
  enum class scaling { none, linear, llama3 };

  double theta = 10000.0;
  scaling kind = scaling::none;
  double factor = 1.0;
  double low_frequency_factor = 1.0;   ///< llama3
  double high_frequency_factor = 4.0;  ///< llama3
  double original_context = 8192.0;    ///< llama3

  bool operator==(const rope_config&) const = default;
};

struct config {
  /// How a checkpoint calls its tensors: as LlamaForCausalLM does, or as LLaDAModelLM does.
  enum class naming { llama, llada };

  int vocab_size = 0;
  int hidden = 0;
  int intermediate = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int context = 0;  ///< `max_position_embeddings`
  float norm_epsilon = 1e-6f;
  bool tied_head = false;
  bool qkv_bias = false;   ///< beside the products that make queries, keys and values
  bool qk_norm = false;    ///< over each head of queries and keys, before they turn
  int embedding_rows = 0;  ///< of embedding and head where they are padded; 0: `vocab_size`
  naming names = naming::llama;
  rope_config rope;
  eagle_form eagle;             ///< of a head of a target
  std::vector<int> end_tokens;  ///< `eos_token_id`, of `generation_config.json`, too; may be empty
  /// `vocabulary_fingerprint` of the tokenizer that it was trained with; 0: the config does not say
  std::uint64_t vocabulary = 0;

  // The largest model: products of two of these are numbers of 32 bits.
  static constexpr int max_tokens = 1 << 24;
  static constexpr int max_positions = 1 << 24;
  static constexpr int max_hidden = 1 << 18;  ///< also of `intermediate`, times eight
  static constexpr int max_layers = 1 << 12;
  static constexpr int max_heads = 1 << 10;  ///< also of `head_dim`, times four

  /// What the attention of a layer reads of a row, and what a head of a target makes rows of.
  int attention_inputs() const { return eagle.reads_both ? 2 * hidden : hidden; }
  int joint_inputs() const { return eagle.reads_both ? eagle.feature_width : 2 * hidden; }
  /// Tokens that its own language-model head knows.
  int rows_of_head() const { return eagle.head_rows == 0 ? vocab_size : eagle.head_rows; }
  int rows_of_embedding() const { return embedding_rows == 0 ? vocab_size : embedding_rows; }

  /// \throws std::invalid_argument naming the first field that makes no model.
  void check() const;
};

/// Compares what the `config.json` of a head says of its target, "target_head_fingerprint", with
/// the target: a head of another model drafts nothing that is accepted, and nothing but the speed
/// would show it.
/// \param target_head `head_fingerprint` of the target; \param target its name, for messages.
/// \throws std::runtime_error naming both and what differs, or what to write into a config that
///         does not say.
void check_target(const std::filesystem::path& config_file, std::uint64_t target_head,
                  const std::string& target);

/// Heads that draft several tokens ahead from a target's hidden state.
struct medusa_config {
  int heads = 0;
  int hidden = 0;
  int vocab_size = 0;
  bool own_heads = false;  ///< each has a language-model head of its own, and not the target's
};

/// A view of the first layers of a target.
struct exit_config {
  int layer = 0;  ///< how many
};

/// Speculative streams of a target.
struct stream_config {
  int streams = 0;
  int layers = 0;  ///< of the target, the last ones
  int hidden = 0;
  int vocab_size = 0;
  bool linear_map = false;  ///< what they begin with is a linear map of their row
};

/// Reads a Hugging Face `config.json` of a LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM
/// or Qwen3ForCausalLM. Where layers see a sliding window of the last positions, the context ends
/// with the window: within it they see everything. `generation_config.json` beside it may name
/// further tokens that end a text.
/// \throws std::runtime_error naming the file and the key for anything missing, malformed, or
///         not supported: other architectures, biases that the architecture does not have by
///         itself, other activations or rope scalings.
config read_config(const std::filesystem::path& file);

/// Reads "medusa_num_heads", "hidden_size", "vocab_size" and, where it is there, "own_heads" of a
/// `config.json` whose architecture is HunchMedusaHeads. Throws like `read_config`.
medusa_config read_medusa_config(const std::filesystem::path& file);

/// Reads "exit_layer" of a `config.json` whose architecture is HunchEarlyExit. Throws like
/// `read_config`.
exit_config read_exit_config(const std::filesystem::path& file);

/// Reads "speculative_streams", "stream_layers", "hidden_size", "vocab_size" and, where it is
/// there, "map_activation", "silu" (the default) or "none", of a `config.json` whose architecture
/// is HunchSpeculativeStreams. Throws like `read_config`.
stream_config read_stream_config(const std::filesystem::path& file);

}  // namespace engine
