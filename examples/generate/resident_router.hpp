// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/executor/executor.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/tools/router_weights.hpp>

namespace generate {

/// A router in bytes, in an executor's memory.
template <hunch::ResidentExecutor Executor>
class resident_router {
 public:
  resident_router(Executor& executor, const hunch::router::weights& of)
      : resident_router(executor, hunch::router::quantised(of)) {}

  /// The router, for bodies; this must outlive it.
  hunch::router::mlp<std::int8_t> view() const {
    return {first_.view(), first_bias_.data(), second_.view(), second_bias_.data()};
  }

 private:
  template <class T>
  using resident = hunch::workspace<Executor, T>;
  using head_weights = hunch::kernel::head_weights<std::int8_t>;

  template <class T>
  static resident<T> copied(Executor& executor, const T* from, std::int64_t n) {
    const auto size = static_cast<std::size_t>(n);
    resident<T> out(executor, size);
    executor.upload(out.data(), from, size);
    return out;
  }

  struct matrix {
    matrix(Executor& executor, const head_weights& of)
        : rows(of.rows),
          width(of.width),
          values(copied(executor, of.data, std::int64_t{of.rows} * of.width)),
          scale(copied(executor, of.row_scale, of.rows)) {}
    head_weights view() const {
      return {.data = values.data(), .rows = rows, .width = width, .row_scale = scale.data()};
    }

    std::int32_t rows;
    std::int32_t width;
    resident<std::int8_t> values;
    resident<float> scale;
  };

  resident_router(Executor& executor, const hunch::router::quantised& of)
      : first_(executor, of.view().first),
        first_bias_(copied(executor, of.view().first_bias, of.view().first.rows)),
        second_(executor, of.view().second),
        second_bias_(copied(executor, of.view().second_bias, of.view().second.rows)) {
    executor.synchronize();
  }

  matrix first_;
  resident<float> first_bias_;
  matrix second_;
  resident<float> second_bias_;
};

}  // namespace generate
