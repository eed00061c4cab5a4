// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/decoder/resident_decoder.hpp>
#include "reference.hpp"

namespace hunch::test {

/// Makes a resident decoder step, as enumerations want it.
template <class Decoder>
struct stepping {
  static constexpr bool lossless = Decoder::lossless;
  Decoder* d;
  std::vector<text> texts;
  std::vector<std::vector<origin>> origins;
  std::vector<emission> emissions;

  request_id add(const text& prompt, const generation_options& options) {
    return d->add(prompt, options);
  }
  const std::vector<emission>& step() {
    d->run(1);
    std::map<request_id, text> of;
    std::map<request_id, std::vector<origin>> from;
    std::map<request_id, ring_entry> last;
    d->poll([&](const ring_entry& e) {
      text& tokens = of[e.id];
      if (e.t != no_token) {
        tokens.push_back(e.t);
        from[e.id].push_back(e.origin);
      }
      if ((e.t == no_token) != (e.finish == finish_reason::error)) {
        throw std::logic_error("an entry without a token, or an error with one");
      }
      last[e.id] = e;
    });
    texts.clear();
    origins.clear();
    emissions.clear();
    texts.reserve(of.size());
    origins.reserve(of.size());
    for (auto& [id, tokens] : of) {
      texts.push_back(std::move(tokens));
      origins.push_back(std::move(from[id]));
      emissions.push_back(
          {id, texts.back(), origins.back(), last[id].finish, last[id].status, 0, {}});
    }
    return emissions;
  }
};

}  // namespace hunch::test
