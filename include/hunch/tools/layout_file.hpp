// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/tensor_file.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// Saves a layout as safetensors: "row_token" [head rows] and, if it has clusters, "cluster_begin"
/// [clusters + 1]. Replaces a file that is there.
///
/// \param head whose order it is: with its own fingerprint for a layout that was made from weights,
///        with that of the vocabulary for one that was made from text alone.
/// \param about more words for the file's metadata, such as how the layout was made.
/// \throws std::invalid_argument if the layout is of another vocabulary, or neither fingerprint is
///         known; std::runtime_error if the file cannot be written.
inline void save_layout(const std::filesystem::path& path, const vocab_layout& layout,
                        const made_for& head, std::map<std::string, std::string> about = {}) {
  if (layout.vocab_size() != head.vocab_size || (head.vocabulary == 0 && head.head == 0)) {
    throw std::invalid_argument(message({"hunch::save_layout: ", path.string(),
                                         " would not say for which vocabulary or head it is"}));
  }
  tensor_file file;
  file.about = std::move(about);
  file.about["format"] = "hunch.vocab_layout";
  head.put(file);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(layout.head_rows()));
  for (std::int32_t r = 0; r < layout.head_rows(); ++r) {
    rows[static_cast<std::size_t>(r)] = layout.row_token() == nullptr ? r : layout.row_token()[r];
  }
  file.put("row_token", {layout.head_rows()}, rows);
  if (layout.clusters() > 0) {
    const std::vector<std::int32_t> begin(layout.cluster_begin(),
                                          layout.cluster_begin() + layout.clusters() + 1);
    file.put("cluster_begin", {layout.clusters() + 1}, begin);
  }
  file.write(path);
}

/// Loads a layout. One that was made for another head or vocabulary is refused: it would be
/// nonsense, and nothing would show it but the speed.
///
/// \param head that it is for; see `made_for::check`.
/// \throws std::runtime_error for a file that is not a layout, or one for another head or
///         vocabulary; std::invalid_argument for tables that no layout can have.
inline vocab_layout load_layout(const tensor_file& file, const made_for& head) {
  if (!file.has("row_token")) { file.fail("is not a layout: it has no tensor 'row_token'"); }
  head.check(file);
  vocab_layout layout =
      vocab_layout::permuted(file.get<std::int32_t>("row_token"), head.vocab_size);
  return file.has("cluster_begin") ? layout.clustered(file.get<std::int32_t>("cluster_begin"))
                                   : layout;
}
/// The same from a file that is read first. \throws also what `tensor_file::read` does.
inline vocab_layout load_layout(const std::filesystem::path& path, const made_for& head) {
  return load_layout(tensor_file::read(path), head);
}

}  // namespace hunch
