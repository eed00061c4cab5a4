// SPDX-License-Identifier: Apache-2.0
#include <engine/draft_head.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/bfloat16.hpp>
#include <engine/simd.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/tools/fingerprints.hpp>

namespace engine {
namespace {

int token_of(const hunch::vocab_layout& layout, int row) {
  return layout.row_token() == nullptr ? row : layout.row_token()[row];
}

/// \throws std::invalid_argument when a shortlist does not fit its output or the head.
void check_shortlist(std::int32_t i, const hunch::shortlist& list, std::int32_t room, int rows) {
  const auto refuse = [i](const std::string& why) {
    throw std::invalid_argument("engine::draft_head: head row " + std::to_string(i) + " has " +
                                why);
  };
  std::int64_t size = 0;
  for (std::int32_t r = 0; r < list.range_count; ++r) {
    const hunch::row_range range = list.ranges[r];
    if (range.begin < 0 || range.end < range.begin || range.end > rows) {
      refuse("a range outside the head of " + std::to_string(rows) + " rows");
    }
    size += range.end - range.begin;
  }
  if (size != list.size || list.size != room) {
    refuse("a list of " + std::to_string(size) + " rows and room for " + std::to_string(room));
  }
}

/// Of the head's rows those that the rows of a layout are.
std::vector<int> rows_of(const hunch::vocab_layout& layout, const hunch::vocab_layout* tokens) {
  std::vector<int> out;
  for (int i = 0; i < layout.head_rows(); ++i) {
    const int token = token_of(layout, i);
    out.push_back(tokens == nullptr || tokens->token_row() == nullptr ? token
                                                                      : tokens->token_row()[token]);
    if (out.back() < 0) {
      throw std::invalid_argument("engine::draft_head: the layout has token " +
                                  std::to_string(token) + ", and the head drafts " +
                                  std::to_string(tokens->head_rows()) + " others");
    }
  }
  return out;
}

}  // namespace

std::uint64_t head_fingerprint(const head_source& head, int rows,
                               const hunch::vocab_layout* tokens) {
  std::vector<float> values(static_cast<std::size_t>(head.inputs()));
  std::uint64_t sum = 0;
  for (int row = 0; row < rows; ++row) {
    head.read_row(row, values.data());
    sum +=
        hunch::row_fingerprint(tokens == nullptr ? row : token_of(*tokens, row), values.data(),
                               head.inputs(), head.type() == dtype::i8 ? head.scale_of(row) : 1.0f);
  }
  return sum == 0 ? 1 : sum;
}

draft_head::draft_head(const head_source& head, const hunch::vocab_layout& layout,
                       thread_pool& pool, const hunch::vocab_layout* tokens)
    : draft_head(head, layout.order(), rows_of(layout, tokens), pool) {}

draft_head::draft_head(const head_source& head, std::uint64_t order, const std::vector<int>& rows,
                       thread_pool& pool)
    : order_{order},
      rows_{static_cast<int>(rows.size())},
      width_{round_up(head.inputs(), lanes)},
      executor_{pool},
      stored_{
          head.type() == dtype::f32 ? store<float>(head, rows, [](float v) { return v; })
          : head.type() == dtype::i8
              ? store<std::int8_t>(head, rows, [](float v) { return static_cast<std::int8_t>(v); })
              : store<hunch::bfloat16>(head, rows,
                                       [](float v) { return hunch::bfloat16{to_bf16(v)}; })} {
  if (head.type() != dtype::i8) { return; }
  for (const int row : rows) { scale_.push_back(head.scale_of(row)); }
}

template <class Weight, class Narrow>
draft_head::any_stored draft_head::store(const head_source& head, const std::vector<int>& rows,
                                         Narrow narrow) {
  const auto width = static_cast<std::size_t>(width_);
  stored<Weight> out{aligned_buffer<Weight>(rows.size() * width), {executor_, rows_, width_}};
  std::vector<float> values(static_cast<std::size_t>(head.inputs()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    head.read_row(rows[i], values.data());
    std::transform(values.begin(), values.end(), out.weights.data() + i * width, narrow);
  }
  return out;
}

void draft_head::multiply(const float* hidden, int stride, const hunch::head_rows<float>& asked) {
  for (std::int32_t i = 0; i < asked.size; ++i) {
    check_shortlist(i, asked.lists[i], asked.logits[i].size, rows_);
  }
  std::visit(
      [&]<class Weight>(stored<Weight>& of) {
        const hunch::kernel::head_weights<Weight> weights{of.weights.data(), rows_, width_,
                                                          scale_.empty() ? nullptr : scale_.data()};
        of.product(executor_, weights, hidden, stride, asked);
      },
      stored_);
}

}  // namespace engine
