// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <typeinfo>

#include <hunch/team/simulated.hpp>
#include "body_census.hpp"

namespace hunch::test {

/// A body as one type, for teams of threads.
struct body_of_threads {
  const void* body;
  void (*call)(const void*, team::simulated&, std::int32_t);

  void operator()(team::simulated& team, std::int32_t index) const { call(body, team, index); }
};

/// `team::simulated::launch`, of which what starts the threads is compiled once, and not for every
/// body. Notes the body in the census, for the threads may race in it.
template <class Body>
void launch_threads(std::int32_t blocks, std::int32_t ranks, std::int32_t count, const Body& body) {
  if (count > 0 && blocks * ranks > 1) { body_census::of_process().note(typeid(Body), blocks > 1); }
  const body_of_threads erased{&body,
                               [](const void* of, team::simulated& team, std::int32_t index) {
                                 (*static_cast<const Body*>(of))(team, index);
                               }};
  team::simulated::launch(blocks, ranks, count, erased);
}

}  // namespace hunch::test
