// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ggml.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace llama_cpp {

/// The language-model head of a GGUF file, row by row: "output.weight", or the embedding where a
/// model has that for a head. Nothing else of the file is read.
class gguf_head {
 public:
  /// \throws std::runtime_error for a file that is no GGUF file, or has no such tensor, as the
  /// first of several shards may have not.
  explicit gguf_head(const std::string& path);

  int rows() const { return rows_; }
  int width() const { return width_; }
  /// Whether its values are those of a checkpoint, in up to float32, and not rounded in groups.
  bool is_plain() const;
  /// \param out [width]. \throws std::runtime_error if the file ends before.
  void read_row(int row, float* out);

 private:
  std::string path_;
  std::ifstream file_;
  ggml_type type_ = GGML_TYPE_F32;
  int rows_ = 0;
  int width_ = 0;
  std::uint64_t begin_ = 0;
  std::vector<char> bytes_;
};

}  // namespace llama_cpp
