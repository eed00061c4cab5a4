// SPDX-License-Identifier: Apache-2.0
//
// What a user's first file looks like: it must build with nothing but the package.

#include <cstdio>
#include <vector>

#include <hunch/hunch.hpp>
#include <hunch/tools/frequency_ranking.hpp>

int main() {
  const std::vector<hunch::token> corpus{2, 2, 1};
  const hunch::selector::frequency selector{hunch::frequency_ranking(corpus, 4), 2};
  const hunch::token most_frequent = selector.layout().row_token()[0];
  std::printf("most frequent token: %d\n", most_frequent);
  return most_frequent == 2 ? 0 : 1;
}
