// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/vocab/shortlist.hpp>

/// \file
/// `shortlist_head` on tensors: lists are ranges that bodies read, and memory is the caller's.

namespace hunch_torch {

/// A head over a list of its rows for each hidden state.
/// \tparam Weight float, bfloat16 or float16.
template <class Weight>
struct list_head {
  std::int32_t batch = 0;
  std::int32_t rows = 0;  ///< of the head
  std::int32_t width = 0;
  const Weight* weights = nullptr;  ///< [rows, width]
  const float* hidden = nullptr;    ///< [batch, width]
  /// [batch, most_ranges], or [1, most_ranges] if all have one list. An empty range ends a list.
  const hunch::row_range* ranges = nullptr;
  std::int32_t most_ranges = 0;
  bool has_one_list = false;
  std::int32_t most_rows = 0;  ///< of a list
  float* logits = nullptr;     ///< [batch, most_rows] out
  std::byte* workspace = nullptr;

  std::size_t workspace_bytes() const;
};

/// An executor whose buffers are parts of one block of memory; of none, they are only counted.
template <hunch::Executor E>
class in_workspace {
 public:
  static constexpr bool host_reads = false;

  in_workspace(E& executor, std::byte* begin) : executor_(&executor), begin_(begin) {}

  template <class T>
  class buffer {
   public:
    buffer(in_workspace& memory, std::size_t n) : size_(n), data_(memory.template take<T>(n)) {}
    T* data() const { return data_; }
    std::size_t size() const { return size_; }

   private:
    std::size_t size_;
    T* data_;
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    executor_->launch(count, body);
  }
  void synchronize() { executor_->synchronize(); }
  template <class Body>
  std::int32_t teams_at_once(const Body& body) {
    return hunch::teams_at_once(*executor_, body);
  }
  std::size_t taken() const { return taken_; }

 private:
  template <class T>
  T* take(std::size_t n) {
    constexpr std::size_t line = 64;
    T* const here = begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + taken_);
    taken_ += (n * sizeof(T) + line - 1) / line * line;
    return here;
  }

  E* executor_;
  std::byte* begin_;
  std::size_t taken_ = 0;
};

/// What a call keeps in its workspace.
template <hunch::Executor E, class Weight>
struct head_memory {
  template <class T>
  using buffer = typename in_workspace<E>::template buffer<T>;

  hunch::shortlist_head<in_workspace<E>, Weight> head;
  buffer<std::int32_t> row;
  buffer<hunch::shortlist> lists;
  buffer<hunch::row_view<float>> logits;

  head_memory(in_workspace<E>& memory, const list_head<Weight>& of)
      : head(memory, of.rows, of.width),
        row(memory, static_cast<std::size_t>(of.batch)),
        lists(memory, static_cast<std::size_t>(of.batch)),
        logits(memory, static_cast<std::size_t>(of.batch)) {}
};

template <class Weight>
std::size_t list_head<Weight>::workspace_bytes() const {
  hunch::executor::host none;
  in_workspace<hunch::executor::host> counted(none, nullptr);
  const head_memory<hunch::executor::host, Weight> memory(counted, *this);
  return counted.taken();
}

/// As a variable: the functions of std::numeric_limits are the host's.
inline constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// Makes the list of state `i`, and fills its logits where the list has no row: with -inf behind
/// it, with NaN throughout if it is not a list of rows of the head. One team per state.
template <class Weight>
struct read_list {
  list_head<Weight> args;
  std::int32_t* row;
  hunch::shortlist* lists;
  hunch::row_view<float>* views;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const hunch::row_range* const ranges =
        args.ranges + (args.has_one_list ? 0 : static_cast<std::int64_t>(i) * args.most_ranges);
    const std::int32_t rows = args.rows;
    const std::int32_t count = team.reduce(
        args.most_ranges, args.most_ranges,
        [=, most = args.most_ranges](std::int64_t r) {
          return ranges[r].begin == ranges[r].end ? static_cast<std::int32_t>(r) : most;
        },
        [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
    const bool wrong =
        team.reduce(
            count, std::int32_t(0),
            [=](std::int64_t r) -> std::int32_t {
              const std::int32_t least = r > 0 ? ranges[r - 1].end : 0;
              const hunch::row_range own = ranges[r];
              return own.begin < least || own.end <= own.begin || own.end > rows ? 1 : 0;
            },
            [](std::int32_t a, std::int32_t b) { return a > b ? a : b; }) != 0;
    // Of ranges that are no list the sum means nothing, and may be large.
    const std::int64_t sum = team.reduce(
        count, std::int64_t(0),
        [=](std::int64_t r) { return std::int64_t{ranges[r].end} - ranges[r].begin; },
        [](std::int64_t a, std::int64_t b) { return a + b; });
    const bool valid = !wrong && sum <= args.most_rows;
    const std::int32_t size = valid ? static_cast<std::int32_t>(sum) : 0;
    float* const logits = args.logits + static_cast<std::int64_t>(i) * args.most_rows;
    const float filler = valid ? -hunch::kernel::infinity<float> : no_number;
    team.for_each(args.most_rows - size, [=](std::int64_t at) { logits[size + at] = filler; });
    if (team.rank() != 0) { return; }
    row[i] = size > 0 ? i : -1;
    lists[i] = {.ranges = ranges, .range_count = size > 0 ? count : 0, .size = size};
    views[i] = {logits, size};
  }
};

/// logits[i, j] = hidden[i] . the j-th row of list i. Launches, and returns without waiting.
template <hunch::Executor E, class Weight>
void multiply_lists(E& executor, const list_head<Weight>& args) {
  in_workspace<E> memory(executor, args.workspace);
  head_memory<E, Weight> kept(memory, args);
  executor.launch(args.batch,
                  read_list<Weight>{args, kept.row.data(), kept.lists.data(), kept.logits.data()});
  const hunch::head_rows<float> asked{.size = args.batch,
                                      .row = kept.row.data(),
                                      .lists = kept.lists.data(),
                                      .logits = kept.logits.data()};
  kept.head(memory, {args.weights, args.rows, args.width}, args.hidden, args.width, asked);
}

}  // namespace hunch_torch
