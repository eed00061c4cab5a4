// SPDX-License-Identifier: Apache-2.0

// A negative control for the race check: a team whose `lanes` forgets its barriers. Under
// ThreadSanitizer this program must report a data race; a run without a report fails the test.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <hunch/distribution/detail/draw.hpp>
#include <hunch/team/simulated.hpp>

namespace {

class forgetful : public hunch::team::simulated {
 public:
  using simulated::simulated;

  template <class F>
  F lanes(std::int64_t begin, std::int64_t end, F f) {
    for (std::int32_t l = rank(); l < hunch::team::lane_count; l += size()) {
      double sum = 0.0;
      for (std::int64_t i = begin + l; i < end; i += hunch::team::lane_count) {
        sum += static_cast<double>(f(i));
      }
      const_cast<hunch::team::shared_scratch&>(scratch()).lanes[l] = sum;
    }
    for (std::int32_t s = rank(); s < hunch::team::strand_count; s += size()) {
      const_cast<hunch::team::shared_scratch&>(scratch()).strands[s] =
          hunch::team::strand_sum(scratch().lanes, s);
    }
    return f;
  }
};

template <class Team>
void run(std::int32_t ranks) {
  hunch::team::simulated::storage shared(1, ranks);
  std::vector<std::thread> threads;
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(ranks));  // keeps the draws alive
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&shared, &drawn, rank] {
      Team team(shared, rank);
      for (std::uint64_t word = 0; word < 50; ++word) {
        drawn[static_cast<std::size_t>(rank)] += hunch::kernel::draw(
            team, 5000, [](std::int64_t) { return 1.0f; }, word << 57);
      }
    });
  }
  for (std::thread& t : threads) { t.join(); }
  std::printf("%lld\n", static_cast<long long>(drawn[0]));
}

}  // namespace

int main() {
  if (std::getenv("HUNCH_PLANTED_RACE") != nullptr) {
    run<forgetful>(4);
  } else {
    run<hunch::team::simulated>(4);
  }
  std::puts("done");
}
