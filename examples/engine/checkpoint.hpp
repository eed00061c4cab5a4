// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <engine/config.hpp>
#include <engine/tensor.hpp>

/// \file
/// Named tensors: the safetensors files of a directory, mapped, or tensors made in memory.

namespace engine {

class mapped_file;

class checkpoint {
 public:
  checkpoint();
  checkpoint(checkpoint&&) noexcept;
  checkpoint& operator=(checkpoint&&) noexcept;
  ~checkpoint();

  /// Maps a safetensors file, or of a directory the shards that `model.safetensors.index.json`
  /// names, or `model.safetensors`, or the only one there is.
  /// \throws std::runtime_error naming the file, and the tensor where there is one, for a missing
  ///         or damaged file: truncation, bad JSON, unknown dtypes, offsets that overlap, leave
  ///         the file or do not fit the shape, tensors that the index names and no shard has.
  static checkpoint open(const std::filesystem::path& source);

  /// Adds a tensor from memory. \throws std::invalid_argument if the bytes do not fit the shape.
  void add(const std::string& name, dtype type, std::vector<std::int64_t> shape,
           std::vector<std::byte> bytes);

  /// Takes over the matrices of `other` with these names that are missing here, and their scales.
  void add_missing(checkpoint&& other, const std::vector<std::string>& names);

  /// Takes over the matrix `of` of `other` and its scales as `name`, in place of what has that
  /// name.
  void replace(const std::string& name, checkpoint&& other, const std::string& of);

  bool has(const std::string& name) const { return entries_.count(name) != 0; }

  /// The tensor `name`. \throws std::runtime_error naming it when it is missing.
  const tensor_view& get(const std::string& name) const;

  /// The tensor `name` as [rows, columns] weights, with the scales of `name` + "_scale" if it is
  /// I8. \throws std::runtime_error naming file and tensor when a shape or a dtype is wrong.
  matrix_view matrix(const std::string& name, int rows, int columns) const;

  /// The tensor `name` of shape [size], as floats. Throws like `matrix`.
  std::vector<float> vector(const std::string& name, int size) const;

  /// The tensor `name` as a list of integers. Throws like `matrix`.
  std::vector<std::int64_t> integers(const std::string& name) const;

  std::vector<std::string> names() const;
  /// Gives the tensors whose names begin with `from` names that begin with `to` instead.
  /// \throws std::runtime_error naming the file and the tensor where another has that name.
  void rename_prefix(const std::string& from, const std::string& to);

  /// What is not read is not computed either: a file with more is another model's.
  /// \param read the names that are, without those of scales.
  /// \throws std::runtime_error naming the file, another tensor as the file names it, and `why`.
  void refuse_others(const std::set<std::string>& read, const std::string& why) const;

  /// The rows of the tensor `name`, where nothing else says how many.
  /// \throws std::runtime_error if it is missing, or has none or absurdly many.
  int rows_of(const std::string& name) const;

  /// Where the tensors come from, for messages.
  const std::string& origin() const { return origin_; }

 private:
  struct entry {
    tensor_view view;
    std::string file;
    std::string stored_name;  ///< before it was renamed
  };

  void read_file(const std::filesystem::path& file);
  void keep_files(checkpoint&& other);
  const entry& find(const std::string& name) const;

  std::string origin_ = "memory";
  std::map<std::string, entry> entries_;
  std::vector<std::unique_ptr<mapped_file>> files_;
  std::vector<std::vector<std::byte>> owned_;
};

/// The checkpoint of a head that drafts with its target's embedding and language-model head: these
/// two, where it lacks them, from the checkpoint of the target. \throws like `checkpoint::open`.
checkpoint head_of_target(const std::filesystem::path& directory,
                          const std::filesystem::path& target_directory, config::naming names);

}  // namespace engine
