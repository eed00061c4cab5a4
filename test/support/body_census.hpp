// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include <cxxabi.h>

namespace hunch::test {

/// Which bodies a process has run by teams of threads. At its end it writes them to the file that
/// the environment names by HUNCH_BODY_CENSUS, if it does: a line for each, `block` or `cluster`
/// and the type. `team/census.py` compares these with the bodies of the headers.
class body_census {
 public:
  static body_census& of_process() {
    static body_census census;
    return census;
  }

  void note(const std::type_info& body, bool by_cluster) {
    const std::lock_guard lock(mutex_);
    seen_.emplace(body, by_cluster);
  }

 private:
  body_census() = default;
  ~body_census() {
    const char* path = std::getenv("HUNCH_BODY_CENSUS");
    if (path == nullptr) { return; }
    std::ofstream file(path);
    for (const auto& [body, by_cluster] : seen_) {
      file << (by_cluster ? "cluster " : "block ") << readable(body.name()) << '\n';
    }
  }

  static std::string readable(const char* name) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
    return status == 0 ? text.get() : name;
  }

  std::mutex mutex_;
  std::set<std::pair<std::type_index, bool>> seen_;
};

}  // namespace hunch::test
