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

/// Words that host and bodies share. What a thread has done before `order_shared` comes before what
/// it does afterwards, as the other side sees it; of many words, one such call is enough: they are
/// stored after it, or were loaded before it. On a host every access is ordered by itself.
HUNCH_HOST_DEVICE inline void order_shared() {
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#endif
}
HUNCH_HOST_DEVICE inline void store_shared(std::int64_t* at, std::int64_t value) {
#if defined(__CUDA_ARCH__)
  *static_cast<volatile std::int64_t*>(at) = value;
#else
  std::atomic_ref<std::int64_t>(*at).store(value);
#endif
}
HUNCH_HOST_DEVICE inline std::int64_t load_shared(const std::int64_t* at) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const volatile std::int64_t*>(at);
#else
  return std::atomic_ref<std::int64_t>(*const_cast<std::int64_t*>(at)).load();
#endif
}

/// Makes what was written before visible to who reads `at` with `load_acquire`. All of these stores
/// and loads have one order: who stores here and then loads there sees the other, or is seen.
HUNCH_HOST_DEVICE inline void store_release(std::int64_t* at, std::int64_t value) {
  order_shared();
  store_shared(at, value);
  order_shared();
}
HUNCH_HOST_DEVICE inline std::int64_t load_acquire(const std::int64_t* at) {
  const std::int64_t value = load_shared(at);
  order_shared();
  return value;
}

}  // namespace kernel

/// The rings of all slots. A trivially copyable view.
struct rings {
  std::int32_t capacity = 0;        ///< entries of one ring
  ring_entry* entries = nullptr;    ///< [max_batch, capacity]
  std::int64_t* written = nullptr;  ///< [max_batch] entries so far
  std::int64_t* read = nullptr;     ///< [max_batch] entries that the host has taken
  /// [max_batch] `written` and `read` where only the loop reaches them: a device waits for the
  /// host's memory for longer than a microsecond.
  std::int64_t* counted = nullptr;
  std::int64_t* seen = nullptr;  ///< `read` when the loop last looked
  /// Whether what a step writes waits for who ends it: he publishes it for all slots at once.
  bool waits = false;

  HUNCH_HOST_DEVICE ring_entry& at(std::int32_t slot, std::int64_t n) const {
    return entries[static_cast<std::int64_t>(slot) * capacity + n % capacity];
  }
  /// Whether `count` more entries fit after the first `so_far`, of which `taken` have been read.
  HUNCH_HOST_DEVICE bool has_room(std::int64_t so_far, std::int64_t taken,
                                  std::int32_t count) const {
    return so_far - taken + count <= capacity;
  }

  /// The `counted` entries of a slot are there, unless who ends the step says so. By one rank of a
  /// body, last: on a device, what is read after it is far again.
  HUNCH_HOST_DEVICE void publish(std::int32_t slot) const {
    if (!waits) { kernel::store_release(written + slot, counted[slot]); }
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
  /// \param waits see `rings`.
  ring_storage(M& memory, std::int32_t max_batch, std::int32_t capacity, bool waits)
      : owned_(memory) {
    view_.capacity = capacity;
    view_.waits = waits;
    owned_.give_host_written(std::int64_t{max_batch} * capacity, view_.entries);
    owned_.give_host_written(max_batch, view_.written, view_.read);
    owned_.give(max_batch, view_.counted, view_.seen);
    std::fill_n(view_.written, max_batch, 0);
    std::fill_n(view_.read, max_batch, 0);
    memory.launch(max_batch, clear_slots{view_.counted});
    memory.launch(max_batch, clear_slots{view_.seen});
  }

  const rings& view() const { return view_; }

 private:
  owned_arrays<M> owned_;
  rings view_;
};

}  // namespace hunch
