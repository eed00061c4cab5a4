// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hunch {

/// A part of a message: text, or a number.
class message_part {
 public:
  template <class Text>
  requires std::convertible_to<const Text&, std::string_view> message_part(const Text& text)
      : what_(kind::text), text_(text) {}
  template <std::integral Number>
  message_part(Number number) : what_(kind::integer), integer_(static_cast<long long>(number)) {}
  template <std::floating_point Number>
  message_part(Number number) : what_(kind::real), real_(static_cast<double>(number)) {}

  void append_to(std::string& message) const {
    switch (what_) {
      case kind::text:
        message += text_;
        break;
      case kind::integer:
        message += std::to_string(integer_);
        break;
      case kind::real:
        message += std::to_string(real_);
        break;
    }
  }

 private:
  enum class kind { text, integer, real };

  kind what_;
  std::string_view text_;
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
