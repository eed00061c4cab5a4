// SPDX-License-Identifier: Apache-2.0

// Layouts of any rows are refused or are injective, and shortlists invert themselves.

#include <set>
#include <stdexcept>
#include <vector>

#include <hunch/selector/frequency.hpp>
#include <hunch/tools/frequency_ranking.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hunch::test::must;
  hunch::test::bytes in{data, size};
  const std::int32_t vocab = in.below(40) - 2;
  std::vector<hunch::token> rows;
  for (std::int32_t n = in.below(40); n > 0; --n) {
    rows.push_back(in.below(16) == 0 ? static_cast<hunch::token>(in.word()) : in.below(40));
  }
  bool valid = vocab > 0 && !rows.empty();
  std::set<hunch::token> seen;
  for (const hunch::token t : rows) {
    valid = valid && t >= 0 && t < vocab && seen.insert(t).second;
  }
  bool built = false;
  try {
    const auto layout = hunch::vocab_layout::permuted(rows, vocab);
    built = true;
    std::vector<hunch::row_range> ranges;
    std::int32_t at = 0;
    while (at < layout.head_rows()) {
      at += in.below(3);
      const std::int32_t end = std::min(layout.head_rows(), at + 1 + in.below(4));
      if (at < end) { ranges.push_back({at, end}); }
      at = end + 1;
    }
    const hunch::shortlist list =
        layout.list(ranges.data(), static_cast<std::int32_t>(ranges.size()));
    std::set<hunch::token> held;
    for (std::int32_t i = 0; i < list.size; ++i) {
      const hunch::token t = list.token_at(i);
      must(list.position_of(t) == i, "position_of inverts token_at");
      held.insert(t);
    }
    must(held.size() == static_cast<std::size_t>(list.size), "no token twice");
    for (hunch::token t = 0; t < vocab; ++t) {
      must((list.position_of(t) >= 0) == held.contains(t), "only what is in the list");
    }
    // The same where the ranges and what lies between them are clusters.
    std::vector<std::int32_t> begin;
    for (const hunch::row_range& range : ranges) {
      if (begin.empty() || begin.back() < range.begin) { begin.push_back(range.begin); }
      begin.push_back(range.end);
    }
    if (begin.size() >= 2) {
      if (begin.back() < layout.head_rows()) { begin.push_back(layout.head_rows()); }
      const auto clustered = layout.clustered(begin);
      std::vector<std::int32_t> shifts(static_cast<std::size_t>(clustered.parts()));
      const hunch::shortlist shifted =
          clustered.list(ranges.data(), static_cast<std::int32_t>(ranges.size()), shifts.data());
      must(shifted.shift != nullptr, "a list of whole clusters has shifts");
      for (hunch::token t = 0; t < vocab; ++t) {
        must(shifted.position_of(t) == list.position_of(t), "shifts lead to the same positions");
      }
    }
  } catch (const std::invalid_argument&) {}
  must(built == valid, "refused if and only if it is wrong");

  bool ranked = false;
  try {
    const auto layout = hunch::frequency_ranking(rows, vocab);
    ranked = true;
    must(layout.head_rows() == vocab, "a ranking has every token");
  } catch (const std::invalid_argument&) {}
  bool inside = vocab > 0;
  for (const hunch::token t : rows) { inside = inside && t >= 0 && t < vocab; }
  must(ranked == inside, "a corpus is refused if and only if it is wrong");
  return 0;
}
