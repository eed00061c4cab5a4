// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/head/detail/dot_one.hpp>

// The passes of nvcc for a device have no use for the vectors of a host. Its pass for the host has:
// of a product that files for the host and for a device both instantiate, the linker keeps one.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
#include <hunch/head/detail/vector_dots.hpp>
#endif

/// \file
/// Dot products of head rows with hidden states: what `range_gemv` and the head over shortlists are
/// made of.

namespace hunch::kernel::detail {

#if defined(__GNUC__) && !defined(__CUDA_ARCH__)

inline constexpr bool has_vectors = true;

#else

template <std::int32_t Together, std::int32_t States, class Weight, class Ahead>
HUNCH_HOST_DEVICE void dot_rows(const Weight*, std::int64_t, std::int32_t,
                                const float* const (&)[States], Ahead&, float* const (&)[States]) {}

inline constexpr bool has_vectors = false;

#endif

}  // namespace hunch::kernel::detail
