// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>

/// \file
/// How tokens leave a loop that does not wait: one ring per slot, written by the body that ends the
/// slot's step and read by the host while the loop goes on. Both sides reach the memory.

namespace hunch::resident {

/// One emitted token, or only the end of a request.
struct ring_entry {
  request_id id = 0;
  token t = no_token;  ///< no_token: the request ends without another token
  hunch::origin origin = hunch::origin::sampled;
  finish_reason finish = finish_reason::none;  ///< of its last token
  hunch::status status = hunch::status::ok;
};

/// Makes what was written before visible to who reads `at` with `load_acquire`.
HUNCH_HOST_DEVICE inline void store_release(std::int64_t* at, std::int64_t value) {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
  *static_cast<volatile std::int64_t*>(at) = value;
#else
  std::atomic_ref<std::int64_t>(*at).store(value, std::memory_order_release);
#endif
}
HUNCH_HOST_DEVICE inline std::int64_t load_acquire(const std::int64_t* at) {
#if defined(__CUDA_ARCH__)
  const std::int64_t value = *static_cast<const volatile std::int64_t*>(at);
  __threadfence_system();
  return value;
#else
  return std::atomic_ref<std::int64_t>(*const_cast<std::int64_t*>(at))
      .load(std::memory_order_acquire);
#endif
}

/// The rings of all slots. A trivially copyable view.
struct rings {
  std::int32_t capacity = 0;        ///< entries of one ring
  ring_entry* entries = nullptr;    ///< [max_batch, capacity]
  std::int64_t* written = nullptr;  ///< [max_batch] entries so far
  std::int64_t* read = nullptr;     ///< [max_batch] entries that the host has taken
  /// [max_batch] `written` where only the loop reaches it: a device waits for the host's memory for
  /// longer than a microsecond.
  std::int64_t* counted = nullptr;

  HUNCH_HOST_DEVICE ring_entry& at(std::int32_t slot, std::int64_t n) const {
    return entries[static_cast<std::int64_t>(slot) * capacity + n % capacity];
  }
  /// Whether `count` more entries fit after those so far.
  HUNCH_HOST_DEVICE bool has_room(std::int32_t slot, std::int64_t so_far,
                                  std::int32_t count) const {
    return so_far - load_acquire(read + slot) + count <= capacity;
  }
};

/// What host and loop tell each other. Both sides reach it.
struct signals {
  std::int64_t stop = 0;   ///< the host asks the loop to end: not 0
  std::int64_t steps = 0;  ///< steps since construction
};

}  // namespace hunch::resident
