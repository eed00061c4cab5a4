// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <hunch/distribution/random.hpp>

namespace hunch::test {

/// The same random word was asked for twice in one run.
struct repeated_address : std::logic_error {
  repeated_address() : std::logic_error("a random address was used twice") {}
};

/// A random source whose every choice forks. One run follows one tape; `next` moves to the next
/// tape, so that replaying a deterministic program until `next` is false visits every outcome once,
/// each with its exact probability. A handle: copies share the tape.
class forking_source {
 public:
  forking_source() : tape_(std::make_shared<tape>()) {}

  /// Starts the first run, or repeats the current one.
  void rewind() const {
    tape_->position = 0;
    tape_->probability = 1.0;
    tape_->asked.clear();
  }

  /// Moves to the next tape; false if there is none.
  bool next() const {
    std::vector<choice>& choices = tape_->choices;
    choices.resize(tape_->position);
    while (!choices.empty() && choices.back().taken + 1 >= choices.back().options) {
      choices.pop_back();
    }
    if (choices.empty()) { return false; }
    ++choices.back().taken;
    choices.back().known = false;
    rewind();
    return true;
  }

  /// Of the current run.
  double probability() const { return tape_->probability; }

  bool bernoulli(const address& a, double num, double den) const {
    ask(a);
    const double p = num <= 0.0 ? 0.0 : num >= den ? 1.0 : num / den;
    choice& c = fork(a);
    const bool certain = p <= 0.0 || p >= 1.0;
    if (c.options != (certain ? 1 : 2) && c.known) {
      throw std::logic_error("a replay took another way");
    }
    c.options = certain ? 1 : 2;
    c.known = true;
    const bool yes = certain ? p >= 1.0 : c.taken == 0;
    if (!certain) { tape_->probability *= yes ? p : 1.0 - p; }
    return yes;
  }

  template <Team T, class Weight>
  std::int64_t categorical(T&, const address& a, std::int64_t n, Weight&& weight) const {
    ask(a);
    choice& c = fork(a);
    if (!c.known) {
      std::vector<double>& weights = tape_->weights;
      weights.clear();
      double total = 0.0;
      c.options = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        weights.push_back(static_cast<double>(weight(i)));
        if (!(weights.back() >= 0.0)) {
          throw std::logic_error("a weight that is negative or not a number");
        }
        total += weights.back();
        c.options += weights.back() > 0.0 ? 1 : 0;
      }
      c.known = true;
      c.outcome = -1;
      std::int32_t left = c.taken;
      for (std::int64_t i = 0; i < n && c.options > 0; ++i) {
        const double w = weights[static_cast<std::size_t>(i)];
        if (w > 0.0 && left-- == 0) {
          c.outcome = i;
          c.share = w / total;
          break;
        }
      }
    }
    tape_->probability *= c.share;
    return c.outcome;
  }

 private:
  /// A draw, and what came of it on the current tape. A tape differs from the one before it in one
  /// draw and what comes after: the draws before that are not made again.
  struct choice {
    address at;
    std::int32_t taken = 0;
    std::int32_t options = 1;
    bool known = false;
    std::int64_t outcome = 0;
    double share = 1.0;  ///< its probability
  };
  struct tape {
    std::vector<choice> choices;
    std::size_t position = 0;
    double probability = 1.0;
    std::vector<address> asked;
    std::vector<double> weights;
  };

  void ask(const address& a) const {
    if (std::ranges::find(tape_->asked, a) != tape_->asked.end()) { throw repeated_address(); }
    tape_->asked.push_back(a);
  }

  choice& fork(const address& a) const {
    if (tape_->position == tape_->choices.size()) { tape_->choices.push_back({.at = a}); }
    choice& c = tape_->choices[tape_->position++];
    if (!(c.at == a)) { throw std::logic_error("a replay took another way"); }
    return c;
  }

  std::shared_ptr<tape> tape_;
};

static_assert(RandomSource<forking_source>);

}  // namespace hunch::test
