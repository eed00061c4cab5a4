// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <engine/model.hpp>
#include <generate/draft_length.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"

/// \file
/// What a drafter gives: how many tokens a step makes, and how fast they come.

namespace bench::drafters {

using hunch::generation_options;
using hunch::token;

using text_sampler = hunch::sampler::pipeline<hunch::sampler::temperature>;
inline constexpr int temperatures = 2;  ///< T = 0 and T = 1
inline constexpr std::int32_t longest_draft = 6;

/// What all drafters are measured on.
struct setting {
  engine::model& target;
  std::vector<std::vector<token>> prompts;  ///< one per domain
  std::vector<std::vector<token>> texts;    ///< held out, one per domain
};

/// Of one drafter, per temperature; means over the domains.
struct measured {
  std::array<double, temperatures> forced{};    ///< acceptance length along held-out text
  std::array<double, temperatures> length{};    ///< and in generation
  std::array<double, temperatures> speed_up{};  ///< over plain decoding, in turn with it
};

inline std::string at_temperature(int t) { return ", T = " + std::to_string(t) + ": "; }

/// The mean number of tokens that one step makes behind held-out text. It is the second step, since
/// some drafters need what the target made of the first. Drafts are as long as the decoder allows.
template <class Decoder>
double forced_length(Decoder& decoder, const std::vector<std::vector<token>>& texts,
                     float temperature) {
  constexpr std::size_t behind = 96;  ///< tokens that are read before each draft
  constexpr std::size_t places = 24;  ///< in each text
  generation_options request;
  request.max_new_tokens = 3 + Decoder::max_nodes;
  request.temperature = temperature;
  double sum = 0.0;
  for (const std::vector<token>& text : texts) {
    for (std::size_t place = 0; place < places; ++place) {
      const std::size_t first = (text.size() - behind) * place / places;
      request.seed = place;
      decoder.reset_stats();
      const auto id = decoder.add(std::span(text).subspan(first, behind), request);
      while (decoder.stats().steps < 1) { decoder.step(); }
      const std::int64_t before = decoder.stats().accepted;
      if (decoder.is_running(id)) { decoder.step(); }
      sum += static_cast<double>(1 + decoder.stats().accepted - before);
      decoder.cancel(id);
    }
  }
  decoder.reset_stats();
  return sum / static_cast<double>(texts.size() * places);
}

/// Adds the rows of one drafter. `make(length)` makes a decoder of batch size one whose drafter has
/// the length policy `length`. \param extra_bytes of weights that the drafter needs besides the
/// target's.
template <class Make>
measured measure(report& out, const setting& where, const std::string& name,
                 std::size_t extra_bytes, const Make& make) {
  constexpr std::int32_t rounds = 2;
  const auto nothing = [](auto&&...) {};
  generate::any_length choice;
  auto speculative = make(generate::chosen_length{&choice});
  hunch::decoder plain{where.target, hunch::drafter::none{},
                       hunch::selector::full{where.target.vocab_size()}, text_sampler{},
                       hunch::verifier::rejection{}};
  measured all;
  const auto domains = static_cast<double>(where.prompts.size());
  for (int t = 0; t < temperatures; ++t) {
    const auto at = static_cast<std::size_t>(t);
    generation_options request;
    request.max_new_tokens = 96;
    request.temperature = static_cast<float>(t);
    request.seed = 1;
    choice = {};
    all.forced[at] = forced_length(speculative, where.texts, request.temperature);
    double fast = 0.0, slow = 0.0, predicted = 0.0, repeated = 0.0;
    for (const std::vector<token>& prompt : where.prompts) {
      const std::vector<std::vector<token>> asked{prompt};
      choice = {};
      const generate::costs cost =
          generate::calibrate(where.target, plain, speculative, asked, request, 1);
      choice = cost.policy();
      const generate::comparison both = generate::compare(
          [&](const auto& o, auto&& on_token) {
            return generate::run_requests(plain, asked, o, 1, nothing, on_token);
          },
          [&](const auto& o, auto&& on_token) {
            return generate::run_requests(speculative, asked, o, 1, nothing, on_token);
          },
          request, 1, rounds, nothing);
      choice = {};
      fast += 1.0 / both.rate;
      slow += 1.0 / both.plain_rate;
      predicted += generate::predicted_gain(cost, speculative.stats()) / domains;
      all.length[at] += speculative.stats().mean_acceptance_length() / domains;
      repeated += generate::repeated_4grams(both.first.tokens[0]) / domains;
    }
    all.speed_up[at] = slow / fast;
    const std::string row = name + at_temperature(t);
    out.add(row + "mean acceptance length along text", all.forced[at], "tokens");
    out.add(row + "mean acceptance length", all.length[at], "tokens");
    out.add(row + "tokens per second", domains / fast, "tok/s");
    out.add(row + "speed-up", all.speed_up[at], "x");
    out.add(row + "speed-up predicted", predicted, "x");
    out.add(row + "repeated 4-grams", repeated, "");
  }
  out.add(name + ": extra weights", static_cast<double>(extra_bytes) / 1e6, "MB");
  return all;
}

/// Adds the rows of drafts of 1 to `longest_draft` levels: the lengths take turns.
template <class Make>
void sweep(report& out, const setting& where, const std::string& name, const Make& make) {
  constexpr int rounds = 2;
  const auto nothing = [](auto&&...) {};
  const generate::any_length choice;
  auto decoder = make(generate::chosen_length{&choice});
  for (int t = 0; t < temperatures; ++t) {
    generation_options request;
    request.max_new_tokens = 64;
    request.temperature = static_cast<float>(t);
    std::array<generate::run, longest_draft> timed;
    std::array<double, longest_draft> tokens{};
    std::array<double, longest_draft> steps{};
    for (int round = 0; round < rounds; ++round) {
      request.seed = static_cast<std::uint64_t>(round + 1);
      for (const std::vector<token>& prompt : where.prompts) {
        for (std::size_t i = 0; i < timed.size(); ++i) {
          decoder.draft_length(static_cast<std::int32_t>(i + 1));
          decoder.reset_stats();
          const generate::run r =
              generate::run_requests(decoder, {prompt}, request, 1, nothing, nothing);
          timed[i].time += r.time;
          timed[i].timed += r.timed;
          steps[i] += static_cast<double>(decoder.stats().steps);
          tokens[i] +=
              static_cast<double>(decoder.stats().steps) * decoder.stats().mean_acceptance_length();
        }
      }
    }
    for (std::size_t i = 0; i < timed.size(); ++i) {
      const std::string row = name + ", drafts of " + std::to_string(i + 1) + at_temperature(t);
      out.add(row + "mean acceptance length", tokens[i] / steps[i], "tokens");
      out.add(row + "tokens per second", static_cast<double>(timed[i].timed) / timed[i].time,
              "tok/s");
    }
  }
}

}  // namespace bench::drafters
