// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/model.hpp>
#include <engine/tokenizer.hpp>
#include <generate/draft_length.hpp>
#include <generate/measure.hpp>
#include <hunch/hunch.hpp>

#include "common.hpp"
#include "prompts.hpp"

/// \file
/// What a drafter gives: how many tokens a step makes, and how fast they come.

namespace bench::drafters {

using hunch::generation_options;
using hunch::token;

using text_sampler = hunch::sampler::pipeline<hunch::sampler::temperature>;
inline constexpr int temperatures = 2;  ///< T = 0 and T = 1
inline constexpr std::int32_t longest_draft = 6;
inline constexpr std::size_t places = 64;  ///< of drafts along a text

/// Draft heads over a list of the most frequent tokens have one in so many of the vocabulary.
inline constexpr std::int32_t listed_part = 20;

/// Of the weights in a folder.
inline double stored_bytes(const std::filesystem::path& folder) {
  double sum = 0.0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".safetensors") { sum += static_cast<double>(file.file_size()); }
  }
  return sum;
}

/// What all drafters are measured on.
struct setting {
  engine::model& target;
  std::vector<std::string> domains;
  std::vector<std::vector<token>> prompts;  ///< one per domain
  std::vector<std::vector<token>> texts;    ///< held out, one per domain
};

/// By the held-out texts in a folder.
inline setting setting_of(engine::model& target, const engine::tokenizer& text,
                          const std::filesystem::path& heldout) {
  return {target, domains(heldout), domain_prompts(text, heldout), domain_texts(text, heldout)};
}

/// Verifies the same draft many times, with other random words: what a rule accepts of it on the
/// mean. The last verdict is the one that counts.
template <class V>
struct repeated {
  static constexpr bool lossless = V::lossless;
  static constexpr bool needs_draft_law = V::needs_draft_law;
  static constexpr bool needs_greedy = V::needs_greedy;
  static constexpr bool shares_noise = V::shares_noise;
  static constexpr bool accepts(hunch::child_law children, bool is_chain) {
    return V::accepts(children, is_chain);
  }

  V rule;
  double* accepted = nullptr;  ///< out: the mean of the last draft

  template <hunch::Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, hunch::verdict& out) const {
    constexpr int times = 64;
    double sum = 0.0;
    const std::uint64_t seed = view.seed;
    for (int i = 0; i < times; ++i) {
      hunch::verdict v = out;
      rule(team, view.with_seed(seed + (static_cast<std::uint64_t>(i) << 40)), random, v);
      sum += v.accepted;
    }
    *accepted = sum / times;
    rule(team, view, random, out);
  }
};

/// The mean acceptance length of one step after held-out text, per domain: given its draft, the
/// mean over the rule's own choices. It is the second step, since some drafters need what the
/// target made of the first.
/// \param make makes a decoder, given its rule.
template <class V, class Make>
std::vector<double> length_along_text(const setting& where, V rule, float temperature,
                                      const Make& make) {
  constexpr std::size_t context = 64;  ///< tokens that are read before each draft
  double accepted = 0.0;
  auto decoder = make(repeated<V>{rule, &accepted});
  generation_options request;
  request.max_new_tokens = 2 + 2 * decltype(decoder)::max_nodes;  // two whole drafts
  request.temperature = temperature;
  std::vector<double> lengths;
  for (const std::vector<token>& text : where.texts) {
    double sum = 0.0;
    for (std::size_t place = 0; place < places; ++place) {
      const std::size_t first = (text.size() - context) * place / places;
      request.seed = place;
      decoder.reset_stats();
      const auto id = decoder.add(std::span(text).subspan(first, context), request);
      while (decoder.stats().steps < 1) { decoder.step(); }
      accepted = 0.0;  // where the first step ended the text
      if (decoder.is_running(id)) { decoder.step(); }
      sum += 1.0 + accepted;
      decoder.cancel(id);
    }
    lengths.push_back(sum / static_cast<double>(places));
  }
  return lengths;
}

/// What a drafter costs on this machine: medians over the prompts, so that what disturbs one
/// measurement does not decide how deep drafts are.
template <class Decoder>
generate::costs costs_over(Decoder& speculative, const std::vector<std::vector<token>>& prompts,
                           const generation_options& request) {
  std::vector<generate::costs> all;
  for (const std::vector<token>& prompt : prompts) {
    all.push_back(
        generate::calibrate(speculative, std::vector<std::vector<token>>{prompt}, request, 1));
  }
  const auto middle = [&](const auto& value) {
    std::vector<double> values;
    for (const generate::costs& c : all) { values.push_back(value(c)); }
    return median(values);
  };
  generate::costs out;
  out.alpha = middle([](const generate::costs& c) { return c.alpha; });
  out.draft = middle([](const generate::costs& c) { return c.draft; });
  std::vector<double> rows;
  const auto known = std::min(Decoder::max_nodes, hunch::planner::row_costs::capacity);
  for (std::int32_t n = 1; n <= known; ++n) {
    rows.push_back(middle([n](const generate::costs& c) { return c.rows.at(n); }));
  }
  out.rows = rows;
  return out;
}

/// Of one drafter at one temperature; a number per domain.
struct speeds {
  std::vector<double> speed_up;   ///< over plain decoding, in turn with it
  std::vector<double> predicted;  ///< from measured costs and acceptance
  std::vector<double> rate;       ///< tokens per second
  std::vector<double> length;     ///< mean acceptance length
  std::vector<double> repeated;   ///< share of repeated 4-grams
};

/// Runs a speculative decoder in turn with plain decoding, its drafts as deep as pays.
/// \param choice what the length policy of its drafter refers to.
template <class Decoder>
speeds measure_speed(const setting& where, Decoder& speculative, generate::any_length& choice,
                     float temperature, const std::vector<std::vector<token>>& prompts) {
  constexpr int rounds = 5;
  const auto nothing = [](auto&&...) {};
  hunch::decoder plain{where.target, hunch::drafter::none{},
                       hunch::selector::full{where.target.vocab_size()}, text_sampler{},
                       hunch::verifier::rejection{}};
  generation_options request;
  request.max_new_tokens = 96;
  request.temperature = temperature;
  speeds all;
  const generate::costs cost = costs_over(speculative, prompts, request);
  for (const std::vector<token>& prompt : prompts) {
    const std::vector<std::vector<token>> asked{prompt};
    choice = {};
    hunch::length::meter meter(generate::levels_of<Decoder>);
    generate::calibrate(meter, speculative, asked, request, 1);
    generate::forecast expected;
    choice = cost.policy();
    std::vector<double> ratios, rates;
    double repeats = 0.0;
    for (int round = 0; round < rounds; ++round) {
      request.seed = static_cast<std::uint64_t>(1 + round);
      const generate::run s =
          generate::run_learning(meter, speculative, asked, request, 1, nothing, expected);
      const generate::run p = generate::run_requests(plain, asked, request, 1, nothing, nothing);
      rates.push_back(s.rate());
      ratios.push_back(s.rate() / p.rate());
      repeats += generate::repeated_4grams(s.tokens[0]) / rounds;
    }
    choice = {};
    all.speed_up.push_back(median(ratios));
    all.rate.push_back(median(rates));
    all.predicted.push_back(expected.gain());
    all.length.push_back(speculative.stats().mean_acceptance_length());
    all.repeated.push_back(repeats);
  }
  return all;
}

/// Of one drafter, means over the domains, per temperature.
struct measured {
  std::array<double, temperatures> along_text{};
  std::array<double, temperatures> in_generation{};
  std::array<double, temperatures> speed_up{};
};

/// Adds the rows of one drafter.
/// \param make(rule, length) makes a decoder of batch size one of a rule and a length policy.
/// \param extra bytes that are stored for the drafter besides the target.
template <class V, class Make>
measured measure(report& out, const setting& where, const std::string& name, double extra, V rule,
                 const Make& make) {
  measured all;
  for (int t = 0; t < temperatures; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const auto temperature = static_cast<float>(t);
    const generate::any_length as_deep_as_can_be;
    all.along_text[at] = mean(length_along_text(where, rule, temperature, [&](auto counting) {
      return make(counting, generate::chosen_length{&as_deep_as_can_be});
    }));
    generate::any_length choice;
    auto decoder = make(rule, generate::chosen_length{&choice});
    const speeds s = measure_speed(where, decoder, choice, temperature, where.prompts);
    all.in_generation[at] = mean(s.length);
    all.speed_up[at] = mean(s.speed_up);
    const std::string row = name + at_temperature(t) + ": ";
    out.add(row + "mean acceptance length along text", all.along_text[at], "tokens");
    out.add(row + "mean acceptance length", all.in_generation[at], "tokens");
    out.add(row + "tokens per second", mean(s.rate), "tok/s");
    out.add(row + "speed-up", all.speed_up[at], "x");
    out.add(row + "speed-up predicted", mean(s.predicted), "x");
    out.add(row + "repeated 4-grams", mean(s.repeated), "");
    for (std::size_t d = 0; d < where.domains.size(); ++d) {
      out.record(row + where.domains[d] + ", speed-up", s.speed_up[d], "x");
    }
  }
  out.add(name + ": extra bytes stored", extra / 1e6, "MB");
  return all;
}

/// A selector and what it is called.
struct named_list {
  std::string name;
  hunch::selector::any<> list;
};

/// A number for each of some lists, per temperature.
using list_speeds = std::array<std::vector<double>, temperatures>;

/// Tokens per second over plain decoding of one drafter with each of `lists`, which take turns: per
/// temperature the means over the domains. All write the same text, see `compare_lengths`.
/// \param prepare(list) is called before the drafter is used with a list.
/// \param make(list, length) makes decoders with `verifier::coupled`.
template <class Prepare, class Make>
list_speeds compare_lists(report& out, const setting& where, const std::string& name,
                          const std::vector<named_list>& lists, const Prepare& prepare,
                          const Make& make) {
  constexpr int rounds = 3;
  const auto nothing = [](auto&&...) {};
  generate::any_length choice;
  using decoder = decltype(make(lists[0].list, generate::chosen_length{&choice}));
  std::vector<std::unique_ptr<decoder>> decoders;
  for (const named_list& l : lists) {
    prepare(l.list);
    decoders.emplace_back(new decoder(make(l.list, generate::chosen_length{&choice})));
  }
  hunch::decoder plain{where.target, hunch::drafter::none{},
                       hunch::selector::full{where.target.vocab_size()}, text_sampler{},
                       hunch::verifier::rejection{}};
  list_speeds speed_up;
  for (int t = 0; t < temperatures; ++t) {
    std::vector<double>& of = speed_up[static_cast<std::size_t>(t)];
    of.resize(lists.size());
    generation_options request;
    request.max_new_tokens = 128;
    request.temperature = static_cast<float>(t);
    std::vector<generate::costs> costs;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      prepare(lists[i].list);
      choice = {};
      costs.push_back(costs_over(*decoders[i], where.prompts, request));
    }
    for (const std::vector<token>& prompt : where.prompts) {
      const std::vector<std::vector<token>> asked{prompt};
      std::vector<double> time(lists.size()), tokens(lists.size());
      double plain_time = 0.0, plain_tokens = 0.0;
      for (int round = 0; round < rounds; ++round) {
        request.seed = static_cast<std::uint64_t>(round + 1);
        const generate::run p = generate::run_requests(plain, asked, request, 1, nothing, nothing);
        plain_time += p.time;
        plain_tokens += static_cast<double>(p.timed);
        for (std::size_t i = 0; i < lists.size(); ++i) {
          prepare(lists[i].list);
          choice = costs[i].policy();
          const generate::run r =
              generate::run_requests(*decoders[i], asked, request, 1, nothing, nothing);
          time[i] += r.time;
          tokens[i] += static_cast<double>(r.timed);
        }
      }
      choice = {};
      for (std::size_t i = 0; i < lists.size(); ++i) {
        of[i] += tokens[i] / time[i] * plain_time / plain_tokens /
                 static_cast<double>(where.prompts.size());
      }
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
      out.record(name + ", " + lists[i].name + at_temperature(t) + ": speed-up", of[i], "x");
    }
  }
  return speed_up;
}

/// Adds the rows of drafts of 1 to `longest_draft` levels and of as many as pay, which take turns,
/// and how near the latter comes to the best of the former in the domain where that is least.
/// \param make makes decoders with `verifier::coupled`: then the text is the same whatever the
///        length, and lengths are not told apart by what they happened to write.
template <class Make>
void compare_lengths(report& out, const setting& where, const std::string& name, const Make& make) {
  constexpr int rounds = 5;
  constexpr std::size_t lengths = longest_draft + 1;  // the last one is by cost
  const auto nothing = [](auto&&...) {};
  generate::any_length choice;
  auto decoder = make(generate::chosen_length{&choice});
  hunch::decoder plain{where.target, hunch::drafter::none{},
                       hunch::selector::full{where.target.vocab_size()}, text_sampler{},
                       hunch::verifier::rejection{}};
  for (int t = 0; t < temperatures; ++t) {
    generation_options request;
    request.max_new_tokens = 256;
    request.temperature = static_cast<float>(t);
    std::array<std::vector<double>, lengths> rates;  // per domain
    std::array<double, lengths> accepted{}, steps{};
    double least = 2.0;
    choice = {};
    const generate::costs cost = costs_over(decoder, where.prompts, request);
    for (std::size_t d = 0; d < where.prompts.size(); ++d) {
      const std::vector<std::vector<token>> asked{where.prompts[d]};
      std::array<double, lengths> time{}, tokens{};
      for (int round = 0; round < rounds; ++round) {
        request.seed = static_cast<std::uint64_t>(round + 1);
        for (std::size_t i = 0; i < lengths; ++i) {
          if (i + 1 < lengths) {
            choice = {};
            decoder.draft_length(static_cast<std::int32_t>(i + 1));
          } else {
            choice = cost.policy();
            decoder.draft_length(longest_draft);
          }
          decoder.reset_stats();
          const generate::run r =
              generate::run_requests(decoder, asked, request, 1, nothing, nothing);
          time[i] += r.time;
          tokens[i] += static_cast<double>(r.timed);
          steps[i] += static_cast<double>(decoder.stats().steps);
          accepted[i] += static_cast<double>(decoder.stats().accepted);
        }
      }
      choice = {};
      double best = 0.0;
      for (std::size_t i = 0; i < lengths; ++i) {
        rates[i].push_back(tokens[i] / time[i]);
        if (i + 1 < lengths) { best = std::max(best, rates[i].back()); }
      }
      const double share = rates.back().back() / best;
      out.record(
          name + at_temperature(t) + ": " + where.domains[d] + ", by cost / best fixed length",
          share, "x");
      least = std::min(least, share);
    }
    for (std::size_t i = 0; i < lengths; ++i) {
      const std::string row =
          name + (i + 1 < lengths ? ", drafts of " + std::to_string(i + 1) : ", drafts by cost") +
          at_temperature(t) + ": ";
      out.add(row + "mean acceptance length", 1.0 + accepted[i] / steps[i], "tokens");
      out.add(row + "tokens per second", mean(rates[i]), "tok/s");
    }
    out.add(name + at_temperature(t) + ": by cost / best fixed length, worst domain", least, "x",
            at_least(0.95));
  }
}

}  // namespace bench::drafters
