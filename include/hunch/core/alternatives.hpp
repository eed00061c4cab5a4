// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <new>
#include <type_traits>

#include <hunch/core/config.hpp>

namespace hunch {

/// Whether no two of the types are the same, so that one names its place.
template <class... T>
inline constexpr bool all_differ = true;
template <class First, class... Rest>
inline constexpr bool all_differ<First, Rest...> =
    (!std::is_same_v<First, Rest> && ...) && all_differ<Rest...>;

/// Room for one of several trivially copyable types: a std::variant, which device code may not use,
/// whose index somebody else keeps. Trivially copyable.
template <class... T>
union alternatives;

template <class First, class... Rest>
union alternatives<First, Rest...> {
  static_assert(std::is_trivially_copyable_v<First>);
  using first_type = First;

  HUNCH_HOST_DEVICE alternatives() : nothing() {}

  template <class T>
  static constexpr std::int32_t index_of() {
    if constexpr (std::is_same_v<T, First>) {
      return 0;
    } else {
      return 1 + alternatives<Rest...>::template index_of<T>();
    }
  }

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, First>) {
      ::new (&first) First(value);
    } else {
      (::new (&rest) alternatives<Rest...>())->template put<T>(value);
    }
  }

  /// Holds a default-constructed value of type `index`.
  HUNCH_HOST_DEVICE void begin(std::int32_t index) {
    if (index == 0) {
      ::new (&first) First();
    } else if constexpr (sizeof...(Rest) > 0) {
      (::new (&rest) alternatives<Rest...>())->begin(index - 1);
    }
  }

  char nothing;
  First first;
  alternatives<Rest...> rest;
};

template <>
union alternatives<> {
  char nothing;
};

/// use(value) for what it holds, of type `index`. By the host. \tparam Held `alternatives`, const
/// or not.
template <class Held, class Use>
auto use_held(std::int32_t index, Held& held, const Use& use) {
  if constexpr (requires { held.rest.first; }) {
    if (index > 0) { return use_held(index - 1, held.rest, use); }
  }
  return use(held.first);
}

/// use(a, b) for what two hold of type `index`, b to be changed.
template <class A, class... As, class B, class... Bs, class Use>
HUNCH_HOST_DEVICE auto use_both(std::int32_t index, const alternatives<A, As...>& a,
                                alternatives<B, Bs...>& b, const Use& use) {
  static_assert(sizeof...(As) == sizeof...(Bs));
  if constexpr (sizeof...(As) > 0) {
    if (index > 0) { return use_both(index - 1, a.rest, b.rest, use); }
  }
  return use(a.first, b.first);
}

}  // namespace hunch
