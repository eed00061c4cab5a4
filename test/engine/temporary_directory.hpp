// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <random>
#include <string>

namespace test {

/// A directory of its own that goes away with the object.
class temporary_directory {
 public:
  temporary_directory() {
    static std::atomic<int> count{0};
    path_ =
        std::filesystem::temp_directory_path() /
        ("hunch-test-" + std::to_string(std::random_device{}()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  ~temporary_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace test
