// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace hunch {

/// A part of a message: text, or a number.
class message_part {
 public:
  template <class Text>
  requires std::convertible_to<const Text&, std::string_view> message_part(const Text& text)
      : text_(text) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> message_part(Number number)
      : is_integer_(std::is_integral_v<Number>),
        integer_(static_cast<long long>(number)),
        real_(static_cast<double>(number)) {}

  void append_to(std::string& message) const {
    if (text_.data() != nullptr) {
      message += text_;
    } else {
      message += is_integer_ ? std::to_string(integer_) : std::to_string(real_);
    }
  }

 private:
  std::string_view text_;
  bool is_integer_ = false;
  long long integer_ = 0;
  double real_ = 0.0;
};

/// The parts, one after the other. What a class refuses is said by this one function: strings added
/// up wherever there is something to say are a tenth of what a decoder takes to compile.
inline std::string message(std::initializer_list<message_part> parts) {
  std::string all;
  for (const message_part& part : parts) { part.append_to(all); }
  return all;
}

/// Refuses what a caller asks for: throws std::invalid_argument that says who refuses, and why.
struct refusal {
  std::string_view owner;  ///< a class or function

  [[noreturn]] void operator()(std::initializer_list<message_part> why) const {
    throw std::invalid_argument(message({owner, ": ", message(why)}));
  }
};

}  // namespace hunch
