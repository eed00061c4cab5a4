// SPDX-License-Identifier: Apache-2.0
// Ranks that write to each other's memory, as devices do, by host threads: each rank is a team of
// several, and a thread sanitizer sees what they share.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/collective/none.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/team/mailboxes.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/sharded.hpp>
#include <hunch/team/simulated.hpp>
#include "on_ranks.hpp"

namespace hunch::test::mailboxes_test {
namespace {

struct left_body : std::runtime_error {
  left_body() : std::runtime_error("left") {}
};

template <class T>
struct thread_on_host {
  T* team;
  std::int32_t body;

  std::int32_t rank() const { return team->rank(); }
  std::int32_t size() const { return team->size(); }
  void sync() const { team->sync(); }
  std::int32_t box() const { return body; }
  static void put(std::uint64_t* to, std::uint64_t a, std::uint64_t b) {
    std::atomic_ref<std::uint64_t>(to[0]).store(a, std::memory_order_relaxed);
    std::atomic_ref<std::uint64_t>(to[1]).store(b, std::memory_order_relaxed);
  }
  static void get(const std::uint64_t* from, std::uint64_t& a, std::uint64_t& b) {
    auto* const words = const_cast<std::uint64_t*>(from);
    a = std::atomic_ref<std::uint64_t>(words[0]).load(std::memory_order_relaxed);
    b = std::atomic_ref<std::uint64_t>(words[1]).load(std::memory_order_relaxed);
  }
  static void fence() {  // a sanitizer knows no others
    static std::atomic<int> all{0};
    all.fetch_add(1);
  }
  template <class Ready>
  static bool await(const Ready& ready, std::uint64_t patience) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience);
    bool in_time = true;
    const auto over = [&] {
      if (ready()) { return true; }
      in_time = std::chrono::steady_clock::now() < end;
      if (in_time) { std::this_thread::yield(); }
      return !in_time;
    };
    if constexpr (team::is_one_thread<T>) {
      while (!over()) {}
    } else {
      team::detail::wait_until(over);
    }
    return in_time;
  }
  [[noreturn]] static void leave() { throw left_body(); }
};

/// What all ranks have, as devices would.
class machines {
 public:
  machines(std::int32_t ranks, std::int32_t boxes, std::uint32_t first_round = 0)
      : ranks_(ranks), boxes_(boxes) {
    for (std::int32_t r = 0; r < ranks; ++r) {
      shared_.emplace_back(team::mailboxes::words(ranks, boxes), std::uint64_t{0});
      own_.emplace_back(team::mailboxes::message_words(ranks, boxes), std::uint64_t{0});
      rounds_.emplace_back(static_cast<std::size_t>(boxes), first_round);
      reports_.emplace_back(2, std::uint64_t{0});
      reach_.push_back(shared_.back().data());
    }
  }

  team::mailboxes of(std::int32_t rank,
                     std::chrono::nanoseconds patience = std::chrono::seconds(60)) {
    const auto r = static_cast<std::size_t>(rank);
    return {.of_ranks = reach_.data(),
            .rounds = rounds_[r].data(),
            .messages = own_[r].data(),
            .ranks = ranks_,
            .rank = rank,
            .patience = static_cast<std::uint64_t>(patience.count()),
            .broken = reports_[r].data(),
            .reported = reports_[r].data() + 1};
  }
  std::int32_t boxes() const { return boxes_; }

  /// Leaves words of rounds with these numbers everywhere, as after so many rounds that they are
  /// about to come again.
  void leave_words_of(std::uint32_t even, std::uint32_t odd) {
    for (std::vector<std::uint64_t>& of : shared_) {
      const auto side = static_cast<std::size_t>(team::mailboxes::words_of_side(ranks_));
      for (std::size_t i = 0; i < of.size(); ++i) {
        of[i] = std::uint64_t{i / side % 2 == 0 ? even : odd} << 32 | 77;
      }
    }
  }

  /// body(team, others, rank, index) on all ranks, by teams of so many threads.
  template <class Body>
  void launch(std::int32_t threads, const Body& body) {
    std::vector<std::thread> ranks;
    for (std::int32_t r = 0; r < ranks_; ++r) {
      ranks.emplace_back([&, r] {
        const team::mailboxes boxes = of(r);
        std::vector<std::thread> bodies;  // side by side, in whatever order
        for (std::int32_t b = 0; b < boxes_; ++b) {
          bodies.emplace_back([&, b] {
            team::mailbox_storage storage;
            team::simulated::launch(threads, 1, [&](team::simulated& team, std::int32_t) {
              using thread = thread_on_host<team::simulated>;
              team::mailbox_link<thread> others(thread{&team, b}, storage, boxes);
              body(team, others, r, b);
            });
          });
        }
        for (std::thread& t : bodies) { t.join(); }
      });
    }
    for (std::thread& t : ranks) { t.join(); }
  }

 private:
  std::int32_t ranks_;
  std::int32_t boxes_;
  std::deque<std::vector<std::uint64_t>> shared_;
  std::deque<std::vector<std::uint64_t>> own_;
  std::deque<std::vector<std::uint32_t>> rounds_;
  std::deque<std::vector<std::uint64_t>> reports_;
  std::vector<std::uint64_t*> reach_;
};

std::uint64_t word_of(std::int32_t rank, std::int32_t box, std::int32_t message, std::int64_t k) {
  std::uint64_t x = static_cast<std::uint64_t>(rank) << 60 | static_cast<std::uint64_t>(box) << 50 |
                    static_cast<std::uint64_t>(message) << 32 | static_cast<std::uint64_t>(k);
  x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
  return x ^ x >> 29;
}

/// Messages of all lengths, of which all ranks check every word.
void exchange_messages(machines& all, std::int32_t ranks, std::int32_t threads,
                       std::int32_t launches) {
  const std::int32_t lengths[] = {1,   2,   33,  128, 129, 170,  171,  255, 256, 257,
                                  512, 513, 700, 2,   1,   2049, 4096, 3,   300, 1};
  std::atomic<std::int64_t> wrong{0};
  std::atomic<std::int64_t> seen{0};
  for (std::int32_t launch = 0; launch < launches; ++launch) {
    all.launch(threads, [&](auto& team, auto& others, std::int32_t rank, std::int32_t box) {
      for (std::int32_t m = 0; m < static_cast<std::int32_t>(std::size(lengths)); ++m) {
        const std::int32_t words = lengths[m];
        std::uint64_t* const out = others.outbox(words);
        for (std::int32_t k = team.rank(); k < words; k += team.size()) {
          out[k] = word_of(rank, box, launch * 100 + m, k);
        }
        others.exchange(team, words);
        // Every thread reads all of it.
        std::int64_t faults = 0;
        for (std::int32_t r = 0; r < ranks; ++r) {
          for (std::int32_t k = 0; k < words; ++k) {
            faults += others.from(r)[k] != word_of(r, box, launch * 100 + m, k);
          }
        }
        wrong += faults;
        ++seen;
      }
    });
  }
  CHECK(wrong == 0);
  CHECK(seen == std::int64_t{launches} * ranks * all.boxes() * threads *
                    static_cast<std::int64_t>(std::size(lengths)));
}

using stages = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;

/// What is found of a row: a law, what is drawn from it, its entropy.
template <Team T>
std::vector<double> look_at(T& team, row_view<float> row, const sampling_parameters& parameters) {
  std::vector<double> found;
  const law<float> l = stages{}(team, row, parameters, row_history{});
  found.push_back(static_cast<double>(l.norm));
  found.push_back(static_cast<double>(l.threshold));
  found.push_back(l.last_kept);
  const random_source<> random;
  for (std::uint32_t k = 0; k < 3; ++k) {
    const address a{.seed = 7 + k, .length = k, .what = purpose::bonus};
    found.push_back(
        static_cast<double>(random.categorical(team, a, l.size(), weights_of<law<float>>{l})));
    found.push_back(random.noisy_argmax(team, noise_address(k, k), l));
  }
  found.push_back(static_cast<double>(kernel::entropy(team, l)));
  return found;
}

/// As long as a `vocab_shards` of each rank would be a view of.
struct divided {
  std::vector<std::int32_t> first_tile;
  std::int32_t vocab;

  team::row_shards of(std::int32_t rank) const {
    std::int32_t most = 0;
    for (std::size_t r = 1; r < first_tile.size(); ++r) {
      most = std::max(most, first_tile[r] - first_tile[r - 1]);
    }
    return {.first_tile = first_tile.data(),
            .ranks = static_cast<std::int32_t>(first_tile.size()) - 1,
            .rank = rank,
            .most_tiles = most,
            .size = vocab};
  }
};

void compare_rows(const divided& shards, std::int32_t threads, std::uint32_t first_round) {
  const auto ranks = static_cast<std::int32_t>(shards.first_tile.size()) - 1;
  const std::int32_t count = 4;
  std::vector<std::vector<float>> rows(count);
  std::vector<sampling_parameters> parameters(count);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  for (std::vector<float>& row : rows) {
    for (std::int32_t v = 0; v < shards.vocab; ++v) { row.push_back(normal(generator)); }
  }
  parameters[1].top_k = 40;
  parameters[2].top_p = 0.9f;
  parameters[3].temperature = 0.0f;
  std::vector<std::vector<double>> expected;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    team::serial team;
    expected.push_back(look_at(team, {rows[i].data(), shards.vocab}, parameters[i]));
  }
  machines all(ranks, count, first_round);
  std::vector<std::vector<std::vector<double>>> found(static_cast<std::size_t>(ranks));
  for (auto& of : found) { of.resize(rows.size()); }
  all.launch(threads, [&](auto& inner, auto& others, std::int32_t rank, std::int32_t box) {
    using link = std::remove_reference_t<decltype(others)>;
    team::sharded<team::simulated, link> team(inner, others, shards.of(rank));
    const auto i = static_cast<std::size_t>(box);
    std::vector<double> mine = look_at(team, {rows[i].data(), shards.vocab}, parameters[i]);
    if (team.rank() == 0) { found[static_cast<std::size_t>(rank)][i] = std::move(mine); }
  });
  for (const auto& of_rank : found) { CHECK(of_rank == expected); }
}

}  // namespace

TEST_CASE("messages of every length arrive, launch after launch") {
  SUBCASE("two ranks") {
    machines all(2, 3);
    exchange_messages(all, 2, 4, 3);
  }
  SUBCASE("five ranks") {
    machines all(5, 1);
    exchange_messages(all, 5, 2, 2);
  }
  SUBCASE("a rank by itself") {
    machines all(1, 1);
    exchange_messages(all, 1, 2, 2);
  }
  SUBCASE("where the numbers of rounds begin again") {
    for (std::uint32_t before = 2; before < 60; before += 7) {
      machines all(3, 2, team::mailboxes::last_round - before);
      all.leave_words_of(2, 3);
      exchange_messages(all, 3, 2, 2);
    }
  }
}

TEST_CASE("rows have the bits of one rank") {
  compare_rows({{0, 1, 3}, 9000}, 4, 0);
  compare_rows({{0, 2, 2, 3}, 9000}, 3, 0);
  compare_rows({{0, 10, 32}, 128256}, 4, team::mailboxes::last_round - 5);
}

TEST_CASE("who waits in vain for a rank says for which, and ends") {
  machines all(3, 2);
  const team::mailboxes boxes = all.of(0, std::chrono::milliseconds(20));
  const team::mailboxes other = all.of(1, std::chrono::milliseconds(20));
  team::mailbox_storage storage, storage_of_other;
  using thread = thread_on_host<team::serial>;
  team::serial team, team_of_other;
  team::mailbox_link<thread> to_others(thread{&team, 1}, storage, boxes);
  team::mailbox_link<thread> from_other(thread{&team_of_other, 1}, storage_of_other, other);
  // Rank 1 says something, rank 2 nothing.
  std::thread speaks([&] {
    from_other.outbox(2)[0] = 1;
    CHECK_THROWS_AS(from_other.exchange(team_of_other, 2), left_body);
  });
  to_others.outbox(2)[0] = 1;
  CHECK_THROWS_AS(to_others.exchange(team, 2), left_body);
  speaks.join();
  CHECK(*boxes.broken == *boxes.reported);
  CHECK(team::mailboxes::box_of(*boxes.reported) == 1);
  CHECK(team::mailboxes::silent_rank_of(*boxes.reported) == 2);
  CHECK(*all.of(2).broken == 0);
}

}  // namespace hunch::test::mailboxes_test
