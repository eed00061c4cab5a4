// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#if !defined(__CUDA_ARCH__)
#include <atomic>
#endif

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/owned_arrays.hpp>

/// \file
/// How tokens leave a step: one ring per slot, written by the bodies of the step and read by the
/// host, while a loop goes on or when it has waited. Both sides reach the memory.

namespace hunch {

/// One emitted token, or only the end of a request.
struct ring_entry {
  request_id id = 0;
  token t = no_token;  ///< no_token: the request ends without another token
  hunch::origin origin = hunch::origin::sampled;
  finish_reason finish = finish_reason::none;  ///< of its last token
  hunch::status status = hunch::status::ok;
  std::int32_t position = -1;  ///< on a canvas; where tokens follow each other, -1
};

namespace kernel {

/// Makes what was written before visible to who reads `at` with `load_acquire`. All of these stores
/// and loads have one order: who stores here and then loads there sees the other, or is seen.
HUNCH_HOST_DEVICE inline void store_release(std::int64_t* at, std::int64_t value) {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
  *static_cast<volatile std::int64_t*>(at) = value;
  __threadfence_system();
#else
  std::atomic_ref<std::int64_t>(*at).store(value);
#endif
}
HUNCH_HOST_DEVICE inline std::int64_t load_acquire(const std::int64_t* at) {
#if defined(__CUDA_ARCH__)
  const std::int64_t value = *static_cast<const volatile std::int64_t*>(at);
  __threadfence_system();
  return value;
#else
  return std::atomic_ref<std::int64_t>(*const_cast<std::int64_t*>(at)).load();
#endif
}

}  // namespace kernel

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
    return so_far - kernel::load_acquire(read + slot) + count <= capacity;
  }

  /// Calls use(entry) for what has come out of a slot and was not taken, in order. By the host.
  template <class Use>
  void take(std::int32_t slot, Use&& use) const {
    const std::int64_t end = kernel::load_acquire(written + slot);
    std::int64_t n = read[slot];
    while (n < end) { use(at(slot, n++)); }
    kernel::store_release(read + slot, n);
  }
};

/// Owns the rings: all of it lies where host and bodies reach it, but `counted`.
/// \tparam M the memory of a step, see `step_memory`.
template <class M>
class ring_storage {
 public:
  ring_storage(M& memory, std::int32_t max_batch, std::int32_t capacity) : owned_(memory) {
    view_.capacity = capacity;
    owned_.give_host_written(std::int64_t{max_batch} * capacity, view_.entries);
    owned_.give_host_written(max_batch, view_.written, view_.read);
    owned_.give(max_batch, view_.counted);
    std::fill_n(view_.written, max_batch, 0);
    std::fill_n(view_.read, max_batch, 0);
    memory.launch(max_batch, clear_slots{view_.counted});
  }

  const rings& view() const { return view_; }

 private:
  owned_arrays<M> owned_;
  rings view_;
};

}  // namespace hunch
