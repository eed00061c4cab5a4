// SPDX-License-Identifier: Apache-2.0

// A suite of benchmarks that measures nothing, for what all of them share.

#include <common.hpp>
#include <evaluate/request_metrics.hpp>

int main(int argc, char** argv) {
  return bench::run("suite", argc, argv, [](bench::report& out) {
    out.add("a row", 1.0, "x", bench::at_least(1.0));
    out.not_run("another", "why");
    // Levels, tokens and accepted ones of each step: a tree in the first, nothing in the third.
    bench::evaluate::request_metrics drafts(3);
    drafts.observe(3, 7, 3);
    drafts.observe(2, 2, 0);
    drafts.observe(0, 0, 0);
    drafts.observe(3, 3, 1);
    bench::evaluate::request_metrics all(3);
    out.list("requests", drafts.json());
    out.list("requests", all.json());
    all += drafts;
    all += drafts;
    out.list("requests", all.json());
    out.add("tokens per step", all.tokens_per_step(), "tokens");
    for (const int i : {0, 1, 2}) { out.add("accepted", all.acceptance_at(i), ""); }
  });
}
