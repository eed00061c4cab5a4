// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/generation.hpp>
#include "forking_source.hpp"
#include "reference.hpp"

namespace hunch::test {

/// One request of an enumerated run.
struct request {
  text prompt;
  generation_options options;
  std::int32_t arrives = 0;  ///< before which step it is added
};

/// What replaying all tapes found.
struct enumeration {
  law_of_texts law;    ///< of the emitted tokens and errors; several requests are joined by -1
  double total = 0.0;  ///< of all probabilities
  double steps = 0.0;  ///< expected decoding steps, summed over the requests
  std::int64_t tapes = 0;
};

inline constexpr std::int64_t max_tapes = 2'000'000;

/// Joins the texts of a batch to one key.
inline text join(const std::vector<text>& texts) {
  text key = texts[0];
  for (std::size_t r = 1; r < texts.size(); ++r) {
    key.push_back(-1);
    key.insert(key.end(), texts[r].begin(), texts[r].end());
  }
  return key;
}

/// Runs the requests to their ends; what each of them emitted, and its error. `after_step` is
/// called with what a step returned.
template <class Decoder, class AfterStep>
void run_requests(Decoder& decoder, const std::vector<request>& requests, std::vector<text>& texts,
                  AfterStep&& after_step) {
  std::vector<request_id> ids(requests.size(), 0);
  texts.assign(requests.size(), {});
  std::size_t open = requests.size();
  for (std::int32_t step = 0; open > 0; ++step) {
    for (std::size_t r = 0; r < requests.size(); ++r) {
      if (requests[r].arrives == step) {
        ids[r] = decoder.add(requests[r].prompt, requests[r].options);
      }
    }
    const auto emissions = decoder.step();
    for (const emission& e : emissions) {
      const auto r = static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin());
      texts[r].insert(texts[r].end(), e.tokens.begin(), e.tokens.end());
      if ((e.finish == finish_reason::error) != (e.status != status::ok)) {
        throw std::logic_error("a status without an error, or an error without a status");
      }
      if (e.status != status::ok) { texts[r].push_back(error_mark(e.status)); }
      open -= e.finish != finish_reason::none ? 1 : 0;
    }
    after_step(emissions);
    if (step > 1000) { throw std::logic_error("a run makes no progress"); }
  }
}

/// Replays the requests over every tape of `source`, which the decoder holds a handle of. The same
/// decoder serves all runs, so slots and caches are used again and again.
template <class Decoder, class Source = forking_source>
enumeration enumerate(Decoder& decoder, const Source& source,
                      const std::vector<request>& requests) {
  enumeration result;
  std::vector<text> texts;
  source.rewind();
  do {
    std::int64_t steps = 0;
    run_requests(decoder, requests, texts,
                 [&](const auto& emissions) { steps += std::ssize(emissions); });
    result.law[join(texts)] += source.probability();
    result.total += source.probability();
    result.steps += source.probability() * static_cast<double>(steps);
    if (++result.tapes > max_tapes) { throw std::logic_error("too many tapes: shrink the case"); }
  } while (source.next());
  return result;
}

/// The reference for `enumerate`: independent requests, each by the autoregressive law.
inline law_of_texts joint_law(const toy_world& world, const std::vector<request>& requests,
                              std::string (*bytes)(token) = nullptr) {
  law_of_texts joint;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const law_of_texts own =
        autoregressive_law(world, requests[r].options, requests[r].prompt, {}, bytes);
    if (r == 0) {
      joint = own;
      continue;
    }
    law_of_texts product;
    for (const auto& [a, p] : joint) {
      for (const auto& [b, q] : own) { product[join({a, b})] += p * q; }
    }
    joint = std::move(product);
  }
  return joint;
}

}  // namespace hunch::test
