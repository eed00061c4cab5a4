// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <hunch/collective/collective.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/executor/detail/fiber.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/sharded.hpp>

namespace hunch::executor {

/// What a rank has exchanged.
struct shard_traffic {
  std::int64_t exchanges = 0;
  std::int64_t bytes = 0;  ///< that this rank has sent to each of the others
};

/// How ranks exchange.
struct sharded_options {
  /// Where an exchange takes longer than reading a few rows, as between machines, and not about a
  /// microsecond, as within one: as few as there can be. The bodies of a launch all go on side by
  /// side, and the laws of chains are made before a rule asks, in one exchange, if
  /// `decoder_options::eager_rows` does not say otherwise. Else so many go on side by side as have
  /// their rows in a processor's cache when they come back to them.
  bool few_exchanges = false;
};

/// Runs the bodies of one rank of several, among which the rows of the vocabulary are divided. All
/// ranks run the same steps; a body that reads such rows, which says so by `static constexpr bool
/// spans_ranks = true`, gets a `team::sharded`. Bodies of a launch go on side by side, each up to
/// what it needs of other ranks; then all that they have to say is one exchange. So they take as
/// many exchanges as the body that needs most.
///
/// What one rank throws in a launch, or in the target's pass (see `sharded_target`), ends the step
/// on all of them: the others throw a `collective_error` that names it, and all may repeat the
/// step. A rank that throws elsewhere says so with `fail`; else the others wait for their time-out.
///
/// Copies share what they exchange.
///
/// \tparam C a `Collective`, used by this and by nobody else while a launch runs. \tparam Host an
///         executor whose buffers the host reads, of one thread.
template <Collective C, Executor Host = host>
class sharded : public Host {
  static_assert(host_reads<step_memory<Host>>,
                "hunch: executor::sharded is for executors whose memory the host reads");

 public:
  static constexpr bool spans_ranks = true;

  /// \param collective and \param shards outlive the executor. \param options are the same on all
  /// ranks.
  sharded(C& collective, const vocab_shards& shards, const sharded_options& options = {},
          const Host& host = Host())
      : Host(host),
        collective_(&collective),
        shards_(&shards),
        options_(options),
        hub_(std::make_shared<hub>()) {}

  C& collective() { return *collective_; }
  const vocab_shards& shards() const { return *shards_; }
  const shard_traffic& traffic() const { return hub_->traffic; }
  bool few_exchanges() const { return options_.few_exchanges; }

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    if constexpr (team::spans_ranks<Body>) {
      hub_->begin();
      try {
        if (count == 1) {
          run_alone(body);
        } else {
          const std::int32_t most = side_by_side();
          for (std::int32_t first = 0; first < count; first += most) {
            run_side_by_side(first, std::min(count - first, most), body);
          }
        }
      } catch (const collective_error&) { throw; } catch (...) {
        collective_->fail();
        throw;
      }
    } else {
      Host::launch(count, body);
    }
  }

  /// In place of the next exchange, which all other ranks are about to begin: theirs throws.
  void fail() noexcept { collective_->fail(); }

 private:
  /// The messages of a round: those of all bodies that wait, one after the other, behind a word
  /// that tells whether the ranks are at the same place.
  struct hub {
    std::vector<std::uint64_t> sent;
    std::vector<std::uint64_t> received;  ///< [ranks, sent]
    std::uint64_t digest = 0;
    std::size_t last_words = 0;  ///< of the round whose messages are read
    shard_traffic traffic;
    std::vector<std::unique_ptr<detail::fiber>> fibers;
    bool failed = false;
    std::exception_ptr thrown;

    void begin() {
      sent.assign(1, 0);
      digest = 0;
    }
    void note(std::uint64_t what) { digest = (digest ^ what) * 0x9E3779B97F4A7C15u + 1; }

    void exchange(C& collective) {
      const std::size_t words = sent.size();
      sent[0] = digest;
      received.resize(words * static_cast<std::size_t>(collective.size()));
      collective.all_gather(sent.data(), words * sizeof(std::uint64_t), received.data());
      ++traffic.exchanges;
      traffic.bytes += static_cast<std::int64_t>(words * sizeof(std::uint64_t));
      for (std::int32_t r = 0; r < collective.size(); ++r) {
        if (received[static_cast<std::size_t>(r) * words] != digest) {
          throw collective_error("hunch::executor::sharded", collective_error::reason::mismatched,
                                 r, "its step is another one");
        }
      }
      last_words = words;
      sent.assign(1, 0);
    }
  };

  /// What a waiting body is told when the exchange has failed.
  struct exchange_failed {};

  /// The link of one body.
  class link {
   public:
    link(sharded& executor, std::int32_t index) : executor_(&executor), index_(index) {}

    std::uint64_t* outbox(std::int32_t words) {
      hub& all = *executor_->hub_;
      next_ = all.sent.size();
      all.sent.resize(next_ + static_cast<std::size_t>(words));
      return all.sent.data() + next_;
    }
    void exchange(team::serial&, std::int32_t words) {
      hub& all = *executor_->hub_;
      all.note(static_cast<std::uint64_t>(index_) << 32 | static_cast<std::uint32_t>(words));
      if (own_ == nullptr) {
        all.exchange(*executor_->collective_);
      } else {
        own_->wait();
        if (all.failed) { throw exchange_failed{}; }
      }
      at_ = next_;
    }
    const std::uint64_t* from(std::int32_t rank) const {
      const hub& all = *executor_->hub_;
      return all.received.data() + static_cast<std::size_t>(rank) * all.last_words + at_;
    }

    detail::fiber* own_ = nullptr;  ///< whose body it is; nullptr: there is no other

   private:
    sharded* executor_;
    std::int32_t index_;
    std::size_t next_ = 0;
    std::size_t at_ = 0;
  };

  template <class Body>
  void run(const Body& body, std::int32_t index, link& to_others) {
    team::serial inner;
    team::sharded<team::serial, link> team(inner, to_others, shards_->tiles());
    body(team, index);
  }

  template <class Body>
  void run_alone(const Body& body) {
    link to_others(*this, 0);
    run(body, 0, to_others);
  }

  template <class Body>
  struct task {
    sharded* executor;
    const Body* body;
    std::int32_t index;
    detail::fiber* on;

    static void start(void* what) {
      const task self = *static_cast<const task*>(what);  // whose place is the next one's
      link to_others(*self.executor, self.index);
      to_others.own_ = self.on;
      try {
        self.executor->run(*self.body, self.index, to_others);
      } catch (const exchange_failed&) {
      } catch (...) {
        if (!self.executor->hub_->thrown) {
          self.executor->hub_->thrown = std::current_exception();
        }
      }
    }
  };

  /// Bodies that go on side by side, at most: the same number on all ranks.
  std::int32_t side_by_side() const {
    if (options_.few_exchanges) { return std::numeric_limits<std::int32_t>::max(); }
    constexpr std::int64_t cached = 1 << 17;  // elements, half of a small second-level cache
    const std::int64_t row = team::tile_elements * std::int64_t{shards_->tiles().most_tiles};
    return static_cast<std::int32_t>(
        std::clamp(cached / std::max(row, std::int64_t{1}), std::int64_t{1}, cached));
  }

  template <class Body>
  void run_side_by_side(std::int32_t first, std::int32_t count, const Body& body) {
    hub& all = *hub_;
    all.failed = false;
    all.thrown = nullptr;
    std::size_t waiting = 0;  // the fibers up to it have a body that waits
    for (std::int32_t i = first; i < first + count; ++i) {
      if (waiting == all.fibers.size()) { all.fibers.push_back(std::make_unique<detail::fiber>()); }
      detail::fiber& next = *all.fibers[waiting];
      task<Body> of{this, &body, i, &next};
      next.start(&task<Body>::start, &of);
      waiting += next.waits() ? 1 : 0;
    }
    while (waiting > 0) {
      if (!all.thrown) {
        try {
          all.exchange(*collective_);
          all.digest = 0;
        } catch (...) { all.thrown = std::current_exception(); }
      }
      all.failed = all.thrown != nullptr;
      std::size_t left = 0;
      for (std::size_t f = 0; f < waiting; ++f) {
        all.fibers[f]->resume();
        if (all.fibers[f]->waits()) { std::swap(all.fibers[left++], all.fibers[f]); }
      }
      waiting = left;
    }
    if (all.thrown) { std::rethrow_exception(all.thrown); }
  }

  C* collective_;
  const vocab_shards* shards_;
  sharded_options options_;
  std::shared_ptr<hub> hub_;
};

}  // namespace hunch::executor
