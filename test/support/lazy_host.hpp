// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "hidden_host.hpp"

namespace hunch::test {

/// A hidden host that runs what it is given no sooner than somebody waits for it: who reads or
/// overwrites something without having waited shows, every time. Copies share what waits.
class lazy_host : public executor::host {
 public:
  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(lazy_host& of, std::size_t n) : executor::host::buffer<T>(of, n) {}
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    waiting_->push_back([count, body] { executor::host{}.launch(count, body); });
  }
  void synchronize() {
    for (const auto& task : std::exchange(*waiting_, {})) { task(); }
  }
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    synchronize();
    executor::host::upload(to, from, n);
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    upload(to, from, n);
  }
  template <class Step>
  void repeat(std::uint64_t shape, Step&& step, std::int32_t* again) {
    const auto whole = [&](const repeat_flag& flag) {
      step(flag);
      synchronize();
    };
    executor::host::repeat(shape, whole, again);
  }

 private:
  std::shared_ptr<std::vector<std::function<void()>>> waiting_ =
      std::make_shared<std::vector<std::function<void()>>>();
};

static_assert(ResidentExecutor<lazy_host>);
static_assert(!host_reads<step_memory<lazy_host>>);

}  // namespace hunch::test
