// SPDX-License-Identifier: Apache-2.0
#include <engine/draft_head.hpp>

#include <algorithm>

#include <engine/bfloat16.hpp>
#include <engine/simd.hpp>
#include <hunch/kernel/range_gemv.hpp>
#include <hunch/team/serial.hpp>

namespace engine {

draft_head::draft_head(const packed_matrix& head, const hunch::vocab_layout& layout)
    : fingerprint_{layout.fingerprint()},
      bf16_{head.kind() != arithmetic::f32},
      rows_{layout.head_rows()},
      width_{round_up(head.inputs(), lanes)} {
  const std::size_t size = static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_);
  if (bf16_) {
    bf16_weights_.grow(size);
  } else {
    f32_weights_.grow(size);
  }
  if (head.scale() != nullptr) { scale_.resize(static_cast<std::size_t>(rows_)); }
  std::vector<float> values(static_cast<std::size_t>(head.inputs()));
  for (int row = 0; row < rows_; ++row) {
    const int token = layout.row_token() == nullptr ? row : layout.row_token()[row];
    head.read_row(token, values.data());
    const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(width_);
    if (bf16_) {
      std::transform(values.begin(), values.end(), bf16_weights_.data() + at,
                     [](float v) { return hunch::bfloat16{to_bf16(v)}; });
    } else {
      std::copy(values.begin(), values.end(), f32_weights_.data() + at);
    }
    if (!scale_.empty()) { scale_[static_cast<std::size_t>(row)] = head.scale()[token]; }
  }
}

void draft_head::multiply(int thread, int threads, const float* hidden,
                          const hunch::shortlist& list, hunch::row_view<float> logits) const {
  const float* const scale = scale_.empty() ? nullptr : scale_.data();
  const hunch::kernel::head_weights<hunch::bfloat16> bf16{bf16_weights_.data(), rows_, width_,
                                                          scale};
  const hunch::kernel::head_weights<float> f32{f32_weights_.data(), rows_, width_, scale};
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
      if (bf16_) {
        hunch::kernel::range_gemv(team, bf16, part, hidden, out);
      } else {
        hunch::kernel::range_gemv(team, f32, part, hidden, out);
      }
    }
    before += length;
  }
}

}  // namespace engine
