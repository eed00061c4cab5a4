// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include <engine/mapped_file.hpp>

namespace test {

/// A reader of small safetensors files with I32 and F32 tensors.
class golden_file {
 public:
  explicit golden_file(const std::filesystem::path& path) : file_{path} {
    std::uint64_t size = 0;
    std::memcpy(&size, file_.data(), sizeof size);
    const auto* text = reinterpret_cast<const char*>(file_.data()) + sizeof size;
    header_ = nlohmann::json::parse(text, text + size);
    data_ = file_.data() + sizeof size + size;
  }

  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto& entry = header_.at(name);
    REQUIRE(entry.at("dtype") == (std::is_same_v<T, float> ? "F32" : "I32"));
    const auto begin = entry.at("data_offsets").at(0).get<std::size_t>();
    const auto end = entry.at("data_offsets").at(1).get<std::size_t>();
    std::vector<T> out((end - begin) / sizeof(T));
    std::memcpy(out.data(), data_ + begin, end - begin);
    return out;
  }

  std::vector<std::size_t> shape(const std::string& name) const {
    return header_.at(name).at("shape").get<std::vector<std::size_t>>();
  }

 private:
  engine::mapped_file file_;
  nlohmann::json header_;
  const std::byte* data_ = nullptr;
};

}  // namespace test
