// SPDX-License-Identifier: Apache-2.0
//
// The same headers as in main.cpp once more: a function that is not inline would be defined twice.

#include <hunch/hunch.hpp>

int rows_of_full_selector(int vocab_size) {
  return hunch::selector::full(vocab_size).layout().head_rows();
}
