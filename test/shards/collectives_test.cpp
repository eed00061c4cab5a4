// SPDX-License-Identifier: Apache-2.0

// Collectives within a process: all ranks get the same, and what becomes of a round in which one of
// them fails, is silent or sends something else.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/collective/collective.hpp>
#include <hunch/collective/none.hpp>
#include <hunch/collective/threads.hpp>

namespace hunch::test::collectives_test {
namespace {

using reason = collective_error::reason;

/// Runs body(collective) on each rank and returns what each has to complain of.
template <class Body>
std::vector<std::string> on_threads(std::int32_t ranks, const Body& body,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  collective::threads::group group(ranks, timeout);
  std::vector<std::string> complaints(static_cast<std::size_t>(ranks));
  std::vector<std::thread> running;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    running.emplace_back([&, rank] {
      std::string& complaint = complaints[static_cast<std::size_t>(rank)];
      try {
        collective::threads c(group, rank);
        complaint = body(c);
      } catch (const std::exception& error) { complaint = error.what(); }
    });
  }
  for (std::thread& thread : running) { thread.join(); }
  return complaints;
}

std::vector<std::string> nothing_from(std::int32_t ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// Byte i of what a rank sends in a round.
std::byte content(std::int32_t rank, std::size_t round, std::size_t i) {
  return static_cast<std::byte>((static_cast<std::size_t>(rank) * 131 + round * 31 + i * 7) % 251);
}

/// Gathers `bytes` of each rank, and looks at all of them.
template <class C>
std::string gather(C& c, std::size_t bytes, std::size_t round) {
  std::vector<std::byte> mine(bytes);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(c.size()));
  for (std::size_t i = 0; i < bytes; ++i) { mine[i] = content(c.rank(), round, i); }
  c.all_gather(mine.data(), bytes, all.data());
  for (std::int32_t rank = 0; rank < c.size(); ++rank) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (all[static_cast<std::size_t>(rank) * bytes + i] != content(rank, round, i)) {
        return "round " + std::to_string(round) + ": byte " + std::to_string(i) + " of rank " +
               std::to_string(rank);
      }
    }
  }
  return "";
}

/// The complaint where f() does not throw what it should.
template <class F>
std::string expect(const F& f, reason why, std::int32_t rank) {
  try {
    f();
  } catch (const collective_error& error) {
    if (error.why() == why && error.rank() == rank) { return ""; }
    return error.what();
  }
  return "nothing was thrown";
}

/// For each rank, what holds on collectives of any size.
struct usual_rounds {
  template <class C>
  std::string operator()(C& c) const {
    std::string all;
    std::size_t round = 0;
    for (const std::size_t bytes : {0u, 1u, 512u, 20'000u, 3'000'000u, 0u, 7u}) {
      all += gather(c, bytes, round++);
    }
    for (std::int32_t i = 0; i < 5000; ++i) {
      all += gather(c, round % 40, round);
      ++round;
    }

    // In the place where it belongs already.
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(c.size()), -1);
    std::int32_t& own = ranks[static_cast<std::size_t>(c.rank())];
    own = c.rank();
    c.all_gather(&own, sizeof own, ranks.data());
    for (std::int32_t rank = 0; rank < c.size(); ++rank) {
      if (ranks[static_cast<std::size_t>(rank)] != rank) { all += "not in place"; }
    }
    return all + reduced(c);
  }

  template <class C>
  static std::string reduced(C& c) {
    std::string all;
    const std::int32_t last = c.size() - 1;

    // A sum of which each order rounds in another way.
    const float parts[] = {1.0f, 1e8f, -1e8f, 3.0f, 1e-3f};
    float sum = parts[0];
    for (std::int32_t rank = 1; rank <= last; ++rank) { sum += parts[rank % 5]; }
    float sums[] = {parts[c.rank() % 5], static_cast<float>(c.rank())};
    all_reduce(c, sums, 2, [](float a, float b) { return a + b; });
    if (sums[0] != sum || sums[1] != static_cast<float>(last * (last + 1) / 2)) { all += "sum"; }

    std::int64_t largest = (c.rank() * 3) % 5;
    std::int64_t expected = 0;
    const auto max = [](std::int64_t a, std::int64_t b) { return a < b ? b : a; };
    for (std::int32_t rank = 0; rank <= last; ++rank) { expected = max(expected, (rank * 3) % 5); }
    all_reduce(c, &largest, 1, max);
    if (largest != expected) { all += "max"; }

    // Not commutative: the last rank's; and more than lies on the stack.
    std::vector<std::int32_t> many(3000, c.rank());
    all_reduce(c, many.data(), many.size(), [](std::int32_t, std::int32_t b) { return b; });
    if (many != std::vector<std::int32_t>(3000, last)) { all += "order"; }
    all_reduce(c, many.data(), 0, [](std::int32_t, std::int32_t b) { return b; });

    struct candidate {
      float score;
      std::int32_t rank;
    };
    candidate best[] = {{1.0f, c.rank()},
                        {static_cast<float>(c.rank() / 2), c.rank()},
                        {-static_cast<float>(c.rank()), c.rank()}};
    arg_max(c, best, 3, [](const candidate& of) { return of.score; });
    if (best[0].rank != 0) { all += "the lowest of all"; }
    if (best[1].rank != last / 2 * 2 || best[1].score != static_cast<float>(last / 2)) {
      all += "the lowest of two";
    }
    if (best[2].rank != 0) { all += "negative keys"; }

    for (std::int32_t root = 0; root <= last; ++root) {
      candidate value{0.5f, c.rank() + 10};
      broadcast(c, value, root);
      if (value.rank != root + 10) { all += "broadcast"; }
    }
    for (const std::int32_t root : {-1, c.size()}) {
      candidate value{};
      try {
        broadcast(c, value, root);
        all += "root is not looked at";
      } catch (const std::invalid_argument&) {}
    }
    return all;
  }
};

TEST_CASE("all ranks get what all have sent, in rank order") {
  collective::none none;
  CHECK(usual_rounds()(none) == "");
  for (const std::int32_t ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    CHECK(on_threads(ranks, usual_rounds()) == nothing_from(ranks));
  }
}

TEST_CASE("a rank that is alone fails before nobody") {
  collective::none none;
  none.fail();
  CHECK(gather(none, 5, 1) == "");
  const auto alone = [](auto& c) {
    c.fail();
    return gather(c, 5, 1);
  };
  CHECK(on_threads(1, alone) == nothing_from(1));
}

TEST_CASE("others learn which rank has failed, and all go on together") {
  for (const std::int32_t ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    const auto each_in_turn = [](auto& c) {
      std::string all;
      for (std::int32_t step = 0; step < 300; ++step) {
        const std::size_t round = static_cast<std::size_t>(step);
        const std::size_t bytes = step % 7 == 6 ? 100'000 : round % 3 * 50;
        const std::int32_t failing = step % c.size();
        if (c.rank() == failing) {
          c.fail();
        } else {
          all += expect([&] { gather(c, bytes, round); }, reason::failed, failing);
        }
        if (step % 2 == 0) { all += gather(c, bytes, round + 1); }
      }
      return all;
    };
    CHECK(on_threads(ranks, each_in_turn) == nothing_from(ranks));
  }
}

TEST_CASE("of two ranks that fail in one round the lower is named") {
  const auto two_of_three = [](auto& c) {
    std::string all;
    for (std::size_t round = 0; round < 50; ++round) {
      if (c.rank() == 0) {
        all += expect([&] { gather(c, 100, round); }, reason::failed, 1);
      } else {
        c.fail();
      }
      all += gather(c, 100, round);
    }
    // And all at once.
    c.fail();
    return all + gather(c, 10, 0);
  };
  CHECK(on_threads(3, two_of_three) == nothing_from(3));
}

TEST_CASE("values are as they were where a rank has failed") {
  const auto kept = [](auto& c) -> std::string {
    std::int32_t value = 5 + c.rank();
    if (c.rank() == 1) {
      c.fail();
      c.fail();
      return "";
    }
    const auto reduce = [&] {
      all_reduce(c, &value, 1, [](std::int32_t a, std::int32_t b) { return a + b; });
    };
    std::string all = expect(reduce, reason::failed, 1);
    all += expect([&] { broadcast(c, value, 1); }, reason::failed, 1);
    return value == 5 + c.rank() ? all : "changed";
  };
  CHECK(on_threads(3, kept) == nothing_from(3));
}

TEST_CASE("a rank that is silent is named in time, and nothing works any more") {
  constexpr std::chrono::milliseconds timeout(100);
  const auto silent = [&](std::int32_t ranks, std::int32_t who) {
    std::atomic<std::int32_t> given_up{0};
    const auto body = [&](auto& c) {
      std::string all;
      if (c.rank() == who) {
        while (given_up < ranks - 1) { std::this_thread::sleep_for(timeout / 10); }
      } else {
        all += expect([&] { gather(c, 40, 1); }, reason::silent, who);
        ++given_up;
      }
      const auto before = std::chrono::steady_clock::now();
      for (std::size_t round = 2; round < 12; ++round) {
        all += expect([&] { gather(c, 40, round); }, reason::silent, who);
        c.fail();
      }
      if (std::chrono::steady_clock::now() - before > 10 * timeout) { all += "it waits again"; }
      return all;
    };
    return on_threads(ranks, body, timeout);
  };
  CHECK(silent(2, 1) == nothing_from(2));
  CHECK(silent(3, 0) == nothing_from(3));
}

TEST_CASE("a rank that fails does not wait for ever") {
  const auto silent = [](auto& c) {
    if (c.rank() == 1) { return std::string(); }
    c.fail();
    return expect([&] { gather(c, 40, 0); }, reason::silent, 1);
  };
  CHECK(on_threads(2, silent, std::chrono::milliseconds(100)) == nothing_from(2));
}

TEST_CASE("a rank that sends another number of bytes than rank 0 is named") {
  const auto differing = [](std::int32_t who, std::size_t bytes) {
    return [=](auto& c) {
      std::string all = gather(c, 1000, 0);
      for (std::size_t round = 1; round < 4; ++round) {
        all += expect([&] { gather(c, c.rank() == who ? bytes : 100, round); }, reason::mismatched,
                      who);
      }
      return all;
    };
  };
  CHECK(on_threads(2, differing(1, 101)) == nothing_from(2));
  CHECK(on_threads(3, differing(2, 0)) == nothing_from(3));
  CHECK(on_threads(5, differing(1, 50'000)) == nothing_from(5));
}

TEST_CASE("errors say which collective, which rank and what") {
  const collective_error error("hunch::collective::mpi", reason::failed, 1);
  CHECK(std::string(error.what()) == "hunch::collective::mpi: rank 1 has failed");
  const collective_error more("owner", reason::silent, 0, "no route");
  CHECK(std::string(more.what()) == "owner: rank 0 is silent: no route");
}

TEST_CASE("groups and ranks that cannot be are refused") {
  using group = collective::threads::group;
  CHECK_THROWS_AS(group(0), std::invalid_argument);
  CHECK_THROWS_AS(group(-1), std::invalid_argument);
  CHECK_THROWS_AS(group(1, std::chrono::milliseconds(0)), std::invalid_argument);
  group two(2, std::chrono::milliseconds::max());
  CHECK_THROWS_AS(collective::threads(two, -1), std::invalid_argument);
  CHECK_THROWS_AS(collective::threads(two, 2), std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test::collectives_test
