// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch {

namespace detail {

struct any_body {
  template <class T>
  HUNCH_HOST_DEVICE void operator()(T&, std::int32_t) const {}
};
struct any_step {
  template <class Condition>
  void operator()(const Condition&) const {}
};

}  // namespace detail

/// Whether a body says of itself that it reads whole rows, by `static constexpr bool reads_rows =
/// true`: an executor with threads to spare may give it a larger team.
template <class Body>
inline constexpr bool reads_rows = requires {
  requires Body::reads_rows;
};

/// Where kernel bodies run and where the arrays of a step live.
///
/// 1. `typename E::buffer<T>`, constructed from (executor, n), owns n values of T in the memory
///    that bodies and models of this executor read; `data()` and `size()` are what one expects.
///    The host reads and writes them between launches, unless E says `host_reads = false`. Buffers
///    are made with a decoder, or when a request is added, never in a step.
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

/// An executor on which a whole loop can live, apart from the host; see `resident_decoder`.
///
/// 1. `typename E::resident<T>`, if there is such a type, is a buffer in the memory that bodies and
///    models are fastest with. The host does not reach it. Its bytes begin as 0. Without it,
///    buffers are this memory.
/// 2. `e.upload(to, from, n)` and `e.download(to, from, n)` copy n values between the host's memory
///    and such a buffer, in order with launches; the host's memory is free again afterwards.
/// 3. `e.repeat(shape, step, again)` runs step(condition), and again as long as a body of it has
///    called condition.set(true), by one rank, where each step calls it once; `condition` is
///    trivially copyable, and `*again`, in resident memory, is a place for what it says, such as a
///    `repeat_flag`. It need not wait for it, and may call step once to record what it launches;
///    steps of the same `shape` launch the same.
///
/// Not required: that anything is recorded. What is recorded is known by its shape and `again`; an
/// executor that keeps it has `e.forget(again)`, called when no loop runs and before that memory is
/// freed, since another loop may get it.
template <class E>
concept ResidentExecutor = Executor<E> &&
    requires(E& e, float* to, const float* from, detail::any_step step, std::int32_t* again) {
  e.upload(to, from, std::size_t(1));
  e.download(to, from, std::size_t(1));
  e.repeat(std::uint64_t(0), step, again);
};

/// Says whether a step is repeated to an executor that looks there after each, see
/// `ResidentExecutor`.
struct repeat_flag {
  std::int32_t* again;

  HUNCH_HOST_DEVICE void set(bool more) const { *again = more ? 1 : 0; }
};

/// Copies n values from the host's memory into a buffer of an executor.
template <Executor E, class T>
void write_buffer(E& executor, T* to, const T* from, std::size_t n) {
  if constexpr (requires { executor.upload(to, from, n); }) {
    executor.upload(to, from, n);
  } else {
    std::copy_n(from, n, to);
  }
}

/// Copies n values of a buffer to the host's memory; waits for what writes them.
template <Executor E, class T>
void read_buffer(E& executor, T* to, const T* from, std::size_t n) {
  if constexpr (requires { executor.download(to, from, n); }) {
    executor.download(to, from, n);
  } else {
    executor.synchronize();
    std::copy_n(from, n, to);
  }
}

/// Whether the teams of a launch divide one piece of work among them, as that of a head, and are
/// worth threads of their own: such a body has `static constexpr bool divides_work = true`.
template <class Body>
inline constexpr bool divides_work = requires {
  requires Body::divides_work;
};

/// Whether the host reads what bodies have written to buffers of E while a step runs: unless E says
/// otherwise, by `static constexpr bool host_reads = false`. Else a step is launched without a look
/// at what came out, with all sizes as large as they may be and padding behind what is there.
template <class E>
inline constexpr bool host_reads = !requires {
  requires !E::host_reads;
};

/// The count that bodies have written to a buffer; waits for the executor. Where the host does not
/// read it, `most`: the largest that it may be.
template <Executor E>
std::int32_t known_count(E& executor, [[maybe_unused]] const std::int32_t* at,
                         [[maybe_unused]] std::int32_t most) {
  if constexpr (host_reads<E>) {
    executor.synchronize();
    return *at;
  } else {
    return most;
  }
}

/// Does what does not throw but where an executor has failed: its next step will say so.
template <class F>
void attempt(F&& f) noexcept {
  try {
    f();
  } catch (...) {}
}

/// Launches that run beside those of an executor, from the construction of this to its end: after
/// all that the executor was given before, and before all that it is given afterwards. By
/// `executor.fork()` and `executor.join()` where it has them, else in order, by the executor
/// itself.
template <Executor E>
class side_stream {
 public:
  explicit side_stream(E& executor) : executor_(&executor), side_(&forked(executor)) {}
  ~side_stream() {
    if constexpr (requires { executor_->join(); }) { executor_->join(); }
  }
  side_stream(const side_stream&) = delete;
  side_stream& operator=(const side_stream&) = delete;

  /// What to launch on.
  E& executor() const { return *side_; }

 private:
  static E& forked(E& executor) {
    if constexpr (requires { executor.fork(); }) {
      return executor.fork();
    } else {
      return executor;
    }
  }

  E* executor_;
  E* side_;
};

/// How many teams an executor runs side by side for `body`: into so many parts work is divided that
/// can be divided at will. `e.teams_at_once(body)` where it says so, else 1.
template <Executor E, class Body>
std::int32_t teams_at_once(E& executor, const Body& body) {
  if constexpr (requires { executor.teams_at_once(body); }) {
    return executor.teams_at_once(body);
  } else {
    return 1;
  }
}

namespace detail {

struct no_range {
  explicit constexpr no_range(const char*) {}
  constexpr ~no_range() {}
};
template <class E>
struct range_of {
  using type = no_range;
};
template <class E>
requires requires { typename E::range; }
struct range_of<E> {
  using type = typename E::range;
};

}  // namespace detail

/// A named range of what the host does, from its construction to the end of its scope, for
/// profilers; nothing where the executor has no `range`.
template <class E>
using profiler_range = typename detail::range_of<E>::type;

namespace detail {

template <class E, class T>
struct host_written {
  using type = typename E::template buffer<T>;
};
template <class E, class T>
requires requires { typename E::template host_written<T>; }
struct host_written<E, T> {
  using type = typename E::template host_written<T>;
};
template <class E, class T>
struct workspace {
  using type = typename E::template buffer<T>;
};
template <class E, class T>
requires requires { typename E::template resident<T>; }
struct workspace<E, T> {
  using type = typename E::template resident<T>;
};

}  // namespace detail

/// A buffer that the host writes and bodies read, on executors whose buffers it does not reach too.
template <class E, class T>
using host_written = typename detail::host_written<E, T>::type;

/// A buffer that bodies alone use: resident, where E has such memory.
template <class E, class T>
using workspace = typename detail::workspace<E, T>::type;

/// An executor whose buffers are resident memory of E, for steps that live there. The host does not
/// read them.
template <ResidentExecutor E>
class resident_memory {
 public:
  static constexpr bool host_reads = false;
  /// Whether bodies run as of one rank of several, among which rows are divided.
  static constexpr bool spans_ranks = team::spans_ranks<E>;

  explicit resident_memory(E& executor) : executor_(&executor) {}

  template <class T>
  struct buffer : E::template resident<T> {
    buffer(resident_memory& memory, std::size_t n)
        : E::template resident<T>(*memory.executor_, n) {}
  };
  template <class T>
  struct host_written : E::template buffer<T> {
    host_written(resident_memory& memory, std::size_t n)
        : E::template buffer<T>(*memory.executor_, n) {}
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    executor_->launch(count, body);
  }
  /// Waits for nothing: the host reads nothing.
  void synchronize() {}
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    executor_->upload(to, from, n);
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    executor_->download(to, from, n);
  }
  template <class Body>
  std::int32_t teams_at_once(const Body& body) const requires requires(E& e) {
    e.teams_at_once(body);
  }
  { return executor_->teams_at_once(body); }

  /// Whose memory it is.
  E& executor() const { return *executor_; }

 private:
  E* executor_;
};

namespace detail {

template <class E>
struct step_memory {
  using type = E;
};
template <ResidentExecutor E>
requires requires {
  requires !std::is_same_v<typename E::template resident<char>, typename E::template buffer<char>>;
}
struct step_memory<E> {
  using type = resident_memory<E>;
};

}  // namespace detail

/// Where the arrays of a step lie that runs on E: in the memory that bodies are fastest with. That
/// is E itself where it has no other than its buffers, so that the host reads what a step makes.
template <Executor E>
using step_memory = typename detail::step_memory<E>::type;

template <ResidentExecutor E>
class side_stream<resident_memory<E>> {
 public:
  explicit side_stream(resident_memory<E>& memory)
      : side_(memory.executor()), memory_(side_.executor()) {}

  resident_memory<E>& executor() { return memory_; }

 private:
  side_stream<E> side_;
  resident_memory<E> memory_;
};

}  // namespace hunch
