// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/generation.hpp>

namespace hunch {

/// The requests of a decoder, each in a slot of its own while it runs.
/// \tparam Request has a member `id`, a `request_id`; 0: the slot is free.
template <class Request>
class request_slots {
 public:
  /// \param count slots: the most requests that run at the same time.
  /// \param owner what messages begin with; `options` where it has its `max_batch`.
  request_slots(std::int32_t count, const char* owner, const char* options)
      : slots_(static_cast<std::size_t>(count)), owner_(owner), options_(options) {}

  /// \throws std::length_error if no slot is free.
  void require_room() const {
    if (running_ == static_cast<std::int32_t>(slots_.size())) {
      throw std::length_error(message(
          {owner_, ": ", running_, " requests are running; raise ", options_, "::max_batch"}));
    }
  }

  /// After `require_room`.
  std::int32_t first_free() const {
    return static_cast<std::int32_t>(std::ranges::find(slots_, request_id{0}, &Request::id) -
                                     slots_.begin());
  }

  /// Puts a request in the first free slot and returns its new name. After `require_room`.
  request_id admit(Request&& request) {
    Request& slot = slots_[static_cast<std::size_t>(first_free())];
    slot = std::move(request);
    slot.id = ++last_id_;
    ++running_;
    return slot.id;
  }

  /// The slot of a request, or -1 if it is not running.
  std::int32_t find(request_id id) const noexcept {
    const auto found = std::ranges::find(slots_, id, &Request::id);
    return id == 0 || found == slots_.end() ? -1
                                            : static_cast<std::int32_t>(found - slots_.begin());
  }

  void release(std::int32_t slot) noexcept {
    slots_[static_cast<std::size_t>(slot)].id = 0;
    --running_;
  }

  std::int32_t running() const { return running_; }
  std::size_t size() const { return slots_.size(); }
  Request& operator[](std::size_t slot) { return slots_[slot]; }
  const Request& operator[](std::size_t slot) const { return slots_[slot]; }
  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }

 private:
  std::vector<Request> slots_;
  const char* owner_;
  const char* options_;
  std::int32_t running_ = 0;
  request_id last_id_ = 0;
};

}  // namespace hunch
