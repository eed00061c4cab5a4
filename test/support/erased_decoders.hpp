// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/ring.hpp>
#include "enumerate.hpp"

/// \file
/// Decoders of all compositions as one type, so that what drives them, and what it checks, is
/// compiled once: of a composition there is nothing but its decoder.

namespace hunch::test {

/// A `decoder`.
class stepped_decoder {
 public:
  virtual request_id add(const request& r) = 0;
  virtual bool cancel(request_id id) = 0;
  virtual std::int32_t running() const = 0;
  virtual std::span<const emission> step() = 0;

 protected:
  ~stepped_decoder() = default;
};
template <class D>
class stepped_by final : public stepped_decoder {
 public:
  explicit stepped_by(D& of) : d_(&of) {}
  request_id add(const request& r) override { return d_->add(r.prompt, r.options); }
  bool cancel(request_id id) override { return d_->cancel(id); }
  std::int32_t running() const override { return d_->running(); }
  std::span<const emission> step() override { return d_->step(); }

 private:
  D* d_;
};

/// A `resident_decoder`.
class repeated_decoder {
 public:
  virtual request_id add(const request& r) = 0;
  virtual std::int32_t running() const = 0;
  virtual void run(std::int64_t steps) = 0;
  virtual void poll(std::vector<ring_entry>& to) = 0;

 protected:
  ~repeated_decoder() = default;
};
template <class D>
class repeated_by final : public repeated_decoder {
 public:
  explicit repeated_by(D& of) : d_(&of) {}
  request_id add(const request& r) override { return d_->add(r.prompt, r.options); }
  std::int32_t running() const override { return d_->running(); }
  void run(std::int64_t steps) override { d_->run(steps); }
  void poll(std::vector<ring_entry>& to) override {
    d_->poll([&](const ring_entry& e) { to.push_back(e); });
  }

 private:
  D* d_;
};

/// The texts of requests, and how each of them ended.
struct outcome {
  std::vector<text> texts;
  std::vector<finish_reason> ends;
  friend bool operator==(const outcome&, const outcome&) = default;
};

/// Adds requests as there is room for them among `batch`, and calls advance(take) until all have
/// ended: take(id, tokens, finish) is to be called with what comes out, and gives the end that the
/// request had before.
template <class Decoder, class Advance>
outcome outcome_as(Decoder& d, const std::vector<request>& requests, std::int32_t batch,
                   const Advance& advance) {
  outcome out{std::vector<text>(requests.size()),
              std::vector<finish_reason>(requests.size(), finish_reason::none)};
  std::map<request_id, std::size_t> of;
  std::size_t added = 0;
  while (added < requests.size() || d.running() > 0) {
    while (added < requests.size() && d.running() < batch) {
      of[d.add(requests[added])] = added;
      ++added;
    }
    advance([&](request_id id, std::span<const token> tokens, finish_reason finish) {
      const std::size_t r = of.at(id);
      out.texts[r].insert(out.texts[r].end(), tokens.begin(), tokens.end());
      return std::exchange(out.ends[r], finish);
    });
  }
  return out;
}

/// What requests write in a decoder that is stepped, `batch` at a time.
inline outcome outcome_of(stepped_decoder& d, const std::vector<request>& requests,
                          std::int32_t batch) {
  return outcome_as(d, requests, batch, [&](const auto& take) {
    for (const emission& e : d.step()) { take(e.id, e.tokens, e.finish); }
  });
}

/// The same in a resident loop, in runs of up to `steps` steps.
/// \param wait is called before what comes out is polled.
/// \throws std::logic_error if anything follows the end of a request.
template <class Wait>
outcome outcome_of(repeated_decoder& d, const std::vector<request>& requests, std::int32_t batch,
                   std::int64_t steps, const Wait& wait) {
  std::vector<ring_entry> entries;
  return outcome_as(d, requests, batch, [&](const auto& take) {
    d.run(steps);
    wait();
    entries.clear();
    d.poll(entries);
    for (const ring_entry& e : entries) {
      const finish_reason before =
          take(e.id, {&e.t, e.t != no_token ? std::size_t{1} : 0}, e.finish);
      if (before != finish_reason::none) {
        throw std::logic_error("something follows the end of a request");
      }
    }
  });
}
inline outcome outcome_of(repeated_decoder& d, const std::vector<request>& requests,
                          std::int32_t batch, std::int64_t steps) {
  return outcome_of(d, requests, batch, steps, [] {});
}

}  // namespace hunch::test
