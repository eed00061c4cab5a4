// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <hunch/collective/collective.hpp>

namespace hunch::collective {

/// Memory that each rank has on its device, and kernels of all ranks read and write. To be had from
/// something else than a collective of this library, derive from it.
class peer_memory {
 public:
  virtual ~peer_memory() = default;
  /// That of a rank, as kernels of this rank reach it; aligned to 16 bytes.
  virtual void* of(std::int32_t rank) const = 0;
};

/// A `Collective` whose ranks reach each other's devices: `c.share(bytes)`, by all of them, is such
/// memory, as much on each. Its bytes are 0 on all ranks when it returns on any.
template <class C>
concept SharesMemory = Collective<C> && requires(C& c, std::size_t bytes) {
  { c.share(bytes) } -> std::convertible_to<std::shared_ptr<const peer_memory>>;
};

}  // namespace hunch::collective
