// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <hunch/bfloat16.hpp>
#include <hunch/float16.hpp>
#include <hunch/kernel/arithmetic.hpp>
#include <hunch/kernel/head_weights.hpp>
#include <hunch/layout/tensor_file.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch {

/// A value that tells heads apart, from all of their weights in token order: the sum, modulo 2^64,
/// of the mixed bits of each as a float (its integer times its row's scale, where it has one) and
/// of its place. The order of the additions does not matter. Never 0.
/// \param head in memory of the host.
template <class Weight>
std::uint64_t head_hash(const kernel::head_weights<Weight>& head) {
  std::uint64_t sum = 0;
  std::uint64_t place = 0;
  for (std::int32_t r = 0; r < head.rows; ++r) {
    const Weight* const row = head.row(r);
    const float scale = head.row_scale == nullptr ? 1.0f : head.row_scale[r];
    for (std::int32_t k = 0; k < head.width; ++k) {
      const std::uint64_t bits = kernel::bit_cast<std::uint32_t>(to_float(row[k]) * scale);
      std::uint64_t x = (place++ << 32 | bits) * 0x9E3779B97F4A7C15ull;
      x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
      sum += x ^ (x >> 32);
    }
  }
  return sum == 0 ? 1 : sum;
}

/// Saves a layout as safetensors: "row_token" and, if it has clusters, "cluster_begin".
///
/// \param head `head_hash` of the head that it was made for, 0 if it was made from text alone.
/// \param about more words for the file's metadata, such as how the layout was made.
/// \throws std::runtime_error if the file cannot be written.
inline void save_layout(const std::filesystem::path& path, const vocab_layout& layout,
                        std::uint64_t head = 0, std::map<std::string, std::string> about = {}) {
  tensor_file file;
  file.about = std::move(about);
  file.about["format"] = "hunch.vocab_layout";
  file.about["vocab_size"] = std::to_string(layout.vocab_size());
  file.about["head"] = std::to_string(head);
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

/// Loads a layout. One that was made for another head is refused: clusters of other weights would
/// be nonsense, and nothing would show it but the speed.
///
/// \param head `head_hash` of the head that it is for; 0 loads a layout of any.
/// \throws std::runtime_error for a file that is not a layout, or one for another head or
///         vocabulary; std::invalid_argument for tables that no layout can have.
inline vocab_layout load_layout(const std::filesystem::path& path, std::int32_t vocab_size,
                                std::uint64_t head = 0) {
  const tensor_file file = tensor_file::read(path);
  const auto number = [&](const std::string& key) {
    std::uint64_t value = 0;
    const auto found = file.about.find(key);
    if (found == file.about.end()) { file.fail("is not a layout: it does not say '" + key + "'"); }
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      file.fail("'" + key + "' is not a number");
    }
    return value;
  };
  const std::uint64_t vocabulary = number("vocab_size");
  if (vocabulary != static_cast<std::uint64_t>(vocab_size)) {
    file.fail("is for a vocabulary of " + std::to_string(vocabulary) + " tokens, not of " +
              std::to_string(vocab_size));
  }
  const std::uint64_t made_for = number("head");
  if (made_for != 0 && head != 0 && made_for != head) {
    file.fail("was made for another head: make it anew from this one's weights");
  }
  vocab_layout layout = vocab_layout::permuted(file.get<std::int32_t>("row_token"), vocab_size);
  return file.has("cluster_begin") ? layout.clustered(file.get<std::int32_t>("cluster_begin"))
                                   : layout;
}

}  // namespace hunch
