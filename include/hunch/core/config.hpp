// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Minimum versions, and the few macros that shared host/device code needs. Every other header
/// of the library includes this one first, directly or not.

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "hunch needs C++20: compile with -std=c++20 (or /std:c++20 /Zc:__cplusplus)"
#endif

#if defined(__CUDACC__) && defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ < 12
#error "hunch needs CUDA 12 or newer when it is compiled by nvcc"
#endif

#define HUNCH_VERSION_MAJOR 0
#define HUNCH_VERSION_MINOR 1
#define HUNCH_VERSION_PATCH 0

#if defined(__CUDACC__)
#define HUNCH_HOST_DEVICE __host__ __device__
#else
#define HUNCH_HOST_DEVICE
#endif

/// In front of a short loop: device code keeps it as it is. Compilers unroll such loops many times
/// over in every function that they are inlined into.
#if defined(__CUDA_ARCH__)
#define HUNCH_ROLLED _Pragma("unroll 1")
/// And here for one over an array that is to be in registers.
#define HUNCH_UNROLLED _Pragma("unroll")
#else
#define HUNCH_ROLLED
#define HUNCH_UNROLLED
#endif

/// Kernel bodies call the operations of a `Team` through lambdas; these must be inlined for the
/// host loops to vectorise.
#if defined(__GNUC__) || defined(__clang__)
#define HUNCH_INLINE inline __attribute__((always_inline))
#define HUNCH_INLINED __attribute__((always_inline))  ///< the same after a lambda's parameters
#define HUNCH_RESTRICT __restrict__
#else
#define HUNCH_INLINE inline
#define HUNCH_INLINED
#define HUNCH_RESTRICT
#endif

/// In front of a large function that takes a team or a law by reference, or returns a law: device
/// code inlines it, because a call would put these into the memory of the device. Hosts decide for
/// themselves.
#if defined(__CUDA_ARCH__)
#define HUNCH_INLINE_ON_DEVICE HUNCH_INLINE
#else
#define HUNCH_INLINE_ON_DEVICE
#endif

/// In front of a function that takes little and that many places of a kernel call: device code has
/// it once.
#if defined(__CUDA_ARCH__)
#define HUNCH_APART __noinline__
#else
#define HUNCH_APART
#endif
