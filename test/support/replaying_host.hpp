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

/// A host that keeps what it is given while it records, and runs it when it is replayed: what an
/// engine does that puts a step into a graph of its own.
class replaying_host : public executor::host {
 public:
  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(replaying_host& of, std::size_t n) : executor::host::buffer<T>(of, n) {}
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    call([count, body] { executor::host{}.launch(count, body); });
  }
  /// A call of an engine's own, in order with launches.
  void call(std::function<void()> task) {
    if (!graph_->records) { return task(); }
    graph_->tasks.push_back(std::move(task));
  }

  template <class Step>
  void record(Step&& step) {
    graph_->records = true;
    step();
    graph_->records = false;
  }
  void replay() const {
    for (const auto& task : graph_->tasks) { task(); }
  }
  std::size_t recorded() const { return graph_->tasks.size(); }

 private:
  struct graph {
    bool records = false;
    std::vector<std::function<void()>> tasks;
  };
  std::shared_ptr<graph> graph_ = std::make_shared<graph>();
};

static_assert(ResidentExecutor<replaying_host>);

}  // namespace hunch::test
