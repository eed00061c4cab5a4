// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <hunch/config.hpp>

namespace hunch {

namespace detail {

struct any_body {
  template <class T>
  HUNCH_HOST_DEVICE void operator()(T&, std::int32_t) const {}
};

}  // namespace detail

/// Where kernel bodies run and where the arrays of a step live.
///
/// 1. `typename E::buffer<T>`, constructed from (executor, n), owns n values of T in the memory
///    that bodies and models of this executor read; `data()` and `size()` are what one expects.
///    The decoder's loop reads and writes them between launches, so the host must reach them.
///    Buffers are made when a decoder is, never in a step.
/// 2. `e.launch(count, body)` runs body(team, index) for every index in [0, count), each with a
///    `Team` of its own. Launches on one executor happen in order. It does not wait.
/// 3. `e.synchronize()` waits until what was launched is done.
///
/// Not required: threads, streams, or that `launch` returns before the bodies have run.
template <class E>
concept Executor = requires(E& e, std::int32_t count) {
  typename E::template buffer<float>;
  requires std::constructible_from<typename E::template buffer<float>, E&, std::size_t>;
  e.launch(count, detail::any_body{});
  e.synchronize();
};

}  // namespace hunch
