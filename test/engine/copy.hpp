// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <hunch/model/rows.hpp>

namespace test {

/// What a row holds, to be compared after a later pass has overwritten it.
template <class T>
std::vector<float> copy(hunch::row_view<T> row) {
  return {row.data, row.data + row.size};
}

}  // namespace test
