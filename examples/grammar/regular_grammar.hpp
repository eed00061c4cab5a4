// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/sampler/grammar.hpp>

namespace grammar {

/// The texts that a regular expression matches as a whole: a `hunch::Grammar` whose states are
/// those of a deterministic automaton over bytes. All that a step needs is computed here: where
/// each state goes for each byte, and which tokens each state allows.
///
/// Expressions: literals, `.` (any character but a newline), `[a-z]`, `[^...]`, `(...)`, `|`, `*`,
/// `+`, `?`, `{n}`, `{n,m}`, and the escapes `\d`, `\w`, `\s`, `\n`, `\t` and `\` before any other
/// sign. Text is UTF-8; a class holds ASCII characters, and a negated one any other character too.
class regular_grammar {
 public:
  /// \param token_text the bytes of each token; a token without bytes is never allowed.
  /// \param end the token that is allowed where the expression has matched as a whole.
  /// \throws std::invalid_argument saying where the expression is wrong, that no text matches it,
  ///         or that it is too large: more than 100 groups inside one another, more than 16,384
  ///         parts with its repetitions written out, or an automaton of more than 4,096 states, or
  ///         one that takes seconds to make.
  regular_grammar(std::string_view expression, std::int32_t vocab_size,
                  const std::function<std::string_view(hunch::token)>& token_text,
                  hunch::token end);

  using state = std::int32_t;  ///< -1: no text begins so

  static state start() { return 0; }
  state advance(state s, hunch::token t) const noexcept;
  void allowed(state s, std::uint32_t* words) const noexcept;

  std::int32_t states() const { return static_cast<std::int32_t>(next_.size()); }

 private:
  state read(state s, std::string_view bytes) const noexcept;

  std::int32_t words_;
  hunch::token end_;
  std::vector<std::array<std::int32_t, 256>> next_;  ///< -1: no text goes on so
  std::vector<std::uint8_t> accepts_;
  std::vector<std::uint32_t> allowed_;  ///< [states, words]
  std::vector<char> bytes_;             ///< of all tokens
  std::vector<std::size_t> first_;      ///< [vocab_size + 1] where a token's bytes begin
};

static_assert(hunch::Grammar<regular_grammar>);

}  // namespace grammar
