// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <engine/config.hpp>
#include <engine/tensor.hpp>

#include "tiny_model.hpp"

/// \file
/// Checkpoints on disk, and what loading them says.

namespace test {

inline constexpr const char* weights_file = "model.safetensors";

/// What the config of a Llama says.
inline nlohmann::json config_json(const engine::config& c) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_act", "silu"},
          {"vocab_size", c.vocab_size},
          {"hidden_size", c.hidden},
          {"intermediate_size", c.intermediate},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"max_position_embeddings", c.context},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", c.tied_head},
          {"eos_token_id", 2}};
}

inline nlohmann::json header_of(const std::vector<stored_tensor>& tensors) {
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t offset = 0;
  for (const auto& t : tensors) {
    header[t.name] = {{"dtype", engine::to_string(t.type)},
                      {"shape", t.shape},
                      {"data_offsets", {offset, offset + t.bytes.size()}}};
    offset += t.bytes.size();
  }
  return header;
}

inline void write_safetensors(const std::filesystem::path& file, const std::string& header,
                              const std::vector<stored_tensor>& tensors) {
  std::ofstream out(file, std::ios::binary);
  for (int i = 0; i < 8; ++i) { out.put(static_cast<char>(header.size() >> (8 * i) & 0xff)); }
  out << header;
  for (const auto& t : tensors) {
    out.write(reinterpret_cast<const char*>(t.bytes.data()),
              static_cast<std::streamsize>(t.bytes.size()));
  }
}

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

/// Whether a complaint has all of the words.
inline bool names(const std::string& complaint, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (complaint.find(word) == std::string::npos) {
      MESSAGE("\"" << complaint << "\" does not name " << word);
      return false;
    }
  }
  return true;
}

}  // namespace test
