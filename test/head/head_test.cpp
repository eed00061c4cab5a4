// SPDX-License-Identifier: Apache-2.0

// The head over shortlists: what a plan holds, the logits of threads bit for bit, those of tensor
// cores (simulated) within what their factors keep, and that no logit depends on what is computed
// beside it. Built a second time under ThreadSanitizer.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/head/range_gemv.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/team/serial.hpp>
#include "../support/head_problem.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

/// The logits of list i by the definition of hidden states as integers: the largest number of one
/// becomes the largest integer, and sums are exact.
std::vector<float> logits_by_integers(const head_problem<std::int8_t>& all, std::size_t i) {
  const float* const x = all.hidden.data() + all.row[i] * all.width;
  float largest = 0.0f;
  for (std::int32_t k = 0; k < all.width; ++k) { largest = std::max(largest, std::abs(x[k])); }
  const auto most = static_cast<float>(
      std::min(32767, std::numeric_limits<std::int32_t>::max() / 128 / all.width));
  std::vector<std::int64_t> integers;
  for (std::int32_t k = 0; k < all.width; ++k) {
    const double scaled = static_cast<double>(x[k]) * static_cast<double>(most / largest);
    integers.push_back(std::llrint(scaled));
  }
  std::vector<float> out;
  const shortlist list = all.list(i);
  for (std::int32_t at = 0; at < list.size; ++at) {
    const std::int32_t row = list.token_at(at);
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < integers.size(); ++k) {
      sum += integers[k] * all.head().row(row)[k];
    }
    CHECK(std::abs(sum) <= std::numeric_limits<std::int32_t>::max());
    const float logit = static_cast<float>(sum) * (largest / most);
    out.push_back(all.scale.empty() ? logit : logit * all.scale[static_cast<std::size_t>(row)]);
  }
  return out;
}

/// Bytes by integers, what has floats by `range_gemv`.
template <class Weight>
void check_threads(std::int32_t rows, std::int32_t width, std::int32_t lists) {
  const head_problem<Weight> all(rows, width, lists, 3, lists % 2 == 0);
  const auto expected = all.logits(executor::host{});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> one(expected[i].size(), -7.0f);  // what is not asked for is not touched
    if constexpr (std::is_same_v<Weight, std::int8_t>) {
      if (all.row[i] >= 0) { one = logits_by_integers(all, i); }
    } else if (all.row[i] >= 0) {
      team::serial team;
      kernel::range_gemv(team, all.head(), all.list(i), all.hidden.data() + all.row[i] * all.width,
                         row_view<float>{one.data(), static_cast<std::int32_t>(one.size())});
    }
    CHECK(same(expected[i], one));
  }
  for (const threads& executor :
       {threads{{}, 1, 32, 1}, threads{{}, 1, 3, 5}, threads{{}, 3, 2, 2}}) {
    const auto found = all.logits(executor);
    for (std::size_t i = 0; i < expected.size(); ++i) { CHECK(same(found[i], expected[i])); }
  }
}

#if defined(__SANITIZE_THREAD__)
constexpr std::int32_t head_rows_tested[] = {300};
constexpr std::int32_t widths[] = {48};
#else
constexpr std::int32_t head_rows_tested[] = {1, 16, 40, 300, 9000};
constexpr std::int32_t widths[] = {16, 37, 64, 320};
#endif

TEST_CASE("a head over shortlists is range_gemv, bytes are by integers, by any team") {
  for (const std::int32_t rows : head_rows_tested) {
    for (const std::int32_t width : widths) {
      if (rows > 1000 && width > 37) { continue; }
      for (const std::int32_t lists : {1, 8, 70}) {
        if (rows > 1000 && lists > 8) { continue; }
        check_threads<float>(rows, width, lists);
        check_threads<bfloat16>(rows, width, lists);
        check_threads<float16>(rows, width, lists);
        check_threads<std::int8_t>(rows, width, lists);
      }
    }
  }
}

/// Every logit of rows [0, 23) with `States` hidden states, in blocks as they come, is what one row
/// gives with one state: `dot_one`, and the lanes that a warp folds.
template <std::int32_t States, class Weight, class Ahead>
void check_order(const head_problem<Weight>& all, Ahead& ahead) {
  const kernel::head_weights<Weight> head = all.head();
  const float* hidden[States];
  for (std::int32_t s = 0; s < States; ++s) { hidden[s] = all.hidden.data() + s * all.width; }
  std::int32_t first = 0;
  for (const std::int32_t count : {8, 1, 5, 2, 4, 3}) {
    std::vector<float> found(static_cast<std::size_t>(States * count));
    float* out[States];
    for (std::int32_t s = 0; s < States; ++s) { out[s] = found.data() + s * count; }
    kernel::detail::logits_of(head, first, count, hidden, ahead, out);
    for (std::int32_t s = 0; s < States; ++s) {
      for (std::int32_t r = 0; r < count; ++r) {
        const Weight* const w = head.row(first + r);
        const float scale = head.row_scale == nullptr ? 1.0f : head.row_scale[first + r];
        float lanes[kernel::detail::gemv_lanes];
        for (std::int32_t l = 0; l < kernel::detail::gemv_lanes; ++l) {
          lanes[l] = kernel::detail::dot_lane(w, head.width, hidden[s], l);
        }
        for (std::int32_t half = kernel::detail::gemv_lanes / 2; half > 0; half /= 2) {
          for (std::int32_t l = 0; l < half; ++l) { lanes[l] += lanes[l + half]; }
        }
        const float one = kernel::detail::dot_one(w, head.width, hidden[s]);
        CHECK(std::bit_cast<std::uint32_t>(lanes[0]) == std::bit_cast<std::uint32_t>(one));
        CHECK(std::bit_cast<std::uint32_t>(out[s][r]) == std::bit_cast<std::uint32_t>(one * scale));
      }
    }
    first += count;
  }
}

template <class Weight>
void check_orders() {
  using kernel::detail::one_range;
  for (const std::int32_t width : {1, 16, 37, 64, 100, 256, 300, 1088}) {
    const head_problem<Weight> all(23, width, 4, 13, width % 2 == 0);
    const one_range rows({0, 23});
    kernel::detail::rows_ahead<Weight, one_range, true> near(all.head(), rows);
    kernel::detail::rows_ahead<Weight, one_range, false> far(all.head(), rows);
    kernel::detail::no_rows_ahead cached;
    const auto check = [&](auto& ahead) {
      check_order<1>(all, ahead);
      check_order<2>(all, ahead);
      check_order<3>(all, ahead);
      check_order<4>(all, ahead);
    };
    check(near);
    check(far);
    check(cached);
  }
}

/// \tparam Near where the head lies: rows side by side, or one after the other.
template <bool Near, std::int32_t States>
void check_integers(std::int32_t width) {
  const head_problem<std::int8_t> all(23, width, 4, 13, width % 2 == 0);
  const kernel::detail::one_range rows({0, 23});
  kernel::detail::rows_ahead<std::int8_t, kernel::detail::one_range, Near> ahead(all.head(), rows);
  std::vector<std::uint32_t> words(
      static_cast<std::size_t>(States * kernel::detail::split_words(width)));
  const kernel::detail::state_factors where{.words = words.data()};
  kernel::detail::integer_state states[States];
  for (std::int32_t s = 0; s < States; ++s) {
    std::uint32_t* const to = kernel::detail::integer_words(where, width, s);
    kernel::detail::put_integers(all.hidden.data() + s * width, width, to);
    states[s] = kernel::detail::integers_at(to, width);
  }
  std::int32_t first = 0;
  for (const std::int32_t count : {8, 1, 5, 2, 4, 3}) {
    float found[States][8];
    float* out[States];
    for (std::int32_t s = 0; s < States; ++s) { out[s] = found[s]; }
    kernel::detail::logits_of(all.head(), first, count, states, ahead, out);
    for (std::int32_t s = 0; s < States; ++s) {
      head_problem<std::int8_t> one = all;
      one.ranges = {{{first, first + count}}};
      one.row = {s};
      CHECK(same({found[s], found[s] + count}, logits_by_integers(one, 0)));
    }
    first += count;
  }
}

TEST_CASE("hidden states as integers, from memory, from a cache, one or two") {
  for (const std::int32_t width : {1, 16, 37, 64, 100, 256, 300, 1088}) {
    check_integers<true, 1>(width);
    check_integers<true, 2>(width);
    check_integers<false, 1>(width);
    check_integers<false, 2>(width);
  }
}

TEST_CASE("hidden states as integers keep 15 bits, fewer where rows are long") {
  for (const std::int32_t width : {16, 320, 4096}) {
    const head_problem<std::int8_t> all(40, width, 5, 23, true);
    const double error = worst_error(all, all.logits(executor::host{}));
    const double step = 1.0 / kernel::detail::largest_integer(width);
    CHECK(error <= 0.5 * step * 4.0);  // of the largest number; terms are smaller
    CHECK(error >= 1e-3 * step);       // what bytes times floats would lose is less
  }
}

TEST_CASE("the largest integers do not overflow") {
  for (const std::int32_t width : {16, 515, 516, 4096}) {
    head_problem<std::int8_t> all(8, width, 1, 1, false);
    std::fill(all.weights.begin(), all.weights.end(), std::int8_t{-128});
    std::fill(all.hidden.begin(), all.hidden.end(), 3.0f);
    all.ranges = {{{0, 8}}};
    const auto found = all.logits(executor::host{});
    for (const float logit : found[0]) {
      CHECK(static_cast<double>(logit) == doctest::Approx(-384.0 * width).epsilon(1e-6));
    }
  }
}

TEST_CASE("one order of additions, from memory, from a cache, and by lanes") {
  check_orders<float>();
  check_orders<bfloat16>();
  check_orders<float16>();
  check_orders<std::int8_t>();
}

TEST_CASE("the sums of bytes are exact: against integers") {
  // The hidden state is 1, 2, 3, ...: every sum is an integer below 2^24.
  constexpr std::int32_t width = 200;
  std::vector<std::int8_t> weights(8 * width);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(i * 37 % 256) - 128);
  }
  std::vector<float> hidden(width);
  for (std::size_t k = 0; k < hidden.size(); ++k) { hidden[k] = static_cast<float>(k + 1); }
  const kernel::head_weights<std::int8_t> head{weights.data(), 8, width, nullptr};
  const kernel::detail::one_range rows({0, 8});
  kernel::detail::rows_ahead<std::int8_t, kernel::detail::one_range, true> near(head, rows);
  kernel::detail::rows_ahead<std::int8_t, kernel::detail::one_range, false> far(head, rows);
  float by_cache[8], by_memory[8];
  kernel::detail::logits_of(head, 0, 8, hidden.data(), near, by_cache);
  kernel::detail::logits_of(head, 0, 8, hidden.data(), far, by_memory);
  for (std::int32_t r = 0; r < 8; ++r) {
    std::int64_t sum = 0;
    for (std::int32_t k = 0; k < width; ++k) { sum += head.row(r)[k] * (k + 1); }
    CHECK(by_cache[r] == static_cast<float>(sum));
    CHECK(by_memory[r] == static_cast<float>(sum));
  }
}

/// \param kept relative error of a hidden state in the factors.
template <class Weight>
void check_warps(std::int32_t rows, std::int32_t width, std::int32_t lists, double kept) {
  const head_problem<Weight> all(rows, width, lists, 5, lists % 2 == 0);
  const auto found = all.logits(warps{});
  CHECK(worst_error(all, found) <= kept + 1e-6);
  // Whatever is computed beside it, and however it is shared out.
  for (const std::int32_t teams : {2, 7}) {
    const auto other = all.logits(warps{{}, teams});
    for (std::size_t i = 0; i < found.size(); ++i) { CHECK(same(other[i], found[i])); }
  }
  for (std::size_t i = 0; i < found.size(); i += 3) {
    CHECK(same(all.logits(warps{}, {i})[0], found[i]));
  }
}

TEST_CASE("a head by tensor cores") {
  for (const std::int32_t rows : {1, 40, 300}) {
    for (const std::int32_t width : {16, 37, 64, 320, 1088}) {
      for (const std::int32_t lists : {1, 4, 5, 13, 20, 70}) {
        if (lists > 5 && width > 320) { continue; }
        check_warps<bfloat16>(rows, width, lists, 0x1p-16);
        check_warps<float16>(rows, width, lists, 0x1p-22);
        check_warps<std::int8_t>(rows, width, lists, 0x1p-22);
      }
    }
  }
}

TEST_CASE("float weights by the lanes of a warp are those of threads") {
  for (const std::int32_t width : {16, 37, 320}) {
    const head_problem<float> all(300, width, 9, 7, true);
    const auto expected = all.logits(executor::host{});
    const auto found = all.logits(warps{{}, 3});
    for (std::size_t i = 0; i < expected.size(); ++i) { CHECK(same(found[i], expected[i])); }
  }
}

/// Logits of type Logit are those in float, rounded, by one team like by another.
template <class Logit, class Weight>
void check_rounded(std::int32_t width, bool scaled) {
  const head_problem<Weight> all(300, width, 9, 17, scaled);
  const auto check = [](std::vector<std::vector<float>> expected, const auto& found) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      for (float& x : expected[i]) { x = to_real(to_logit<Logit>(x)); }
      CHECK(same(found[i], expected[i]));
    }
  };
  const threads team{{}, 1, 3, 5};
  check(all.logits(executor::host{}), all.template logits<Logit>(executor::host{}));
  check(all.logits(team), all.template logits<Logit>(team));
  check(all.logits(warps{{}, 3}), all.template logits<Logit>(warps{{}, 3}));
  const auto by_gemv = [&]<class L>(L filler) {
    std::vector<std::vector<float>> found;
    for (std::size_t i = 0; i < all.ranges.size(); ++i) {
      std::vector<L> one(static_cast<std::size_t>(all.list(i).size), filler);
      team::serial serial;
      kernel::range_gemv(serial, all.head(), all.list(i), all.hidden.data(),
                         row_view<L>{one.data(), static_cast<std::int32_t>(one.size())});
      std::ranges::transform(one, std::back_inserter(found.emplace_back()),
                             [](L x) { return to_real(x); });
    }
    return found;
  };
  check(by_gemv(0.0f), by_gemv(Logit{}));
}

TEST_CASE_TEMPLATE("logits of 16 bits", Logit, bfloat16, float16) {
  for (const std::int32_t width : {37, 64, 320}) {
    check_rounded<Logit, float>(width, false);
    check_rounded<Logit, bfloat16>(width, false);
    check_rounded<Logit, float16>(width, true);
    check_rounded<Logit, std::int8_t>(width, true);
  }
}

TEST_CASE("rows and hidden states that are not aligned") {
  const head_problem<bfloat16> all(48, 64, 1, 11, false);
  head_problem<bfloat16> moved = all;
  moved.weights.insert(moved.weights.begin(), bfloat16{});
  const auto expected = all.logits(warps{});
  std::vector<float> found(expected[0].size());
  const shortlist list = all.list(0);
  row_view<float> view{found.data(), list.size};
  const std::int32_t row = 0;
  warps executor;
  shortlist_head<warps, bfloat16> product(executor, all.rows, all.width);
  product(executor, {moved.weights.data() + 1, all.rows, all.width}, all.hidden.data(), all.width,
          {1, &row, &list, &view});
  CHECK(same(found, expected[0]));
}

TEST_CASE("ranges that hold nothing are skipped") {
  head_problem<bfloat16> all(96, 64, 2, 19, false);
  all.ranges = {{{3, 20}, {70, 90}}, {{40, 41}}};
  const auto expected = all.logits(warps{});
  const auto by_thread = all.logits(executor::host{});
  // Within a strip that nobody wants, at its beginning, in one that is wanted, and the wrong way
  // round.
  all.ranges = {{{3, 20}, {25, 25}, {36, 36}, {48, 48}, {70, 90}, {93, 92}}, {{2, 2}, {40, 41}}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(same(all.logits(warps{{}, 3})[i], expected[i]));
    CHECK(same(all.logits(executor::host{})[i], by_thread[i]));
    CHECK(same(all.logits(threads{{}, 1, 3, 5})[i], by_thread[i]));
  }
}

TEST_CASE("a hidden state without a number spoils its own logits only") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    head_problem<bfloat16> all(64, 64, 3, 13, false);
    all.ranges = {{{0, 64}}, {{0, 64}}, {{0, 64}}};
    const auto expected = all.logits(warps{});
    all.hidden[64 + 5] = bad;
    const auto found = all.logits(warps{});
    CHECK(same(found[0], expected[0]));
    CHECK(same(found[2], expected[2]));
    for (const float x : found[1]) { CHECK_FALSE(std::isfinite(x)); }
    head_problem<std::int8_t> bytes(64, 64, 3, 13, false);
    bytes.ranges = {{{0, 64}}, {{0, 64}}, {{0, 64}}};
    const auto by_threads = bytes.logits(executor::host{});
    bytes.hidden[64 + 5] = bad;
    const auto spoilt = bytes.logits(executor::host{});
    CHECK(same(spoilt[0], by_threads[0]));
    CHECK(same(spoilt[2], by_threads[2]));
    for (const float x : spoilt[1]) { CHECK_FALSE(std::isfinite(x)); }
  }
}

TEST_CASE("hidden states of zeros, and of hardly more") {
  for (const float size : {0.0f, std::numeric_limits<float>::denorm_min(), 1e-35f}) {
    head_problem<std::int8_t> all(16, 64, 1, 13, false);
    std::fill(all.hidden.begin(), all.hidden.end(), size);
    all.ranges = {{{0, 16}}};
    const auto found = all.logits(executor::host{});
    for (const float x : found[0]) { CHECK(std::abs(x) <= 1e-30f); }
  }
}

TEST_CASE("a plan holds the strips that are wanted, and what each list holds of them") {
  const head_problem<float> all(20000, 1, 66, 17, false);
  std::vector<shortlist> lists;
  for (std::size_t i = 0; i < all.ranges.size(); ++i) { lists.push_back(all.list(i)); }
  const std::int32_t strips = kernel::strips_of(all.rows);
  const std::int32_t segments = kernel::segments_of(all.rows);
  CHECK(segments == 40);
  const auto size = [](std::int32_t n) { return static_cast<std::size_t>(n); };
  for (const std::int32_t first : {0, kernel::planned_lists}) {
    const std::int32_t count = std::min(66 - first, kernel::planned_lists);
    std::vector<std::uint32_t> wanted(size(segments));
    std::vector<std::uint32_t> by_list(size(segments * count));
    std::vector<kernel::strip_share> shares(size(segments * count * kernel::segment_strips));
    const kernel::head_plan plan{.wanted = wanted.data(),
                                 .shares = shares.data(),
                                 .by_list = by_list.data(),
                                 .segments = segments,
                                 .lists = count};
    const head_rows<float> asked{66, all.row.data(), lists.data(), nullptr};
    const auto make = [&](const auto& executor, std::int32_t teams) {
      std::ranges::fill(wanted, 99u);
      std::ranges::fill(shares, kernel::strip_share{-5, 99u});
      executor.launch(
          teams,
          kernel::plan_head{
              .asked = asked, .first = first, .rows = all.rows, .plan = plan, .teams = teams});
    };
    std::vector<std::int32_t> expected;
    std::vector<kernel::strip_share> held(shares.size());
    std::vector<std::int32_t> before(size(count), 0);
    for (std::int32_t s = 0; s < segments * kernel::segment_strips; ++s) {
      bool any = false;
      for (std::int32_t i = 0; i < count; ++i) {
        const std::size_t list = size(first + i);
        kernel::strip_share& share =
            held[size((s / kernel::segment_strips * count + i) * kernel::segment_strips +
                      s % kernel::segment_strips)];
        share.before = before[size(i)];
        if (all.row[list] < 0) { continue; }
        for (std::int32_t r = 0; r < kernel::strip_rows; ++r) {
          if (lists[list].position_of_row(s * kernel::strip_rows + r) >= 0) {
            share.rows |= 1u << r;
            ++before[size(i)];
          }
        }
        any |= share.rows != 0;
      }
      if (any) { expected.push_back(s); }
    }
    CHECK((expected.size() == size(strips)) == (first == 0));  // one of the first wants all
    const auto check = [&](auto& team) {
      CHECK(plan.size(team) == static_cast<std::int32_t>(expected.size()));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(plan.row_of(static_cast<std::int32_t>(i), all.rows) ==
              kernel::strip_rows * expected[i]);
      }
      CHECK(plan.row_of(static_cast<std::int32_t>(expected.size()), all.rows) == all.rows);
    };
    for (const std::int32_t teams : {1, 7, 40}) {
      make(warps{}, teams);
      warp_team team;
      check(team);
      team::simulated_warp worker;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(plan.strip(worker, static_cast<std::int32_t>(i)) == expected[i]);
      }
      for (std::size_t i = 0; i < shares.size(); ++i) {
        CHECK(shares[i].rows == held[i].rows);
        if (held[i].rows != 0) { CHECK(shares[i].before == held[i].before); }
      }
      for (const std::int32_t s : expected) {
        std::uint32_t rows = 0;
        for (std::int32_t i = 0; i < count; ++i) { rows |= plan.share(s, i).rows; }
        CHECK(plan.held(worker, s) == rows);
      }
    }
    for (const std::int32_t teams : {1, 3}) {
      for (const std::int32_t ranks : {1, 5}) {
        make(threads{{}, 1, ranks, 1}, teams);
        team::serial team;
        check(team);
      }
    }
  }
}

TEST_CASE("the members of a word") {
  for (const std::uint32_t bits : {1u, 0x80000000u, 0xffffffffu, 0x00ff1002u, 0x55555555u}) {
    std::int32_t n = 0;
    for (std::int32_t i = 0; i < 32; ++i) {
      if ((bits >> i & 1u) != 0) { CHECK(kernel::member_of(bits, n++) == i); }
    }
    CHECK(kernel::count_of(bits) == n);
  }
}

}  // namespace
}  // namespace hunch::test
