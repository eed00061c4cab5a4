// SPDX-License-Identifier: Apache-2.0
#include <engine/mapped_file.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace engine {

mapped_file::mapped_file(const std::filesystem::path& file) {
  const auto fail = [&](const char* what) {
    throw std::runtime_error(file.string() + ": " + what + ": " + std::strerror(errno));
  };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) { fail("cannot be opened"); }
  struct stat information {};
  if (::fstat(descriptor, &information) != 0 || !S_ISREG(information.st_mode)) {
    ::close(descriptor);
    throw std::runtime_error(file.string() + ": not a regular file");
  }
  size_ = static_cast<std::size_t>(information.st_size);
  if (size_ == 0) {
    ::close(descriptor);
    return;
  }
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  ::close(descriptor);
  if (mapping == MAP_FAILED) { fail("cannot be mapped"); }
  ::madvise(mapping, size_, MADV_WILLNEED);
  data_ = static_cast<const std::byte*>(mapping);
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) { ::munmap(const_cast<std::byte*>(data_), size_); }
}

}  // namespace engine
