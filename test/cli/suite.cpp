// SPDX-License-Identifier: Apache-2.0

// A suite of benchmarks that measures nothing, for what all of them share.

#include <common.hpp>

int main(int argc, char** argv) {
  return bench::run("suite", argc, argv, [](bench::report& out) {
    out.add("a row", 1.0, "x", bench::at_least(1.0));
    out.not_run("another", "why");
  });
}
