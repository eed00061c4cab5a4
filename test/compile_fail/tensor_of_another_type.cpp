// SPDX-License-Identifier: Apache-2.0
// expect: hunch: a tensor_file holds float and std::int32_t

#include <vector>

#include <hunch/tools/tensor_file.hpp>
#include "models.hpp"

void compose() {
#ifdef WRONG
  using value = double;
#else
  using value = float;
#endif
  hunch::tensor_file file;
  file.put<value>("weights", {2}, std::vector<value>{1, 2});
}
