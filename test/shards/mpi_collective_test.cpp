// SPDX-License-Identifier: Apache-2.0

// The collective over processes. Run by mpirun with two or three ranks: a line per check, and a
// status other than 0 where a rank has something to complain of.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hunch/collective/mpi.hpp>

namespace hunch::test::mpi_collective_test {
namespace {

using reason = collective_error::reason;
using hunch::collective::mpi;

/// Byte i of what a rank sends in a round.
std::byte content(std::int32_t rank, std::size_t round, std::size_t i) {
  return static_cast<std::byte>((static_cast<std::size_t>(rank) * 131 + round * 31 + i * 7) % 251);
}

/// Gathers `bytes` of each rank, and looks at all of them.
std::string gather(mpi& c, std::size_t bytes, std::size_t round) {
  std::vector<std::byte> mine(bytes);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(c.size()));
  for (std::size_t i = 0; i < bytes; ++i) { mine[i] = content(c.rank(), round, i); }
  c.all_gather(mine.data(), bytes, all.data());
  for (std::int32_t rank = 0; rank < c.size(); ++rank) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (all[static_cast<std::size_t>(rank) * bytes + i] != content(rank, round, i)) {
        return message({"round ", round, ": byte ", i, " of rank ", rank, "; "});
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
    return message({error.what(), " instead of rank ", rank, "; "});
  }
  return "nothing was thrown; ";
}

std::string sizes(mpi& c) {
  std::string all;
  std::size_t round = 0;
  for (const std::size_t bytes : {0u, 1u, 512u, 4096u, 32'768u, 32'769u, 5'000'000u, 0u, 7u}) {
    all += gather(c, bytes, round++);
  }
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(c.size()), -1);
  std::int32_t& own = ranks[static_cast<std::size_t>(c.rank())];
  own = c.rank();
  c.all_gather(&own, sizeof own, ranks.data());
  for (std::int32_t rank = 0; rank < c.size(); ++rank) {
    if (ranks[static_cast<std::size_t>(rank)] != rank) { all += "not in place; "; }
  }
  return all;
}

std::string many_rounds(mpi& c) {
  std::string all;
  for (std::size_t round = 0; round < 5000; ++round) { all += gather(c, round % 40, round); }
  return all;
}

std::string reductions(mpi& c) {
  std::string all;
  const std::int32_t last = c.size() - 1;
  // A sum of which each order rounds in another way.
  const float parts[] = {1.0f, 1e8f, -1e8f};
  float expected = parts[0];
  for (std::int32_t rank = 1; rank <= last; ++rank) { expected += parts[rank % 3]; }
  float sum = parts[c.rank() % 3];
  all_reduce(c, &sum, 1, [](float a, float b) { return a + b; });
  if (sum != expected) { all += "sum; "; }

  std::vector<std::int32_t> many(3000, c.rank());
  all_reduce(c, many.data(), many.size(),
             [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
  if (many != std::vector<std::int32_t>(3000, last)) { all += "max; "; }

  struct candidate {
    float score;
    std::int32_t rank;
  };
  candidate best[] = {{1.0f, c.rank()}, {static_cast<float>(c.rank() / 2), c.rank()}};
  arg_max(c, best, 2, [](const candidate& of) { return of.score; });
  if (best[0].rank != 0 || best[1].rank != last / 2 * 2) { all += "ties; "; }

  for (std::int32_t root = 0; root <= last; ++root) {
    candidate value{0.5f, c.rank() + 10};
    broadcast(c, value, root);
    if (value.rank != root + 10) { all += "broadcast; "; }
  }
  return all;
}

std::string failing(mpi& c) {
  std::string all;
  for (std::int32_t step = 0; step < 300; ++step) {
    const std::size_t round = static_cast<std::size_t>(step);
    const std::size_t bytes = step % 7 == 6 ? 300'000 : round % 3 * 50;
    const std::int32_t who = step % c.size();
    if (c.rank() == who) {
      c.fail();
    } else {
      all += expect([&] { gather(c, bytes, round); }, reason::failed, who);
    }
    if (step % 2 == 0) { all += gather(c, bytes, round + 1); }
  }
  return all;
}

std::string failing_together(mpi& c) {
  std::string all;
  const std::int32_t last = c.size() - 1;
  for (std::size_t round = 0; round < 100; ++round) {
    if (c.rank() == 0 || c.rank() == last) {
      c.fail();
    } else {
      all += expect([&] { gather(c, 100, round); }, reason::failed, 0);
    }
    all += gather(c, 100, round);
  }
  c.fail();
  return all + gather(c, 10, 0);
}

/// The last rank comes only after the others have given up.
std::string silent(std::size_t bytes, bool fails) {
  constexpr std::chrono::milliseconds timeout(100);
  std::string all;
  mpi c(MPI_COMM_WORLD, timeout);
  const std::int32_t who = c.size() - 1;
  if (c.rank() != who) {
    if (fails) {
      c.fail();
    } else {
      all += expect([&] { gather(c, bytes, 0); }, reason::silent, who);
    }
    const auto before = std::chrono::steady_clock::now();
    for (std::size_t round = 1; round < 11; ++round) {
      all += expect([&] { gather(c, 40, round); }, reason::silent, who);
      c.fail();
    }
    if (std::chrono::steady_clock::now() - before > 10 * timeout) { all += "it waits again; "; }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return all;
}

/// The last rank sends another number of bytes than the others.
std::string mismatched(std::size_t bytes, std::size_t other) {
  std::string all;
  mpi c(MPI_COMM_WORLD, std::chrono::seconds(10));
  const std::int32_t who = c.size() - 1;
  all += gather(c, 1000, 0);
  for (std::size_t round = 1; round < 4; ++round) {
    all +=
        expect([&] { gather(c, c.rank() == who ? other : bytes, round); }, reason::mismatched, who);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return all;
}

std::string refused(mpi& c) {
  std::string all;
  try {
    c.all_gather(nullptr, std::size_t(1) << 31, nullptr);
    all += "more than MPI counts to; ";
  } catch (const std::invalid_argument&) {}
  try {
    mpi impatient(MPI_COMM_WORLD, std::chrono::milliseconds(0));
    all += "no time to wait; ";
  } catch (const std::invalid_argument&) {}
  return all + gather(c, 10, 1);
}

/// Whether all ranks are content; says what each complains of.
template <class Check>
bool passes(const char* name, const Check& check) {
  std::string complaint;
  try {
    complaint = check();
  } catch (const std::exception& error) { complaint = error.what(); }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int bad = complaint.empty() ? 0 : 1;
  if (bad != 0) { std::printf("rank %d: %s: %s\n", rank, name, complaint.c_str()); }
  int any_bad = 0;
  MPI_Allreduce(&bad, &any_bad, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) { std::printf("%s: %s\n", any_bad == 0 ? "passed" : "FAILED", name); }
  std::fflush(stdout);
  return any_bad == 0;
}

bool all_pass() {
  bool good = true;
  {
    mpi c(MPI_COMM_WORLD);
    const auto check = [&](const char* name, std::string (*body)(mpi&)) {
      good = passes(name, [&] { return body(c); }) && good;
    };
    check("all ranks get what all have sent", sizes);
    check("many small rounds", many_rounds);
    check("reductions in rank order", reductions);
    check("others learn which rank has failed", failing);
    check("several ranks fail in one round", failing_together);
    check("what cannot be is refused", refused);
    check("and all are still in the same round", many_rounds);
  }
  const auto check = [&](const char* name, const auto& body) { good = passes(name, body) && good; };
  check("a silent rank", [] { return silent(40, false); });
  check("a silent rank that much is sent to", [] { return silent(3'000'000, false); });
  check("a rank fails while another is silent", [] { return silent(0, true); });
  check("one byte too many", [] { return mismatched(100, 101); });
  check("one byte too few, of many", [] { return mismatched(2'000'001, 2'000'000); });
  check("nothing instead of something", [] { return mismatched(100, 0); });
  check("much instead of little", [] { return mismatched(100, 2'000'000); });
  check("little instead of much", [] { return mismatched(2'000'000, 100); });
  check("others are not disturbed", [] {
    mpi c(MPI_COMM_WORLD);
    return sizes(c);
  });
  return good;
}

}  // namespace
}  // namespace hunch::test::mpi_collective_test

int main(int argc, char** argv) {
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) { return 1; }
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool good = size >= 2;
  if (good) {
    good = hunch::test::mpi_collective_test::all_pass();
  } else {
    std::printf("needs two ranks, by mpirun\n");
  }
  MPI_Finalize();
  return good ? 0 : 1;
}
