// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>

namespace hunch {

/// The statuses of an engine that has room for all rows of a pass or reads none. It is asked again
/// with fewer of them, until they fit: without what is drafted behind the first row of a sequence
/// whose logits are wanted, then without the last sequence, and so on. So a request ends for want
/// of room only if there is none for its own next token beside the requests in front of it.
///
/// In a model's pass:
///
///     const bool any = fitted.read(rows, [&](const hunch::rows& some) {
///       return ...;  // whether the engine has read them; if not, nothing has changed
///     });
///     // of row i: fitted.status(i), and if that is ok it is row fitted.place(i) of what was read
///
/// Host only. Nothing is allocated after construction.
class fitted_pass {
 public:
  /// \param max_rows of a pass.
  explicit fitted_pass(std::int32_t max_rows) {
    const auto size = static_cast<std::size_t>(max_rows);
    place_.resize(size);
    for (auto* of : {&slot_, &id_, &parent_, &position_, &tokens_}) { of->resize(size); }
    wanted_.resize(size);
  }

  /// \param read read(rows) is whether the engine had room and has read the rows.
  /// \return whether any rows were read. The rows that were given last stay until the next call.
  /// \throws std::length_error for more rows than `max_rows`.
  template <class Read>
  bool read(const rows& asked, const Read& read) {
    if (static_cast<std::size_t>(asked.size) > place_.size()) {
      throw std::length_error(message(
          {"hunch::fitted_pass: a pass of ", asked.size, " rows, and room for ", place_.size()}));
    }
    for (std::int32_t i = 0; i < asked.size; ++i) { at(i) = i; }
    if (asked.size == 0 || read(asked)) { return asked.size > 0; }
    std::int32_t sequences = 0;
    for (std::int32_t i = 0; i < asked.size; ++i) {
      sequences += i == 0 || asked.slot[i] != asked.slot[i - 1] ? 1 : 0;
    }
    for (std::int32_t left = sequences; left > 0; --left) {
      const rows fewer = without_drafts(asked, left);
      const bool is_new = left < sequences || fewer.size < asked.size;
      if (is_new && read(fewer)) { return true; }
    }
    for (std::int32_t i = 0; i < asked.size; ++i) { at(i) = nowhere; }
    return false;
  }

  hunch::status status(std::int32_t i) const {
    return place(i) == nowhere ? status::cache_full : status::ok;
  }
  std::int32_t place(std::int32_t i) const { return place_[static_cast<std::size_t>(i)]; }

 private:
  static constexpr std::int32_t nowhere = -1;

  std::int32_t& at(std::int32_t i) { return place_[static_cast<std::size_t>(i)]; }

  /// Of the first `sequences` sequences, the rows up to the first that is wanted.
  rows without_drafts(const rows& asked, std::int32_t sequences) {
    std::int32_t size = 0;
    bool drafted = false;
    for (std::int32_t i = 0; i < asked.size; ++i) {
      if (i == 0 || asked.slot[i] != asked.slot[i - 1]) {
        --sequences;
        drafted = false;
      }
      at(i) = sequences < 0 || drafted ? nowhere : size;
      if (at(i) == nowhere) { continue; }
      const auto to = static_cast<std::size_t>(size++);
      slot_[to] = asked.slot[i];
      id_[to] = asked.id[i];
      parent_[to] = asked.parent[i];
      position_[to] = asked.position[i];
      tokens_[to] = asked.tokens[i];
      wanted_[to] = asked.wanted[i];
      drafted = asked.wanted[i] != 0;
    }
    return {.size = size,
            .slot = slot_.data(),
            .id = id_.data(),
            .parent = parent_.data(),
            .position = position_.data(),
            .tokens = tokens_.data(),
            .wanted = wanted_.data(),
            .streams = asked.streams};
  }

  std::vector<std::int32_t> place_;  ///< [max_rows]
  std::vector<std::int32_t> slot_, id_, parent_, position_;
  std::vector<token> tokens_;
  std::vector<std::uint8_t> wanted_;
};

}  // namespace hunch
