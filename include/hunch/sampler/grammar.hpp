// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>

/// \file
/// What may be said next: constraints that follow the text, and the draft tree before it is text.

namespace hunch {

/// The set of texts that a request may emit, read token by token.
///
/// 1. `typename G::state` is a place in a text; a value. Copying it forks the text, keeping an old
///    one rolls back: that is all that a draft tree needs.
/// 2. `g.start()` is the state before the first emitted token.
/// 3. `g.advance(state, token)` is the state after one more token, allowed or not; noexcept. After
///    a token that is not allowed nothing is.
/// 4. `g.allowed(state, words)` sets bit t % 32 of words[t / 32] for every token t that may come
///    next, and clears the others; noexcept. A text that may end here allows the end-of-text token.
///
/// Not required: how states are represented. A stack of a context-free grammar is best kept as a
/// number into a shared, growing table, so that copies are cheap.
template <class G>
concept Grammar = std::is_nothrow_copy_assignable_v<typename G::state> &&
    requires(const G& g, const typename G::state& s, token t, std::uint32_t* words) {
  { g.start() } -> std::same_as<typename G::state>;
  { g.advance(s, t) }
  noexcept->std::same_as<typename G::state>;
  { g.allowed(s, words) }
  noexcept;
};

/// The words of a set of tokens.
HUNCH_HOST_DEVICE constexpr std::int32_t allowed_words(std::int32_t vocab_size) {
  return (vocab_size + 31) / 32;
}

/// One request's walk through a grammar: its committed text, and the draft tree grown from there.
class grammar_walk {
 public:
  virtual ~grammar_walk() = default;
  /// What may follow the committed text, the root of the next tree.
  /// \param words [allowed_words(vocab_size)] out, as `Grammar` has them.
  virtual void plant(std::uint32_t* words) noexcept = 0;
  /// What may follow node `node`, a child of `parent` with token t; the parent has been grown.
  virtual void grow(std::int32_t node, std::int32_t parent, token t,
                    std::uint32_t* words) noexcept = 0;
  /// One more token of the committed text.
  virtual void commit(token t) noexcept = 0;
};

/// A grammar of any type, shared by the requests that follow it. Empty: everything is allowed.
class any_grammar {
 public:
  any_grammar() = default;

  /// \param grammar not null.
  template <Grammar G>
  any_grammar(std::shared_ptr<const G> grammar)
      : begin_([grammar = std::move(grammar)](std::int32_t max_nodes) {
          return std::unique_ptr<grammar_walk>(new walk<G>(grammar, max_nodes));
        }) {}
  template <Grammar G>
  any_grammar(G grammar) : any_grammar(std::make_shared<const G>(std::move(grammar))) {}

  explicit operator bool() const { return begin_ != nullptr; }

  /// A walk for trees of up to `max_nodes` nodes; nothing is allocated on it later. There is none
  /// of an empty grammar.
  std::unique_ptr<grammar_walk> begin(std::int32_t max_nodes) const { return begin_(max_nodes); }

 private:
  template <class G>
  class walk final : public grammar_walk {
   public:
    walk(std::shared_ptr<const G> grammar, std::int32_t max_nodes)
        : grammar_(std::move(grammar)),
          places_(static_cast<std::size_t>(max_nodes), place{grammar_->start()}) {}

    void plant(std::uint32_t* words) noexcept override {
      grammar_->allowed(places_[0].state, words);
    }
    void grow(std::int32_t node, std::int32_t parent, token t,
              std::uint32_t* words) noexcept override {
      auto& state = places_[static_cast<std::size_t>(node)].state;
      state = grammar_->advance(places_[static_cast<std::size_t>(parent)].state, t);
      grammar_->allowed(state, words);
    }
    void commit(token t) noexcept override {
      places_[0].state = grammar_->advance(places_[0].state, t);
    }

   private:
    struct place {
      typename G::state state;  // a state may be a bool, of which a vector would have no references
    };

    std::shared_ptr<const G> grammar_;
    std::vector<place> places_;  ///< [max_nodes]; 0: the committed text
  };

  std::function<std::unique_ptr<grammar_walk>(std::int32_t)> begin_;
};

}  // namespace hunch
