// SPDX-License-Identifier: Apache-2.0
#include "generate/start_ranks.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "generate/arguments.hpp"

namespace generate {

void start_ranks(const std::vector<std::string>& words, std::int32_t ranks) {
  std::error_code none;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::string program = (here.parent_path() / "generate_ranks").string();
  if (access(program.c_str(), X_OK) != 0) {
    throw usage_error("--ranks: there is no " + program +
                      "; install libopenmpi-dev and openmpi-bin, configure again, and build the "
                      "target generate_ranks");
  }
  // As many as are asked for, on however few processors.
  std::vector<std::string> all{"mpirun", "--oversubscribe", "-n", std::to_string(ranks), program};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) { pointers.push_back(word.data()); }
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  throw usage_error("--ranks: mpirun cannot be started; install openmpi-bin");
}

}  // namespace generate
