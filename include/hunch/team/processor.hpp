// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <hunch/core/config.hpp>

/// \file
/// Host loops at the speed of the processor they run on, whatever flags they were compiled with. A
/// build for any x86-64 (`-O2` without `-march`) has neither fused multiply-adds nor registers of
/// more than 16 bytes, and a loop over a row would take sixty times as long. So such loops are
/// compiled up to three times, for the flags of the build, for AVX2 and for AVX-512, and each call
/// takes the best of these that the processor has. All of them compute the same bits: what is fused
/// is written as such, and additions have one order (see canonical.hpp).
///
/// A build whose flags name such a processor has only what is above them; on other architectures
/// there is nothing to choose, and loops are vectorised with what the flags say: on aarch64 NEON.
/// `HUNCH_INSTRUCTIONS` fixes the choice: 0, what the flags say; 2, AVX2 at most; 3, AVX-512 at
/// most. The default is 3, and 2 for a build that is not optimised, which is made to be made soon.

#if !defined(HUNCH_INSTRUCTIONS)
#if defined(__OPTIMIZE__)
#define HUNCH_INSTRUCTIONS 3
#else
#define HUNCH_INSTRUCTIONS 2
#endif
#endif

namespace hunch::team {

/// What a loop may use beyond what it could anywhere.
template <int Level>
struct instructions {
  static constexpr bool avx2 = Level >= 2;
  static constexpr bool avx512 = Level >= 3;
};

/// What loops are compiled for at most.
inline constexpr int up_to_avx2 = 2;
inline constexpr int up_to_avx512 = 3;

/// What the sums and lanes of F are compiled for at most: all, unless F says by a member
/// `compiled_up_to` that they are rare, or no faster for wider registers. This saves the time to
/// compile them.
template <class F>
inline constexpr int compiled_up_to = up_to_avx512;
template <class F>
requires requires { F::compiled_up_to; }
inline constexpr int compiled_up_to<F> = F::compiled_up_to;

namespace detail {

template <class On, class Loop, class... F>
HUNCH_HOST_DEVICE HUNCH_INLINE auto run_loop(On on, const Loop& loop, const F&... f) {
  if constexpr (std::is_invocable_v<const Loop&, On, const F&...>) {
    return loop(on, f...);
  } else {
    return loop(f...);
  }
}

// The loops are vectorised whatever the level of optimisation: optimize("O3"). Fused where that is
// written as a sum of a product over vectors of the compiler, which has no function for it:
// "fp-contract=fast"; clang has a pragma instead.
#if defined(__clang__)
#define HUNCH_COMPILED_AS_LOOP __attribute__((noinline, flatten))
#define HUNCH_WIDE ""
#elif defined(__GNUC__)
#define HUNCH_COMPILED_AS_LOOP \
  __attribute__((noinline, flatten, optimize("O3", "fp-contract=fast")))
#define HUNCH_WIDE ",prefer-vector-width=512"
#else
#define HUNCH_COMPILED_AS_LOOP
#endif
#if defined(__FP_FAST_FMAF)
#define HUNCH_COMPILED_FOR_FEW HUNCH_COMPILED_AS_LOOP  // sums of products are to be fused
#elif defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#define HUNCH_COMPILED_FOR_FEW \
  __attribute__((noinline, optimize("O2", "tree-vectorize", "vect-cost-model=dynamic")))
#else
#define HUNCH_COMPILED_FOR_FEW __attribute__((noinline))
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDA_ARCH__) && HUNCH_INSTRUCTIONS >= 2
#define HUNCH_CHOOSES_INSTRUCTIONS 1
#else
#define HUNCH_CHOOSES_INSTRUCTIONS 0
#endif

// What loops for a processor use, each tested for before they run: a machine, or a hypervisor, may
// have the first and mask another. With these two, `each` is put around every name, and `then`
// between them.
#define HUNCH_NAMES_OF_AVX2(each, then) \
  each("avx2") then each("fma") then each("bmi") then each("popcnt")
#define HUNCH_NAMES_OF_AVX512(each, then) \
  HUNCH_NAMES_OF_AVX2(each, then)         \
  then each("avx512f") then each("avx512bw") then each("avx512dq") then each("avx512vl")
#define HUNCH_NAME(name) name

// What the flags of the build say as much as, so that it need not be tested for.
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__BMI__) || !defined(__POPCNT__)
inline constexpr int level_of_build = 0;
#elif !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || \
    !defined(__AVX512VL__)
inline constexpr int level_of_build = up_to_avx2;
#else
inline constexpr int level_of_build = up_to_avx512;
#endif

#if HUNCH_CHOOSES_INSTRUCTIONS

// The functions that a loop calls are copied: what they refer to by value stays in registers.

template <class Loop, class... F>
HUNCH_COMPILED_AS_LOOP
    __attribute__((target(HUNCH_NAMES_OF_AVX512(HUNCH_NAME, ",") HUNCH_WIDE))) auto
    with_avx512(const Loop& loop, const F&... f) {
  const Loop copy = loop;
  return [&copy](const F... of)
             HUNCH_INLINED { return run_loop(instructions<3>{}, copy, of...); }(f...);
}

template <class Loop, class... F>
HUNCH_COMPILED_AS_LOOP __attribute__((target(HUNCH_NAMES_OF_AVX2(HUNCH_NAME, ",")))) auto with_avx2(
    const Loop& loop, const F&... f) {
  const Loop copy = loop;
  return [&copy](const F... of)
             HUNCH_INLINED { return run_loop(instructions<2>{}, copy, of...); }(f...);
}

/// On a processor without AVX2, of which few are left: vectorised, but not optimised further, for
/// most of the time goes into multiply-adds, which are calls there.
template <class Loop, class... F>
HUNCH_COMPILED_FOR_FEW auto with_flags(const Loop& loop, const F&... f) {
  return run_loop(instructions<0>{}, loop, f...);
}

template <int Most, class Loop, class... F>
HUNCH_INLINE auto with_up_to(const Loop& loop, const F&... f) {
  if constexpr (Most > HUNCH_INSTRUCTIONS) {
    return with_up_to<HUNCH_INSTRUCTIONS>(loop, f...);
  } else if constexpr (Most == up_to_avx512) {
    if constexpr (level_of_build < up_to_avx512) {
      if (!(HUNCH_NAMES_OF_AVX512(__builtin_cpu_supports, &&))) {
        return with_up_to<up_to_avx2>(loop, f...);
      }
    }
    return with_avx512(loop, f...);
  } else {
    if constexpr (level_of_build < up_to_avx2) {
      if (!(HUNCH_NAMES_OF_AVX2(__builtin_cpu_supports, &&))) { return with_flags(loop, f...); }
    }
    return with_avx2(loop, f...);
  }
}

#else

template <class Loop, class... F>
HUNCH_COMPILED_AS_LOOP auto with_flags(const Loop& loop, const F&... f) {
  const Loop copy = loop;
  return [&copy](const F... of)
             HUNCH_INLINED { return run_loop(instructions<0>{}, copy, of...); }(f...);
}

#endif

}  // namespace detail

/// loop(f...), with the instructions of the processor at hand.
///
/// \tparam Most `up_to_avx2` for what is short or rare, so that it is not compiled once more.
/// \param loop What runs over a row: hundreds of elements or more, for it becomes a function call.
///             Its own captures and `f` are copied; they refer to what is written. One that has
///             vector instructions of its own takes a first argument, `instructions`.
template <int Most = up_to_avx512, class Loop, class... F>
HUNCH_HOST_DEVICE HUNCH_INLINE auto on_processor(const Loop& loop, const F&... f) {
#if HUNCH_CHOOSES_INSTRUCTIONS
  return detail::with_up_to<Most>(loop, f...);
#elif defined(__CUDA_ARCH__)
  return detail::run_loop(instructions<0>{}, loop, f...);
#else
  return detail::with_flags(loop, f...);
#endif
}

}  // namespace hunch::team
