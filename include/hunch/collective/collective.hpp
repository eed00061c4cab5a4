// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/core/message.hpp>

namespace hunch {

/// What a `Collective` throws where a rank is to blame.
class collective_error : public std::runtime_error {
 public:
  enum class reason {
    failed,     ///< it has said so, by `fail`: the collective remains in use
    silent,     ///< it has said nothing in time, or cannot be reached: the collective is broken
    mismatched  ///< it has sent another number of bytes, or for another round: broken too
  };

  /// \param owner which collective
  /// \param detail more to say, if any
  collective_error(std::string_view owner, reason why, std::int32_t rank,
                   std::string_view detail = {})
      : std::runtime_error(
            message({owner, ": rank ", rank, text(why), detail.empty() ? "" : ": ", detail})),
        why_(why),
        rank_(rank) {}

  reason why() const noexcept { return why_; }
  /// Who is to blame; the lowest rank, where several are.
  std::int32_t rank() const noexcept { return rank_; }

 private:
  static std::string_view text(reason why) {
    switch (why) {
      case reason::failed:
        return " has failed";
      case reason::silent:
        return " is silent";
      case reason::mismatched:
        return " is in another round, or has sent another number of bytes";
    }
    return "";
  }

  reason why_;
  std::int32_t rank_;
};

/// Ranks that run the same steps, each with its part of a model, and tell each other what the parts
/// have found. All memory here is the host's: what a device writes is to be there before.
///
/// 1. `c.size()` ranks; this is `c.rank()` of them.
/// 2. `c.all_gather(mine, bytes, all)`: `all` is [size][bytes] in rank order, and complete on
///    return. All ranks call it with the same `bytes`, in the same order. `mine` may lie in `all`.
///    Throws `collective_error` where another rank has failed, has said nothing in time, or does
///    not call the same; what `all` holds is then undefined. Where it throws something else, such
///    as std::bad_alloc, it has not taken part, and the others wait for this rank's `fail`.
/// 3. `c.fail()` takes part in the next all_gather of the others where this rank cannot: theirs
///    throws, with `failed` and this rank, or the lowest of several that fail at once. What they
///    have sent is thrown away. It waits as all_gather does, and says nothing of what it sees.
///
/// After `failed` the ranks are in the same round, and all may repeat the step. After `silent` and
/// `mismatched` they are not, or may not be: each later all_gather throws the same at once, and
/// `fail` does nothing.
///
/// Not required: that several threads of a rank use it at a time.
template <class C>
concept Collective = requires(C& c, const C& same, const void* mine, std::size_t bytes, void* all) {
  { same.size() } -> std::same_as<std::int32_t>;
  { same.rank() } -> std::same_as<std::int32_t>;
  c.all_gather(mine, bytes, all);
  { c.fail() }
  noexcept;
};

namespace detail {

/// Why a round has come to nothing.
struct round_fault {
  collective_error::reason why;
  std::int32_t rank;
};

/// std::memmove, which takes no null pointers, not even for no bytes.
inline void move_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) { std::memmove(to, from, bytes); }
}

/// What all ranks have sent, n values of T each; small ones are on the stack, for steps do not
/// allocate.
template <class T>
class gathered_values {
  static_assert(std::is_trivially_copyable_v<T>, "values are sent as their bytes");

 public:
  template <class C>
  gathered_values(C& c, const T* values, std::size_t n) : n_(n) {
    const std::size_t bytes = n * sizeof(T) * static_cast<std::size_t>(c.size());
    if (bytes > sizeof few_) { many_.reset(new std::byte[bytes]); }
    all_ = many_ ? many_.get() : few_;
    c.all_gather(values, n * sizeof(T), all_);
  }
  gathered_values(const gathered_values&) = delete;
  gathered_values& operator=(const gathered_values&) = delete;

  void read(std::int32_t rank, std::size_t i, T& value) const {
    const std::size_t at = static_cast<std::size_t>(rank) * n_ + i;
    std::memcpy(static_cast<void*>(&value), all_ + at * sizeof(T), sizeof(T));
  }

 private:
  std::size_t n_;
  std::byte few_[2048];
  std::unique_ptr<std::byte[]> many_;
  std::byte* all_;
};

}  // namespace detail

/// values[i] becomes op(... op(op(v0, v1), v2) ..., v), where vr is values[i] of rank r: the order
/// is the same on all ranks, and so are the bits. For small arrays: each rank sends all of its own
/// to all others. As all_gather, except that `values` are as they were where it throws.
template <Collective C, class T, class Op>
void all_reduce(C& c, T* values, std::size_t n, const Op& op) {
  if (c.size() == 1) { return; }
  const detail::gathered_values<T> all(c, values, n);
  for (std::size_t i = 0; i < n; ++i) {
    T value = values[i];
    all.read(0, i, values[i]);
    for (std::int32_t rank = 1; rank < c.size(); ++rank) {
      all.read(rank, i, value);
      values[i] = op(values[i], value);
    }
  }
}

/// values[i] becomes that of the rank whose key(values[i]) is the largest, the lowest such rank.
/// No key is NaN. Else as all_reduce.
template <Collective C, class T, class Key>
void arg_max(C& c, T* values, std::size_t n, const Key& key) {
  all_reduce(c, values, n,
             [&](const T& best, const T& other) { return key(best) < key(other) ? other : best; });
}

/// `value` becomes that of the rank `root`. As all_gather, except that it is as it was where it
/// throws.
template <Collective C, class T>
void broadcast(C& c, T& value, std::int32_t root) {
  if (root < 0 || root >= c.size()) {
    refusal{"hunch::broadcast"}({"root ", root, " is not one of ", c.size(), " ranks"});
  }
  if (c.size() == 1) { return; }
  const detail::gathered_values<T> all(c, &value, 1);
  all.read(root, 0, value);
}

}  // namespace hunch
