// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <queue>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

// Names that system headers define as macros: nothing of the library may use them.
#define I hunch_macro_trap(
#define B0 hunch_macro_trap(
#define small hunch_macro_trap(
#define near hunch_macro_trap(
#define far hunch_macro_trap(
#define interface hunch_macro_trap(
#define major hunch_macro_trap(
#define minor hunch_macro_trap(
#define ERROR hunch_macro_trap(

#include <hunch/head/range_gemv.hpp>
#include <hunch/hunch.hpp>
#include <hunch/team/simulated.hpp>

int rows_of_full_selector(int vocab_size);

int main() {
  const int here = hunch::selector::full(7).layout().head_rows();
  return here == 7 && rows_of_full_selector(7) == here ? 0 : 1;
}
