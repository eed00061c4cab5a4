// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/generation.hpp>

namespace hunch {

/// Which request runs in which slot of a decoder.
class request_slots {
 public:
  /// \param count slots: the most requests that run at the same time.
  /// \param owner what messages begin with; `options` where it has its `max_batch`.
  request_slots(std::int32_t count, const char* owner, const char* options)
      : ids_(static_cast<std::size_t>(count), 0), owner_(owner), options_(options) {}

  /// \throws std::length_error if no slot is free.
  void require_room() const {
    if (running_ == size()) {
      throw std::length_error(message(
          {owner_, ": ", running_, " requests are running; raise ", options_, "::max_batch"}));
    }
  }

  /// After `require_room`.
  std::int32_t first_free() const {
    return static_cast<std::int32_t>(std::ranges::find(ids_, request_id{0}) - ids_.begin());
  }

  /// Gives a free slot to a new request and returns its name.
  request_id admit(std::int32_t slot) {
    ++running_;
    return ids_[static_cast<std::size_t>(slot)] = ++last_id_;
  }

  /// The slot of a request, or -1 if it is not running.
  std::int32_t find(request_id id) const noexcept {
    const auto found = std::ranges::find(ids_, id);
    return id == 0 || found == ids_.end() ? -1 : static_cast<std::int32_t>(found - ids_.begin());
  }

  void release(std::int32_t slot) noexcept {
    ids_[static_cast<std::size_t>(slot)] = 0;
    --running_;
  }

  std::int32_t size() const { return static_cast<std::int32_t>(ids_.size()); }
  std::int32_t running() const { return running_; }
  /// The request of a slot; 0: none.
  request_id operator[](std::int32_t slot) const { return ids_[static_cast<std::size_t>(slot)]; }
  bool uses(std::int32_t slot) const { return (*this)[slot] != 0; }

 private:
  std::vector<request_id> ids_;
  const char* owner_;
  const char* options_;
  std::int32_t running_ = 0;
  request_id last_id_ = 0;
};

}  // namespace hunch
