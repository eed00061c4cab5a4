// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/streams.hpp>
#include <generate/draft_length.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"
#include "drafters/measure.hpp"
#include "paired.hpp"

namespace bench::drafters {

/// Trees of streams of which the target's first layers leave some nodes, against the whole trees
/// and against as many nodes by the streams' own laws.
struct pruned_streams {
  report& out;
  const setting& where;
  engine::speculative_streams& streams;
  std::vector<engine::early_exit>& exits;    ///< after other layers each
  const hunch::selector::frequency<>& list;  ///< of streams and exits

  template <std::int32_t Nodes, std::int32_t Kept>
  void measure() const {
    for (int t = 0; t < temperatures; ++t) {
      lengths<Nodes, Kept>(t);
      for (engine::early_exit& exit : exits) { speeds<Nodes, Kept>(exit, t); }
    }
  }

 private:
  template <std::int32_t Nodes>
  using tree = hunch::tree::dynamic<4, 4, Nodes>;

  /// \param deep says how deep drafts are.
  template <std::int32_t Nodes>
  auto whole(generate::chosen_length deep) const {
    return hunch::drafter::streaming{streams, tree<Nodes>{}, deep};
  }
  template <std::int32_t Nodes, std::int32_t Kept>
  auto pruned(engine::early_exit& exit, generate::chosen_length deep) const {
    return hunch::drafter::pruned{whole<Nodes>(deep), exit, Kept};
  }
  template <class Drafter, class Rule>
  auto decoding(Drafter drafter, Rule rule) const {
    return hunch::decoder{where.target, std::move(drafter), hunch::selector::any<>(list),
                          text_sampler{}, std::move(rule)};
  }
  static std::string by_layers(const engine::early_exit& exit) {
    return "by the first " + std::to_string(exit.layers()) + " layers";
  }
  static constexpr const char* by_streams = "by the streams' own laws";
  template <std::int32_t Nodes, std::int32_t Kept>
  static std::string share() {
    return std::to_string(Kept) + " of " + std::to_string(Nodes) + " nodes ";
  }

  template <std::int32_t Nodes, std::int32_t Kept>
  void lengths(int t) const {
    const generate::any_length as_deep_as_can_be;
    const generate::chosen_length deep{&as_deep_as_can_be};
    const auto along = [&](const auto& drafter) {
      return mean(length_along_text(where, hunch::verifier::point_mass{}, static_cast<float>(t),
                                    [&](auto counting) { return decoding(drafter(), counting); }));
    };
    const double all = along([&] { return whole<Nodes>(deep); });
    const double small = along([&] { return whole<Kept>(deep); });
    const std::string row = "streaming" + at_temperature(t) + ": ";
    const std::string kept = row + share<Nodes, Kept>();
    out.add(row + std::to_string(Nodes) + " nodes, acceptance length along text", all, "tokens");
    out.add(kept + by_streams, small, "tokens");
    for (engine::early_exit& exit : exits) {
      const double left = along([&] { return pruned<Nodes, Kept>(exit, deep); });
      out.add(kept + by_layers(exit), left, "tokens");
      out.add(kept + by_layers(exit) + ", share of the length", left / all, "x", at_least(0.9));
    }
  }

  /// All write the text of plain decoding, and take turns with it.
  template <std::int32_t Nodes, std::int32_t Kept>
  void speeds(engine::early_exit& exit, int t) const {
    constexpr int rounds = 5;
    const generate::any_length as_deep_as_can_be;
    const generate::chosen_length deep{&as_deep_as_can_be};
    const hunch::verifier::coupled same_text;
    auto plain = decoding(hunch::drafter::none{}, same_text);
    auto all = decoding(whole<Nodes>(deep), same_text);
    auto small = decoding(whole<Kept>(deep), same_text);
    auto left = decoding(pruned<Nodes, Kept>(exit, deep), same_text);
    hunch::generation_options request;
    request.max_new_tokens = 96;
    request.temperature = static_cast<float>(t);
    const std::size_t texts = where.prompts.size();
    paired_rounds to_plain(texts), to_all(texts), to_small(texts);
    std::vector<double> rates;
    for (std::size_t text = 0; text < texts; ++text) {
      for (int round = 0; round < rounds; ++round) {
        request.seed = static_cast<std::uint64_t>(round + 1);
        const auto rate = [&](auto& decoder) {
          const auto nothing = [](auto&&...) {};
          const generate::run r =
              generate::run_requests(decoder, {where.prompts[text]}, request, 1, nothing, nothing);
          return r.rate();
        };
        const auto [of_left, of_plain, of_all, of_small] =
            take_turns<4>(round, {[&] { return rate(left); }, [&] { return rate(plain); },
                                  [&] { return rate(all); }, [&] { return rate(small); }});
        to_plain.add(text, of_left / of_plain);
        to_all.add(text, of_left / of_all);
        to_small.add(text, of_left / of_small);
        rates.push_back(of_left);
      }
    }
    const std::string row =
        "streaming" + at_temperature(t) + ": " + share<Nodes, Kept>() + by_layers(exit) + ", ";
    out.add(row + "mean acceptance length", left.stats().mean_acceptance_length(), "tokens");
    out.add(row + "tokens per second", mean(rates), "tok/s");
    out.add(row + "speed-up", to_plain.speed_up(), "x");
    out.add(row + "tokens per second / all " + std::to_string(Nodes), to_all.speed_up(), "x",
            at_least(1.0));
    out.add(row + "tokens per second / as many " + by_streams, to_small.speed_up(), "x");
  }
};

}  // namespace bench::drafters
