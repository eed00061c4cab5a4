// SPDX-License-Identifier: Apache-2.0
#include <engine/draft_head.hpp>

#include <algorithm>
#include <type_traits>

#include <engine/bfloat16.hpp>
#include <engine/simd.hpp>
#include <hunch/kernel/range_gemv.hpp>
#include <hunch/team/serial.hpp>

namespace engine {

draft_head::draft_head(const packed_matrix& head, const hunch::vocab_layout& layout)
    : fingerprint_{layout.fingerprint()},
      stored_{head.kind() == arithmetic::f32 ? stored::f32
              : head.scale() != nullptr      ? stored::i8
                                             : stored::bf16},
      rows_{layout.head_rows()},
      width_{round_up(head.inputs(), lanes)} {
  const std::size_t size = static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_);
  switch (stored_) {
    case stored::f32:
      f32_weights_.grow(size);
      break;
    case stored::bf16:
      bf16_weights_.grow(size);
      break;
    case stored::i8:
      i8_weights_.grow(size);
      break;
  }
  if (head.scale() != nullptr) { scale_.resize(static_cast<std::size_t>(rows_)); }
  std::vector<float> values(static_cast<std::size_t>(head.inputs()));
  for (int row = 0; row < rows_; ++row) {
    const int token = layout.row_token() == nullptr ? row : layout.row_token()[row];
    head.read_row(token, values.data());
    const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(width_);
    switch (stored_) {
      case stored::f32:
        std::copy(values.begin(), values.end(), f32_weights_.data() + at);
        break;
      case stored::bf16:
        std::transform(values.begin(), values.end(), bf16_weights_.data() + at,
                       [](float v) { return hunch::bfloat16{to_bf16(v)}; });
        break;
      case stored::i8:
        std::transform(values.begin(), values.end(), i8_weights_.data() + at,
                       [](float v) { return static_cast<std::int8_t>(v); });
        break;
    }
    if (!scale_.empty()) { scale_[static_cast<std::size_t>(row)] = head.scale()[token]; }
  }
}

void draft_head::multiply(int thread, int threads, const float* hidden,
                          const hunch::shortlist& list, hunch::row_view<float> logits) const {
  const float* const scale = scale_.empty() ? nullptr : scale_.data();
  const auto boundary = [&](int t) {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(list.size) * t / threads);
  };
  const std::int32_t first = boundary(thread);
  const std::int32_t last = boundary(thread + 1);
  hunch::team::serial team;
  std::int32_t before = 0;  // positions in earlier ranges
  for (std::int32_t r = 0; r < list.range_count && before < last; ++r) {
    const hunch::row_range range = list.ranges[r];
    const std::int32_t length = range.end - range.begin;
    const std::int32_t from = std::max(first - before, 0);
    const std::int32_t to = std::min(last - before, length);
    if (from < to) {
      const hunch::row_range mine{range.begin + from, range.begin + to};
      const hunch::shortlist part{&mine, 1, to - from, nullptr, nullptr};
      const hunch::row_view<float> out{logits.data + before + from, to - from};
      const auto multiply = [&](const auto* weights) {
        using weight = std::remove_cvref_t<decltype(*weights)>;
        const hunch::kernel::head_weights<weight> all{weights, rows_, width_, scale};
        hunch::kernel::range_gemv(team, all, part, hidden, out);
      };
      switch (stored_) {
        case stored::f32:
          multiply(f32_weights_.data());
          break;
        case stored::bf16:
          multiply(bf16_weights_.data());
          break;
        case stored::i8:
          multiply(i8_weights_.data());
          break;
      }
    }
    before += length;
  }
}

}  // namespace engine
