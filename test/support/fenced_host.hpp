// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>

#include <hunch/executor/host.hpp>

namespace hunch::test {

/// An executor that knows its memory: `reaches` says whether bodies on a device would reach a
/// place, or whether it is memory of the host alone.
class fenced_host : public executor::host {
 public:
  template <class T>
  class buffer : public executor::host::buffer<T> {
   public:
    buffer(fenced_host& executor, std::size_t n)
        : executor::host::buffer<T>(executor, n),
          fence_(reinterpret_cast<const std::byte*>(this->data())) {
      if (n > 0) { places()[fence_.get()] = n * sizeof(T); }
    }

   private:
    struct forget {
      void operator()(const std::byte* first) const { places().erase(first); }
    };
    std::unique_ptr<const std::byte, forget> fence_;
  };

  /// Whether the n values from `of` on lie in one buffer.
  template <class T>
  static bool reaches(const T* of, std::size_t n) {
    const auto* const first = reinterpret_cast<const std::byte*>(of);
    auto place = places().upper_bound(first);
    if (place == places().begin()) { return false; }
    --place;
    const std::less_equal<const std::byte*> up_to;
    return up_to(first + n * sizeof(T), place->first + place->second);
  }

 private:
  /// From the first byte of each buffer to its size.
  static std::map<const std::byte*, std::size_t, std::less<>>& places() {
    static std::map<const std::byte*, std::size_t, std::less<>> all;
    return all;
  }
};

static_assert(Executor<fenced_host>);

}  // namespace hunch::test
