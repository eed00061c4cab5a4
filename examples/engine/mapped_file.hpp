// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

namespace engine {

/// A file, mapped for reading. It must not shrink while it is mapped.
class mapped_file {
 public:
  /// \throws std::runtime_error naming the file when it cannot be opened or mapped.
  explicit mapped_file(const std::filesystem::path& file);
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace engine
