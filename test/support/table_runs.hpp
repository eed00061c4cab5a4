// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/selector/any.hpp>
#include "erased_decoders.hpp"
#include "hash_world.hpp"
#include "table.hpp"

/// \file
/// The table of compositions on any executor, by hash models: the texts of both drivers, and those
/// of the host.

namespace hunch::test::table {

/// What a decoder of a line wrote, and what became of its drafts.
struct line_result {
  outcome texts;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
};

/// A line of the table, of any types.
template <class E>
class line {
 public:
  virtual line_result driven(const vocab_layout& layout, const selector::any<float>& selector,
                             const std::vector<request>& requests, std::int32_t batch) const = 0;
  virtual line_result driven(E executor, const vocab_layout& layout,
                             const selector::any<float, E>& selector,
                             const std::vector<request>& requests, std::int32_t batch) const = 0;
  virtual line_result repeated(E executor, const vocab_layout& layout,
                               const selector::any<float, E>& selector,
                               const std::vector<request>& requests, std::int32_t batch) const = 0;

 protected:
  ~line() = default;
};

template <class E, class Make, class S, class V>
class composed_line final : public line<E> {
  static constexpr std::int32_t chunk = 4;
  static constexpr std::int32_t max_length = 64;

 public:
  composed_line(const Make& make, S sampler, V verifier)
      : make_(make), sampler_(sampler), verifier_(verifier) {}

  line_result driven(const vocab_layout& layout, const selector::any<float>& selector,
                     const std::vector<request>& requests, std::int32_t batch) const override {
    return drive(executor::host{}, layout, selector, requests, batch);
  }
  line_result driven(E executor, const vocab_layout& layout,
                     const selector::any<float, E>& selector, const std::vector<request>& requests,
                     std::int32_t batch) const override {
    return drive(executor, layout, selector, requests, batch);
  }
  line_result repeated(E executor, const vocab_layout& layout,
                       const selector::any<float, E>& selector,
                       const std::vector<request>& requests, std::int32_t batch) const override {
    // A small ring, for it to go round: of no more entries than a step may need.
    const std::int32_t ring = std::max(std::int32_t{8}, nodes<E>());
    hash_world<E> m(executor, layout, batch, most_rows<E>(batch));
    resident_decoder d{
        m.target,
        make_(m),
        selector::any<float, E>(selector),
        S(sampler_),
        V(verifier_),
        resident_options{
            .max_batch = batch, .max_length = max_length, .chunk = chunk, .ring = ring},
        random_source<>{},
        m.executor};
    repeated_by by(d);
    return result_of(d, outcome_of(by, requests, batch, batch == 3 ? 2 : 1000,
                                   [&] { m.executor.synchronize(); }));
  }

 private:
  template <class M>
  static constexpr std::int32_t nodes() {
    return decltype(std::declval<const Make&>()(std::declval<hash_world<M>&>()))::max_nodes;
  }
  template <class M>
  static std::int32_t most_rows(std::int32_t batch) {
    return batch * (nodes<M>() + chunk + 1);
  }
  static line_result result_of(auto& d, outcome texts) {
    const auto s = d.stats();
    return {std::move(texts), s.drafted, s.accepted};
  }
  template <class M>
  line_result drive(M executor, const vocab_layout& layout, selector::any<float, M> selector,
                    const std::vector<request>& requests, std::int32_t batch) const {
    hash_world<M> m(executor, layout, batch, most_rows<M>(batch));
    decoder d{m.target,
              make_(m),
              std::move(selector),
              S(sampler_),
              V(verifier_),
              decoder_options{
                  .max_batch = batch, .chunk = chunk, .max_length = max_length, .token_text = {}},
              random_source<>{},
              m.executor};
    stepped_by by(d);
    return result_of(d, outcome_of(by, requests, batch));
  }

  Make make_;
  S sampler_;
  V verifier_;
};

/// Runs lines on the host and on E, and calls report(what, whether it is so) with what is claimed
/// of them.
template <class E, class Report>
class runner {
 public:
  /// \param requests of a line.
  /// \param every whether each line is run with every shortlist, or with one each in turn.
  runner(E executor, std::int32_t vocab, std::int32_t batch, std::int32_t requests, bool every,
         Report report)
      : executor_(executor),
        vocab_(vocab),
        batch_(batch),
        requests_(requests),
        every_(every),
        report_(report) {}

  template <class Make, class S, class V>
  void operator()(const char* drafter, const char* tree, const Make& make, S sampler, V verifier,
                  asked what) {
    const std::string name = std::string(drafter) + ", " + tree;
    const composed_line<E, Make, S, V> of(make, sampler, verifier);
    line_result all;
    run(name + ", full", of, selector::full{vocab_}, what, all);
    std::int32_t shortlists = 0;
    for_each_shortlist(
        vocab_, [](std::int32_t clusters) { return hash_router{clusters}; },
        [&](const char* shortlist, const auto& selector) {
          if (every_ || shortlists == turn_) {
            run(name + ", " + shortlist, of, selector, what, all);
          }
          ++shortlists;
        });
    turn_ = (turn_ + 1) % shortlists;
    check_drafts(name, all, true);
  }
  template <class Make, class S, class V>
  void operator()(const char* drafter, const Make& make, S sampler, V verifier, asked what) const {
    const composed_line<E, Make, S, V> of(make, sampler, verifier);
    line_result all;
    run(drafter, of, selector::full{vocab_}, what, all);
    check_drafts(drafter, all, std::string(drafter) != "none");
  }

 private:
  /// Texts prove nothing about drafts of which none, or every one, is accepted.
  void check_drafts(const std::string& name, const line_result& all, bool drafts) const {
    report_(name + ": some drafts are accepted and some are not",
            (all.accepted > 0) == drafts && (all.accepted < all.drafted) == drafts);
  }

  template <class Selector>
  void run(const std::string& name, const line<E>& of, const Selector& selector, asked what,
           line_result& all) const {
    std::vector<request> requests = requests_of(what);
    requests.resize(static_cast<std::size_t>(requests_));
    const vocab_layout& layout = selector.layout();
    const selector::any<float, E> here(selector);
    const line_result expected =
        of.driven(layout, selector::any<float>(selector), requests, requests_);
    all.drafted += expected.drafted;
    all.accepted += expected.accepted;
    same(name + ": the texts of the host, driven by it", expected,
         [&] { return of.driven(executor_, layout, here, requests, batch_); });
    same(name + ": the texts of the host, repeated", expected,
         [&] { return of.repeated(executor_, layout, here, requests, batch_); });
  }

  /// What throws is not so, and the lines after it are run all the same.
  template <class Run>
  void same(const std::string& what, const line_result& expected, Run&& run) const {
    try {
      report_(what, run().texts == expected.texts);
    } catch (const std::exception& error) { report_(what + ": " + error.what(), false); }
  }

  E executor_;
  std::int32_t vocab_;
  std::int32_t batch_;
  std::int32_t requests_;
  bool every_;
  Report report_;
  std::int32_t turn_ = 0;  ///< of the shortlists
};

}  // namespace hunch::test::table
